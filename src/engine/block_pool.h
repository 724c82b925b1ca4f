/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_pool.h - a pool of equal, counted blocks: pages, states, tails.
 *
 * All blocks are reserved as address space when the engine is made; the system
 * gives memory to those that are written. Handing out and giving back never
 * allocates and cannot fail: whoever takes has been promised a block or has counted the free ones.
 */
#ifndef MOTE_ENGINE_BLOCK_POOL_H
#define MOTE_ENGINE_BLOCK_POOL_H

#include "base/err.h"

typedef struct block_pool {
    unsigned char *memory; /* [n][bytes], zero until first used */
    size_t bytes;          /* of a block */
    size_t zeros;          /* bytes at the start that nobody may write */
    uint32_t n, n_free;
    uint32_t *refs; /* [n], 0: free */
    uint32_t *free; /* [n], a stack of the free ones */
} block_pool;

/* How many blocks of which size. The first n_zero of the n stay all zero for ever, and take no
 * memory. */
typedef struct block_shape {
    uint64_t n, n_zero;
    size_t bytes;
} block_shape;

/* What blocks_init takes from base/mem; false: it does not fit a size_t. */
bool blocks_measure(block_shape shape, uint64_t *total);
/* The shape has been measured. */
mote_status blocks_init(block_pool *p, block_shape shape, const char *what, mote_error *err);
void blocks_fini(block_pool *p);

/* A block with one reference. Its content is whatever it was. */
uint32_t blocks_take(block_pool *p);
void blocks_share(block_pool *p, uint32_t block);
void blocks_release(block_pool *p, uint32_t block);

static inline unsigned char *blocks_at(const block_pool *p, uint32_t block)
{
    return p->memory + (size_t)block * p->bytes;
}

/* The block that starts at this address. */
static inline uint32_t blocks_of(const block_pool *p, const unsigned char *start)
{
    return (uint32_t)((size_t)(start - p->memory) / p->bytes);
}

#endif
