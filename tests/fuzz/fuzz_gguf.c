/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_gguf.c - any bytes as a GGUF file: an error, or a gguf that meets the contract of gguf.h. */
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "support/gguf_walk.h"

#include <stdio.h>
#include <stdlib.h>

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_gguf: %s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const mem_stats before = mem_count();
    mote_error err = {0};
    gguf *g;
    const mote_status status = gguf_read(&g, data, size, &err);
    /* Memory is a small multiple of the input size. */
    demand(mem_count().bytes - before.bytes <= 1024 + 16 * (uint64_t)size, "too much memory");
    if (status == MOTE_OK) {
        const char *fault = test_gguf_fault(g, data, size);
        demand(fault == NULL, fault);
        gguf_free(g);
    } else {
        demand(g == NULL && err.status == status && err.text[0] != 0,
               "failed without an error text");
    }
    demand(mem_count().blocks == before.blocks, "memory leak");
    return 0;
}
