/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.h - small dense matrix products with chain sums, over a vec_*.h.
 *
 *   out[g][d] (+)= sum over i ascending of x[g][i] * m[i][d]
 *
 * Attention scores and values, and all of DeltaNet, are this product. A register tile has rows x
 * vectors accumulators: each vector of m is loaded once for all rows, each x is broadcast once for
 * all vectors. Every lane of every accumulator is a different output, so each output is one chain
 * for every tile shape.
 */
#ifndef MOTE_KERNELS_VEC_CHAIN_H
#define MOTE_KERNELS_VEC_CHAIN_H

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
    size_t width;     /* outputs per row, a multiple of the tile width */
    bool resume;      /* accumulators start with the values in out; otherwise with +0 */
    const char *next; /* memory to prefetch; see chain_shape */
} chain_args;

/* Shape of a tile. Always a compile-time constant, so that all loops unroll. */
typedef struct chain_shape {
    int vectors;  /* columns of a tile, in vectors */
    bool halves;  /* m is f16, converted at each load */
    int prefetch; /* bytes of `next` that are prefetched with each row of a tile; 0: none */
} chain_shape;

/* Prefetches part `step` of a memory that is used soon, `bytes` bytes. The parts are spread over a
 * loop: a burst would wait for free line buffers and delay the arithmetic. The target is the L2
 * cache: the memory is used only half a page later. */
CHAIN_INLINE void chain_prefetch(const char *next, size_t step, const int bytes)
{
    for (int at = 0; at < bytes; at += 64)
        __builtin_prefetch(next + step * (size_t)bytes + at, 0, 2);
}

CHAIN_INLINE vf chain_load(const chain_args *a, size_t at, const bool halves)
{
    return halves ? vf_load_f16((const uint16_t *)a->m + at) : vf_load((const float *)a->m + at);
}

/* One tile, columns from d on. */
CHAIN_INLINE void chain_tile(const chain_args *a, const float *const *x, float *const *out,
                             size_t d, const int rows, const chain_shape shape)
{
    vf acc[TILE_ROWS][PAIR_VECTORS];
    size_t at = d;
    const int vectors = shape.vectors;
    const size_t first_step = d / ((size_t)vectors * VF_WIDTH) * a->len;
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < vectors; v++)
        acc[g][v] = a->resume ? vf_load(out[g] + d + v * VF_WIDTH) : vf_zero();
    for (size_t i = 0; i < a->len; i++, at += a->m_stride) {
        vf column[PAIR_VECTORS];
        if (shape.prefetch > 0)
            chain_prefetch(a->next, first_step + i, shape.prefetch);
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

/* One tile of 1 to TILE_ROWS rows. */
CHAIN_INLINE void chain_tile_rows(const chain_args *a, const float *const *x, float *const *out,
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

/* 1 to TILE_ROWS rows, all columns. */
CHAIN_INLINE void chain_group(const chain_args *a, const float *const *x, float *const *out,
                              size_t rows, const chain_shape shape)
{
    for (size_t d = 0; d < a->width; d += (size_t)shape.vectors * VF_WIDTH)
        chain_tile_rows(a, x, out, d, rows, shape);
}

/* Any number of rows; row groups in the outer loop. */
CHAIN_INLINE void chain_rows(const chain_args *a, const float *const *x, float *const *out,
                             size_t rows, const chain_shape shape)
{
    for (size_t g = 0; g < rows; g += TILE_ROWS)
        chain_group(a, x + g, out + g, rows - g < TILE_ROWS ? rows - g : TILE_ROWS, shape);
}

/* Any number of rows; tile columns in the outer loop. For many rows and an m that fills the L1
 * cache. */
CHAIN_INLINE void chain_columns(const chain_args *a, const float *const *x, float *const *out,
                                size_t rows, const chain_shape shape)
{
    for (size_t d = 0; d < a->width; d += (size_t)shape.vectors * VF_WIDTH)
        for (size_t g = 0; g < rows; g += TILE_ROWS)
            chain_tile_rows(a, x + g, out + g, d, rows - g < TILE_ROWS ? rows - g : TILE_ROWS,
                            shape);
}

/* Two rows with wide tiles: reads m once, in order. */
static inline void chain_pair(const chain_args *a, const float *const x[2], float *const out[2])
{
    const chain_shape wide = {.vectors = PAIR_VECTORS};
    for (size_t d = 0; d < a->width; d += PAIR_VECTORS * VF_WIDTH)
        chain_tile(a, x, out, d, 2, wide);
}

#endif
