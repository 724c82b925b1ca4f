/* SPDX-License-Identifier: Apache-2.0 */
/*
 * block_pool.h - a pool of equal-sized, reference-counted blocks: KV pages, recurrent states,
 * tails.
 *
 * blocks_init reserves address space for all blocks; the kernel provides memory when a block is
 * first written. Taking and releasing never allocates and cannot fail: the caller has reserved the
 * block or has compared n_free beforehand. Not thread-safe; belongs to the engine's thread.
 */
#ifndef MOTE_ENGINE_BLOCK_POOL_H
#define MOTE_ENGINE_BLOCK_POOL_H

#include "base/err.h"

typedef struct block_pool {
    unsigned char *memory; /* [n][bytes], zero until first written */
    size_t bytes;          /* of a block */
    size_t zeros;          /* read-only bytes at the start */
    uint32_t n, n_free;
    uint32_t *refs; /* [n], 0: free */
    uint32_t *free; /* [n], stack of free blocks */
} block_pool;

/* n blocks of `bytes` bytes. The first n_zero are read-only zeros and use no memory. */
typedef struct block_shape {
    uint64_t n, n_zero;
    size_t bytes;
} block_shape;

/* Bytes that blocks_init will take; false: more than the address space. */
bool blocks_measure(block_shape shape, uint64_t *total);
/* blocks_measure has accepted the shape. `what` names the blocks in the error text. */
mote_status blocks_init(block_pool *p, block_shape shape, const char *what, mote_error *err);
void blocks_fini(block_pool *p);

/* Returns a block with one reference. Its content is undefined. */
uint32_t blocks_take(block_pool *p);
void blocks_share(block_pool *p, uint32_t block);
/* Drops one reference; the last one frees the block. */
void blocks_release(block_pool *p, uint32_t block);

static inline unsigned char *blocks_at(const block_pool *p, uint32_t block)
{
    return p->memory + (size_t)block * p->bytes;
}

/* Index of the block at this address. */
static inline uint32_t blocks_of(const block_pool *p, const unsigned char *start)
{
    return (uint32_t)((size_t)(start - p->memory) / p->bytes);
}

#endif
