/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_amx.h - token tiles, chunks and prefetch of the AMX GEMM kernels. The formats and
 * their arithmetic are in gemm_256_amx.c.
 *
 * Panels and slabs are those of AVX-512: 32 weight rows in two groups of 16; a vector of a slab has
 * four consecutive codes of each row of a group. Sixteen such vectors are a tile of 64 columns by
 * 16 rows. The other operand, 16 tokens by 64 codes, is loaded directly from the activations. A
 * product tile is 16 tokens by 16 rows.
 *
 * AVX-512 instructions do the steps of the float chains, on products stored in memory. While one
 * tile is multiplied, the chains add the products of the tile before it; then the new products are
 * stored. The accumulators of a panel are in scratch memory, not in y: rows of y are often a
 * multiple of 4 KiB apart, so they would map to the same cache sets.
 *
 * The last token tile overlaps the tile before it, so that it is full. Its first tokens are
 * multiplied a second time and not added to the chains. With fewer than 16 tokens in a call, a tile
 * has that many rows. So the kernel never reads past the last token.
 */
#ifndef MOTE_KERNELS_X86_GEMM_PANEL_AMX_H
#define MOTE_KERNELS_X86_GEMM_PANEL_AMX_H

#include "kernels/x86/gemm_panel_avx512.h"
#include "kernels/x86/tiles_amx.h"

enum {
    TOKENS = TILE_ROWS,            /* per tile */
    MIN_TOKENS = 9,                /* with fewer tokens AVX-512 is faster */
    CACHE_BUDGET = 1 << 20,        /* activations that stay in L2 while all panels use them */
    MIN_CHUNK_TOKENS = 4 * TOKENS, /* minimum tokens per chunk, so that unpacking pays off */
    MAX_WORKSPACE = 64 << 10,
    STREAM_BYTES = 4 << 20, /* outputs that do not stay in L2 */
    MAX_COLS = 1 << 17      /* limit, so that 16 tokens fit in scratch */
};
_Static_assert((KERN_SCRATCH_BYTES - MAX_WORKSPACE) / (PANEL * 4 + MAX_COLS / 4) >= TOKENS,
               "scratch holds the accumulators and activation sums of 16 tokens");

/* Four product tiles: two groups by two planes, or by the two halves of a single plane. And the
 * minima of two groups by the sums of the activations. */
typedef struct products {
    float msum[GROUPS][TOKENS][LANES];
    int32_t sum[4][TOKENS][LANES];
} products;

/* Tokens t0 .. t0+n-1. Its tiles have tile_tokens rows and start at token `first` or later. */
typedef struct token_chunk {
    size_t t0, n, tile_tokens, first;
} token_chunk;

/* The chunk of at most `most` tokens that begins at t0; the call has n tokens. */
static inline token_chunk token_chunk_at(size_t n, size_t t0, size_t most)
{
    token_chunk c = {t0, n - t0 < most ? n - t0 : most, n < TOKENS ? n : TOKENS, t0};
    if (c.n < c.tile_tokens)
        c.first = t0 + c.n - c.tile_tokens;
    return c;
}

/* True for calls that the AVX-512 kernel handles. It unpacks one plane instead of two, which is
 * faster with few tokens. */
static inline bool use_avx512(const kern_act *x)
{
    return x->n < MIN_TOKENS || x->cols > MAX_COLS;
}

static inline size_t n_token_tiles(const token_chunk *c)
{
    return (c->n + TOKENS - 1) / TOKENS;
}

/* The number of tokens of tile i that are not in an earlier tile. They are its last ones. */
static inline size_t new_tokens(const token_chunk *c, size_t i)
{
    return c->n - i * TOKENS < TOKENS ? c->n - i * TOKENS : TOKENS;
}

/* The first token of tile i. */
static inline size_t tile_start(const token_chunk *c, size_t i)
{
    return c->t0 + i * TOKENS + new_tokens(c, i) - c->tile_tokens;
}

/* Tokens per chunk: as many as stay in the L2 cache while all panels use them. Chunks have nearly
 * equal sizes and whole tiles. A token needs cached_bytes of L2 and kept_bytes of the `room` in
 * scratch. */
static inline size_t chunk_tokens(size_t n, size_t cached_bytes, size_t kept_bytes, size_t room)
{
    const size_t cached = CACHE_BUDGET / cached_bytes, fits = room / kept_bytes;
    const size_t wanted = cached > MIN_CHUNK_TOKENS ? cached : MIN_CHUNK_TOKENS;
    const size_t tiles = (n + TOKENS - 1) / TOKENS, most = (wanted < fits ? wanted : fits) / TOKENS;
    const size_t chunks = (tiles + most - 1) / most;
    return (tiles + chunks - 1) / chunks * TOKENS;
}

/* True if whole lines of y are stored past the caches. Otherwise every line is first read from the L3
 * cache or from memory, which takes a tenth of the time of a product with 1,024 columns. */
static inline bool streams_outputs(const kern_gemm_args *a)
{
    return a->x->n * a->y_stride * sizeof(float) >= STREAM_BYTES && a->y_stride % LANES == 0 &&
           (uintptr_t)a->y % TILE_ROW_BYTES == 0;
}

/* What to prefetch during a panel: the weights of the next panel, and the output rows. */
typedef struct prefetch_plan {
    prefetch_ahead weights;
    output_rows out;
} prefetch_plan;

#endif
