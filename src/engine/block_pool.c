/* SPDX-License-Identifier: Apache-2.0 */
/* block_pool.c - reference-counted blocks on one mapping; see block_pool.h. */
#include "engine/block_pool.h"

#include "base/ckd.h"
#include "base/mem.h"

#include <assert.h>

bool blocks_measure(block_shape shape, uint64_t *total)
{
    uint64_t whole;
    if (shape.n > UINT32_MAX || !ckd_mul_u64(shape.n, shape.bytes, &whole) || whole > SIZE_MAX / 4)
        return false;
    *total = whole - shape.n_zero * shape.bytes + shape.n * 2 * sizeof(uint32_t);
    return true;
}

/* Bytes of all blocks that can be written. */
static size_t blocks_writable_bytes(const block_pool *p)
{
    return p->n * p->bytes - p->zeros;
}

mote_status blocks_init(block_pool *p, block_shape shape, const char *what, mote_error *err)
{
    const uint32_t n = (uint32_t)shape.n;
    const size_t bytes = shape.bytes;
    *p = (block_pool){.bytes = bytes, .zeros = (size_t)shape.n_zero * bytes, .n = n, .n_free = n};
    p->memory = mem_map(p->zeros, blocks_writable_bytes(p));
    p->refs = mem_new(n, sizeof *p->refs);
    p->free = mem_new(n, sizeof *p->free);
    if (p->memory == NULL || p->refs == NULL || p->free == NULL) {
        blocks_fini(p);
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u %s of %zu bytes each", n, what,
                       bytes);
    }
    for (uint32_t i = 0; i < n; i++)
        p->free[i] = n - 1 - i;
    return MOTE_OK;
}

void blocks_fini(block_pool *p)
{
    mem_unmap(p->memory, p->zeros, blocks_writable_bytes(p));
    mem_free(p->refs);
    mem_free(p->free);
    *p = (block_pool){0};
}

uint32_t blocks_take(block_pool *p)
{
    assert(p->n_free > 0);
    uint32_t block = p->free[--p->n_free];
    p->refs[block] = 1;
    return block;
}

void blocks_share(block_pool *p, uint32_t block)
{
    assert(p->refs[block] > 0);
    p->refs[block]++;
}

void blocks_release(block_pool *p, uint32_t block)
{
    assert(p->refs[block] > 0);
    if (--p->refs[block] == 0)
        p->free[p->n_free++] = block;
}
