/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vision_attention.h - attention inside one frame of a picture or film: every patch sees every
 * patch.
 *
 * Keys and values of the whole frame are laid down first, in blocks of 64 patches; then
 * queries come in slices of any size. So memory beyond keys and values does not grow with the
 * picture, and the result of a patch does not depend on the slice it came in.
 */
#ifndef MOTE_NN_VISION_ATTENTION_H
#define MOTE_NN_VISION_ATTENTION_H

#include "nn/nn.h"

enum { VISION_ATTN_BLOCK = KERN_PAGE };

typedef struct vision_attn_shape {
    size_t heads;
    size_t head_dim;
    size_t dim; /* head_dim up to the next multiple of 16; what lies between is zero */
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

/* Rows of products on their way to attention; the bias is added here. Angles are of the
 * patches, [rows][head_dim / 2], and turn keys and queries. */
typedef struct vision_attn_rows {
    float *x;          /* keys and values: [n][2][heads][head_dim]; queries: [n][heads][head_dim] */
    const float *bias; /* of a row */
    const float *cos, *sin;
    size_t n;
} vision_attn_rows;

/* Lays down keys and values of patches first .. first + n - 1; first is a multiple of 64. */
void nn_vision_attn_put(const nn *n, const vision_attn_shape *s, const vision_attn_rows *rows,
                        size_t first, const vision_attn_memory *memory);
/* y[row][head][head_dim] of queries that see the first n_keys patches. */
void nn_vision_attn(const nn *n, const vision_attn_shape *s, const vision_attn_rows *rows,
                    const vision_attn_memory *memory, size_t n_keys, float *y);

#endif
