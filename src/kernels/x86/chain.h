/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.h - small dense products whose sums are chains, over a vec_*.h.
 *
 *   out[g][d] (+)= sum over i ascending of x[g][i] * m[i][d]
 *
 * Attention scores and values, and all of DeltaNet, are this product. A tile keeps
 * rows x vectors accumulators in registers: every vector of m is loaded once for
 * all rows, every x once for all vectors. Lanes and accumulators are different
 * outputs, so each output is one chain whatever the tile's shape.
 */
#ifndef MOTE_KERNELS_X86_CHAIN_H
#define MOTE_KERNELS_X86_CHAIN_H

#include "kernels/kernels.h"

#define CHAIN_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define CHAIN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CHAIN_UNROLL _Pragma("GCC unroll 16")
#endif

typedef struct chain_args {
    const float *m;  /* [len][width] */
    size_t m_stride; /* floats between rows of m */
    size_t len;
    size_t width; /* outputs of a row, a multiple of the tile's */
    bool resume;  /* the chains go on from what out holds; otherwise from +0 */
} chain_args;

/* One tile at column d. rows and vectors are constants wherever this is used. */
CHAIN_INLINE void chain_tile(const chain_args *a, const float *const *x, float *const *out,
                             size_t d, const int rows, const int vectors)
{
    vf acc[TILE_ROWS][PAIR_VECTORS];
    const float *m = a->m + d;
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < vectors; v++)
        acc[g][v] = a->resume ? vf_load(out[g] + d + v * VF_WIDTH) : vf_zero();
    for (size_t i = 0; i < a->len; i++, m += a->m_stride) {
        vf column[PAIR_VECTORS];
        CHAIN_UNROLL
        for (int v = 0; v < vectors; v++)
            column[v] = vf_load(m + v * VF_WIDTH);
        CHAIN_UNROLL
        for (int g = 0; g < rows; g++) {
            const vf factor = vf_set(x[g][i]);
            CHAIN_UNROLL
            for (int v = 0; v < vectors; v++)
                acc[g][v] = vf_fma(column[v], factor, acc[g][v]);
        }
    }
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < vectors; v++)
        vf_store(out[g] + d + v * VF_WIDTH, acc[g][v]);
}

/* 1 to TILE_ROWS rows, all columns */
CHAIN_INLINE void chain_group(const chain_args *a, const float *const *x, float *const *out,
                              size_t rows, const int vectors)
{
    for (size_t d = 0; d < a->width; d += (size_t)vectors * VF_WIDTH)
        switch (rows) {
        case 1: chain_tile(a, x, out, d, 1, vectors); break;
        case 2: chain_tile(a, x, out, d, 2, vectors); break;
        case 3: chain_tile(a, x, out, d, 3, vectors); break;
        case 4: chain_tile(a, x, out, d, 4, vectors); break;
        case 5: chain_tile(a, x, out, d, 5, vectors); break;
        default: chain_tile(a, x, out, d, TILE_ROWS, vectors); break;
        }
}

/* Any number of rows */
static inline void chain_rows(const chain_args *a, const float *const *x, float *const *out,
                              size_t rows)
{
    for (size_t g = 0; g < rows; g += TILE_ROWS)
        chain_group(a, x + g, out + g, rows - g < TILE_ROWS ? rows - g : TILE_ROWS, TILE_VECTORS);
}

/* Two rows with wide tiles: m is read once, in order, and little else is. */
static inline void chain_pair(const chain_args *a, const float *const x[2], float *const out[2])
{
    for (size_t d = 0; d < a->width; d += PAIR_VECTORS * VF_WIDTH)
        chain_tile(a, x, out, d, 2, PAIR_VECTORS);
}

#endif
