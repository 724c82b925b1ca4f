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
    const void *m;   /* [len][width], floats or halves */
    size_t m_stride; /* values between rows of m */
    size_t len;
    size_t width; /* outputs of a row, a multiple of the tile's */
    bool resume;  /* the chains go on from what out holds; otherwise from +0 */
} chain_args;

/* What a tile is: constants wherever one is used, so that all its loops unroll. */
typedef struct chain_shape {
    int vectors; /* columns of a tile, in registers */
    bool halves; /* m is f16, widened as it is loaded */
} chain_shape;

CHAIN_INLINE vf chain_load(const chain_args *a, size_t at, const bool halves)
{
    return halves ? vf_load_f16((const uint16_t *)a->m + at) : vf_load((const float *)a->m + at);
}

/* One tile at column d. */
CHAIN_INLINE void chain_tile(const chain_args *a, const float *const *x, float *const *out,
                             size_t d, const int rows, const chain_shape shape)
{
    vf acc[TILE_ROWS][PAIR_VECTORS];
    size_t at = d;
    const int vectors = shape.vectors;
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < vectors; v++)
        acc[g][v] = a->resume ? vf_load(out[g] + d + v * VF_WIDTH) : vf_zero();
    for (size_t i = 0; i < a->len; i++, at += a->m_stride) {
        vf column[PAIR_VECTORS];
        CHAIN_UNROLL
        for (int v = 0; v < vectors; v++)
            column[v] = chain_load(a, at + (size_t)v * VF_WIDTH, shape.halves);
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

/* A tile of 1 to TILE_ROWS rows */
CHAIN_INLINE void chain_some(const chain_args *a, const float *const *x, float *const *out,
                             size_t d, size_t rows, const chain_shape shape)
{
    switch (rows) {
    case 1: chain_tile(a, x, out, d, 1, shape); break;
    case 2: chain_tile(a, x, out, d, 2, shape); break;
    case 3: chain_tile(a, x, out, d, 3, shape); break;
    case 4: chain_tile(a, x, out, d, 4, shape); break;
    case 5: chain_tile(a, x, out, d, 5, shape); break;
    default: chain_tile(a, x, out, d, TILE_ROWS, shape); break;
    }
}

/* 1 to TILE_ROWS rows, all columns */
CHAIN_INLINE void chain_group(const chain_args *a, const float *const *x, float *const *out,
                              size_t rows, const chain_shape shape)
{
    for (size_t d = 0; d < a->width; d += (size_t)shape.vectors * VF_WIDTH)
        chain_some(a, x, out, d, rows, shape);
}

/* Any number of rows */
CHAIN_INLINE void chain_rows(const chain_args *a, const float *const *x, float *const *out,
                             size_t rows, const chain_shape shape)
{
    for (size_t g = 0; g < rows; g += TILE_ROWS)
        chain_group(a, x + g, out + g, rows - g < TILE_ROWS ? rows - g : TILE_ROWS, shape);
}

/* The same, but all rows pass a tile's columns before the next ones: for many rows and an m that
 * fills the first-level cache alone. */
CHAIN_INLINE void chain_columns(const chain_args *a, const float *const *x, float *const *out,
                                size_t rows, const chain_shape shape)
{
    for (size_t d = 0; d < a->width; d += (size_t)shape.vectors * VF_WIDTH)
        for (size_t g = 0; g < rows; g += TILE_ROWS)
            chain_some(a, x + g, out + g, d, rows - g < TILE_ROWS ? rows - g : TILE_ROWS, shape);
}

/* Two rows with wide tiles: m is read once, in order, and little else is. */
static inline void chain_pair(const chain_args *a, const float *const x[2], float *const out[2])
{
    const chain_shape wide = {.vectors = PAIR_VECTORS};
    for (size_t d = 0; d < a->width; d += PAIR_VECTORS * VF_WIDTH)
        chain_tile(a, x, out, d, 2, wide);
}

#endif
