/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_hostile.h - reads an untrusted GGUF file and checks the result.
 *
 * For any bytes, gguf_read returns an error or a gguf that meets the contract of gguf.h, and leaks
 * no memory. The file ends right before a page without read access, so a read past the end crashes
 * in every build.
 */
#ifndef MOTE_TESTS_UNIT_GGUF_HOSTILE_H
#define MOTE_TESTS_UNIT_GGUF_HOSTILE_H

#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "base/mem.h"
#include "support/gguf_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { GUARDED_BYTES = 1 << 16 };

static unsigned char *guarded; /* GUARDED_BYTES bytes, then a page without access */

static inline int make_guarded(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guarded = mmap(NULL, GUARDED_BYTES + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    return guarded == MAP_FAILED ? -1 : mprotect(guarded + GUARDED_BYTES, page, PROT_NONE);
}

/* A copy that ends at the page without access. */
static inline unsigned char *place_guarded(const unsigned char *bytes, size_t n)
{
    assert_true(n <= GUARDED_BYTES);
    if (n > 0)
        memcpy(guarded + GUARDED_BYTES - n, bytes, n);
    return guarded + GUARDED_BYTES - n;
}

/* Reads the file; on success checks the contract of gguf.h. */
static inline mote_status read_and_check(const unsigned char *file, size_t n, mote_error *err)
{
    const mem_stats before = mem_count();
    gguf *g;
    err->text[0] = 0;
    const mote_status status = gguf_read(&g, file, n, err);
    if (status == MOTE_OK) {
        const char *fault = test_gguf_fault(g, file, n);
        if (fault != NULL)
            fail_msg("an invalid file was accepted: %s", fault);
        gguf_free(g);
    } else {
        assert_null(g);
        assert_true(status == MOTE_E_FORMAT || status == MOTE_E_UNSUPPORTED);
        assert_true(err->text[0] != 0 && err->status == status);
    }
    assert_int_equal(mem_count().bytes, before.bytes);
    return status;
}

#endif
