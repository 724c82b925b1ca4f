/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_hostile.h - reads a file that may lie and checks that this did no harm.
 *
 * Whatever the bytes, gguf_read ends in an error or in a directory that keeps
 * its promises, and gives all memory back. The file always ends right before a
 * page that may not be read, so a read past the end is a crash in every build.
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

enum { GUARDED_ROOM = 1 << 16 };

static unsigned char *guarded; /* GUARDED_ROOM bytes, then a forbidden page */

static inline int make_guarded(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    guarded =
        mmap(NULL, GUARDED_ROOM + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return guarded == MAP_FAILED ? -1 : mprotect(guarded + GUARDED_ROOM, page, PROT_NONE);
}

/* A copy that ends at the forbidden page. */
static inline unsigned char *place_guarded(const unsigned char *bytes, size_t n)
{
    assert_true(n <= GUARDED_ROOM);
    if (n > 0)
        memcpy(guarded + GUARDED_ROOM - n, bytes, n);
    return guarded + GUARDED_ROOM - n;
}

/* Reads and, if that works, checks every promise. */
static inline mote_status read_and_check(const unsigned char *file, size_t n, mote_error *err)
{
    const mem_stats before = mem_count();
    gguf *g;
    err->text[0] = 0;
    const mote_status status = gguf_read(&g, file, n, err);
    if (status == MOTE_OK) {
        const char *fault = test_gguf_fault(g, file, n);
        if (fault != NULL)
            fail_msg("a file was taken although this is wrong: %s", fault);
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
