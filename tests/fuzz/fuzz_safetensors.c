/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_safetensors.c - any bytes as a Safetensors file: an error, or tensors that meet the contract
 * of safetensors.h.
 */
#include "base/mem.h"
#include "safetensors/safetensors.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_safetensors: %s\n", what);
    abort();
}

static void check_tensor(const safetensor *t, uint64_t header, uint64_t size)
{
    uint64_t values = 1;
    demand(t->name.n >= 1 && t->name.n <= SAFETENSORS_MAX_NAME, "length of a name");
    for (size_t i = 0; i < t->name.n; i++)
        demand((unsigned char)t->name.p[i] >= ' ' && t->name.p[i] != 0x7F, "control character");
    demand(t->offset >= header && t->offset <= size && t->bytes <= size - t->offset,
           "data outside of the file");
    demand(t->n_dims <= SAFETENSORS_MAX_DIMS, "number of dimensions");
    for (uint32_t i = 0; i < t->n_dims; i++)
        values *= t->dims[i];
    demand(values == t->values, "number of values");
    if (t->type != SAFETENSORS_OTHER)
        demand(t->bytes == values * (t->type == SAFETENSORS_F32 ? 4 : 2), "size of the data");
}

static void check_all(const safetensors *s, uint64_t header, uint64_t size)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < safetensors_count(s); i++) {
        const safetensor *t = safetensors_at(s, i);
        check_tensor(t, header, size);
        bytes += t->bytes;
        for (uint32_t k = 0; k < i; k++) {
            const safetensor *other = safetensors_at(s, k);
            demand(!str_eq(t->name, other->name), "a name twice");
            demand(t->bytes == 0 || other->bytes == 0 ||
                       t->offset >= other->offset + other->bytes ||
                       other->offset >= t->offset + t->bytes,
                   "overlapping data");
        }
    }
    demand(bytes == size - header, "data without a tensor");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const mem_stats before = mem_count();
    mote_error err = {0};
    safetensors *s = NULL;
    uint64_t header = 0;
    mote_status status = MOTE_E_FORMAT;
    if (size >= 8)
        status = safetensors_header_bytes(data, size, &header, &err);
    if (status == MOTE_OK)
        status = safetensors_read(&s, data, header, size, &err);
    /* A node of the header has 56 bytes and at least two characters. */
    demand(mem_count().bytes - before.bytes <= 16384 + 256 * (uint64_t)size, "too much memory");
    if (status == MOTE_OK)
        check_all(s, header, size);
    else
        demand(s == NULL && (size < 8 || err.text[0] != 0), "failed without an error text");
    safetensors_free(s);
    demand(mem_count().blocks == before.blocks, "memory leak");
    return 0;
}
