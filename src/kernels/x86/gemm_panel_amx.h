/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_amx.h - how tokens become tiles: runs, chains, what is asked for ahead. The
 * formats and their arithmetic are in gemm_256_amx.c.
 *
 * Panels and slabs are those of AVX-512: 32 weight rows in two groups of 16, and a
 * vector of a slab has four neighbouring codes of each row of a group. Sixteen such
 * vectors are a tile of 64 columns by 16 rows. The other factor, 16 tokens by 64 codes,
 * is loaded from the activations as they lie. A product is 16 tokens by 16 rows.
 *
 * Each step of the float chains is done with AVX-512, from products in memory. While a
 * tile is multiplied the chains take in the one before; only then are its own products
 * stored. Chains rest in a buffer of their own until the panel is done; in y, whose rows
 * are often a multiple of 4 KiB apart, they would push each other out of the cache.
 *
 * The last tile of tokens begins early enough to be full; its first tokens, which the
 * tile before it had, are multiplied again and left out of the chains. So a call needs
 * 16 tokens, and none is read that is not there.
 */
#ifndef MOTE_KERNELS_X86_GEMM_PANEL_AMX_H
#define MOTE_KERNELS_X86_GEMM_PANEL_AMX_H

#include "kernels/x86/gemm_panel_avx512.h"
#include "kernels/x86/tiles_amx.h"

enum {
    TOKENS = TILE_ROWS,          /* of a tile */
    FEWEST = 24,                 /* tokens with which tiles pay */
    CACHE_BUDGET = 1 << 20,      /* of activations that all panels of a call share */
    FEWEST_AT_ONCE = 4 * TOKENS, /* tokens that make unpacking a slab worth it */
    MAX_WORKSPACE = 64 << 10,
    MAX_COLS = 1 << 18 /* with more, 16 tokens might not fit the working memory */
};
_Static_assert((KERN_SCRATCH_BYTES - MAX_WORKSPACE) / (PANEL * 4 + MAX_COLS / 8) >= TOKENS,
               "chains of 16 tokens, and sums of their activations");

/* Four products: two groups by two planes, or by the two halves of the only plane. */
typedef struct products {
    int32_t sum[4][TOKENS][LANES];
} products;

/* Tokens t0 .. t0+n-1. */
typedef struct token_run {
    size_t t0, n;
} token_run;

/* Calls that are left to AVX-512: it unpacks for one plane instead of two, which is faster as
 * long as few tokens share the unpacking. */
static inline bool too_few_or_too_wide(const kern_act *x)
{
    return x->n < FEWEST || x->cols > MAX_COLS;
}

static inline size_t n_token_tiles(const token_run *c)
{
    return (c->n + TOKENS - 1) / TOKENS;
}

/* Tokens of tile i that no tile before it had: its last ones. */
static inline size_t new_tokens(const token_run *c, size_t i)
{
    return c->n - i * TOKENS < TOKENS ? c->n - i * TOKENS : TOKENS;
}

/* The token that tile i begins with. */
static inline size_t tile_start(const token_run *c, size_t i)
{
    return c->t0 + i * TOKENS + new_tokens(c, i) - TOKENS;
}

/* Tiles 0 .. 3 are products, 4 and 5 activations, 6 and 7 weights: all of them are full. */
static inline void configure_tiles(void)
{
    _Alignas(64) tile_config config = {.palette = 1};
    for (int i = 0; i < TILE_COUNT; i++) {
        config.row_bytes[i] = TILE_ROW_BYTES;
        config.rows[i] = TILE_ROWS;
    }
    tile_configure(&config);
}

/* Tokens of a run: as many as stay in the second-level cache while panel after panel
 * passes over them, in runs of nearly equal size and whole tiles. A token takes
 * cached_bytes there and kept_bytes of the room in the working memory. */
static inline size_t tokens_at_once(size_t n, size_t cached_bytes, size_t kept_bytes, size_t room)
{
    const size_t cached = CACHE_BUDGET / cached_bytes, fits = room / kept_bytes;
    const size_t wanted = cached > FEWEST_AT_ONCE ? cached : FEWEST_AT_ONCE;
    const size_t tiles = (n + TOKENS - 1) / TOKENS, most = (wanted < fits ? wanted : fits) / TOKENS;
    const size_t runs = (tiles + most - 1) / most;
    return (tiles + runs - 1) / runs * TOKENS;
}

/* Asks for share i of n of the bytes that are needed soon. Addresses past the end of the
 * weights are allowed: a hint reads nothing. */
static inline void fetch_share(const uint8_t *p, size_t bytes, size_t i, size_t n)
{
    const size_t lines = (bytes + 63) / 64, share = (lines + n - 1) / n;
    for (size_t line = i * share; line < (i + 1) * share && line < lines; line++)
        _mm_prefetch((const char *)p + line * 64, _MM_HINT_T0);
}

/* What is needed when a panel is done: the weights that come after it, and its outputs. */
typedef struct needed_soon {
    const uint8_t *weights;
    size_t weight_bytes;
    outputs out;
} needed_soon;

/* Asks for share i of n of the weights, and for the outputs of the new tokens of tile i. */
static inline void prefetch_soon(needed_soon *s, const token_run *c, size_t i, size_t n)
{
    fetch_share(s->weights, s->weight_bytes, i, n);
    ask_outputs(&s->out, new_tokens(c, i));
}

#endif
