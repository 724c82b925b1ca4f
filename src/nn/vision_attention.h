/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_attention.h - attention of the vision encoder: every patch of a frame sees every patch.
 *
 * Keys and values of the whole frame are stored first, in blocks of 64 patches. Then queries are
 * processed in slices of any size. So memory other than keys and values does not grow with the
 * image, and the result of a patch does not depend on the slice.
 */
#ifndef MOTE_NN_VISION_ATTENTION_H
#define MOTE_NN_VISION_ATTENTION_H

#include "nn/nn.h"

enum { VISION_ATTN_BLOCK = KERN_PAGE };

typedef struct vision_attn_shape {
    size_t heads;
    size_t head_dim;
    size_t dim; /* head_dim rounded up to a multiple of 16; the padding is zero */
} vision_attn_shape;

typedef struct vision_attn_memory {
    float *k; /* [heads][blocks][dim][64] */
    float *v; /* [heads][blocks][64][dim] */
    size_t blocks;
} vision_attn_memory;

static inline size_t vision_attn_blocks(size_t patches)
{
    return (patches + VISION_ATTN_BLOCK - 1) / VISION_ATTN_BLOCK;
}

static inline size_t vision_attn_floats(const vision_attn_shape *s, size_t patches)
{
    return s->heads * vision_attn_blocks(patches) * VISION_ATTN_BLOCK * s->dim;
}

/* Outputs of the projections. Attention adds the bias and applies RoPE to keys and queries, both in
 * place. cos, sin: [rows][head_dim / 2]. */
typedef struct vision_attn_rows {
    float *x;          /* keys and values: [n][2][heads][head_dim]; queries: [n][heads][head_dim] */
    const float *bias; /* of a row */
    const float *cos, *sin;
    size_t n;
} vision_attn_rows;

/* Stores keys and values of patches first .. first + n - 1. first is a multiple of 64. */
void nn_vision_attn_put(const nn *n, const vision_attn_shape *s, const vision_attn_rows *rows,
                        size_t first, const vision_attn_memory *memory);
/* y[row][head][head_dim] of queries that see patches 0 .. n_keys - 1. */
void nn_vision_attn(const nn *n, const vision_attn_shape *s, const vision_attn_rows *rows,
                    const vision_attn_memory *memory, size_t n_keys, float *y);

#endif
