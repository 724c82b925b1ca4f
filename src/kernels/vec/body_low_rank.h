/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_low_rank.h - low_rank_add on the vector layer: tiles of chain.h that resume from y, then the
 * last columns one vector at a time.
 */
#ifndef MOTE_KERNELS_VEC_BODY_LOW_RANK_H
#define MOTE_KERNELS_VEC_BODY_LOW_RANK_H

#include "kernels/vec/chain.h"

/* One token, columns from r on: fewer than a tile has. */
CHAIN_INLINE void low_rank_tail(const kern_low_rank_args *a, const float *x, float *y, size_t r,
                                const bool halves)
{
    for (; r < a->n; r += VF_WIDTH) {
        const size_t left = a->n - r < VF_WIDTH ? a->n - r : VF_WIDTH;
        vf sum = vf_load_n(y + r, left);
        for (size_t j = 0; j < a->rank; j++) {
            const size_t at = j * a->b_stride + r;
            const vf b = halves ? vf_load_f16((const uint16_t *)a->b + at)
                                : vf_load_n((const float *)a->b + at, left);
            sum = vf_fma(b, vf_set(x[j]), sum);
        }
        vf_store_n(y + r, left, sum);
    }
}

CHAIN_INLINE void low_rank_rows(const kern_low_rank_args *a, const bool halves)
{
    const chain_shape shape = {.vectors = TILE_VECTORS, .halves = halves};
    const size_t tile = TILE_VECTORS * VF_WIDTH, whole = a->n / tile * tile;
    const chain_args args = {
        .m = a->b, .m_stride = a->b_stride, .len = a->rank, .width = whole, .resume = true};
    for (size_t t = 0; t < a->tokens; t += TILE_ROWS) {
        const size_t rows = a->tokens - t < TILE_ROWS ? a->tokens - t : TILE_ROWS;
        const float *x[TILE_ROWS];
        float *y[TILE_ROWS];
        for (size_t i = 0; i < rows; i++) {
            x[i] = a->x + (t + i) * a->x_stride;
            y[i] = a->y + (t + i) * a->y_stride;
        }
        chain_group(&args, x, y, rows, shape);
        for (size_t i = 0; i < rows; i++)
            low_rank_tail(a, x[i], y[i], whole, halves);
    }
}

static inline void body_low_rank_add(const kern_low_rank_args *a)
{
    if (a->halves)
        low_rank_rows(a, true);
    else
        low_rank_rows(a, false);
}

#endif
