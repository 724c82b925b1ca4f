/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_gguf.c - any bytes as a GGUF file: an error, or a gguf that meets the contract of gguf.h.
 *
 * Bytes with the word "GGUF" in several places are also read as the parts of a split model, one
 * from each of these places to the next.
 */
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "support/gguf_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_gguf: %s\n", what);
    abort();
}

static void read_one(const uint8_t *data, size_t size)
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
}

enum { MAX_PARTS = 4 };

static uint32_t find_parts(const uint8_t *data, size_t size, test_range parts[MAX_PARTS])
{
    uint32_t n = 0;
    for (size_t i = 0; i + 4 <= size && n < MAX_PARTS; i++)
        if (memcmp(data + i, "GGUF", 4) == 0)
            parts[n++] = (test_range){data + i, size - i};
    for (uint32_t i = 0; i + 1 < n; i++)
        parts[i].n = (uint64_t)(parts[i + 1].bytes - parts[i].bytes);
    return n;
}

static void read_parts(const uint8_t *data, size_t size)
{
    const mem_stats before = mem_count();
    test_range ranges[MAX_PARTS];
    gguf *parts[MAX_PARTS] = {NULL};
    mote_error err = {0};
    gguf_split split;
    const uint32_t n = find_parts(data, size, ranges);
    bool all = n > 1;
    for (uint32_t i = 0; i < n && all; i++)
        all = gguf_read(&parts[i], ranges[i].bytes, ranges[i].n, &err) == MOTE_OK &&
              gguf_split_of(parts[i], &split, &err) == MOTE_OK;
    if (all && gguf_join(parts, n, &err) == MOTE_OK) {
        const char *fault = test_gguf_parts_fault(parts[0], ranges, n);
        demand(fault == NULL, fault);
        for (uint32_t i = 1; i < n; i++)
            demand(parts[i] == NULL, "a joined part is left");
    } else if (n > 1) {
        demand(err.text[0] != 0, "parts failed without an error text");
    }
    for (uint32_t i = 0; i < n; i++)
        gguf_free(parts[i]);
    demand(mem_count().blocks == before.blocks, "memory leak in parts");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_one(data, size);
    read_parts(data, size);
    return 0;
}
