/* SPDX-License-Identifier: Apache-2.0 */
/* block_pool.c - see block_pool.h. */
#include "engine/block_pool.h"

#include "base/ckd.h"
#include "base/mem.h"

#include <assert.h>

bool blocks_measure(uint64_t n, size_t bytes, uint64_t *total)
{
    uint64_t memory;
    return n <= UINT32_MAX && ckd_mul_u64(n, bytes, &memory) &&
           ckd_add_u64(memory, n * 2 * sizeof(uint32_t), total) && *total <= SIZE_MAX / 2;
}

mote_status blocks_init(block_pool *p, uint32_t n, size_t bytes, const char *what, mote_error *err)
{
    *p = (block_pool){.bytes = bytes, .n = n, .n_free = n};
    p->memory = mem_map((size_t)n * bytes);
    p->refs = mem_new(n, sizeof *p->refs);
    p->free = mem_new(n, sizeof *p->free);
    if (p->memory == NULL || p->refs == NULL || p->free == NULL) {
        blocks_fini(p);
        return err_set(err, MOTE_E_MEMORY, "no memory for %u %s of %zu bytes", n, what, bytes);
    }
    for (uint32_t i = 0; i < n; i++)
        p->free[i] = n - 1 - i;
    return MOTE_OK;
}

void blocks_fini(block_pool *p)
{
    mem_unmap(p->memory, (size_t)p->n * p->bytes);
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
