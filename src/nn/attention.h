/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h - gated grouped-query attention over pages of keys and values.
 *
 * A page holds 64 positions of all attention layers, immutable once full and
 * shared between timelines: [layer][kv head], each a cell of kv_page.h in the
 * cache's format. Keys are stored after norm and rotation, rounded before
 * anybody reads them, so a fresh key and a cached key are the same number.
 */
#ifndef MOTE_NN_ATTENTION_H
#define MOTE_NN_ATTENTION_H

#include "nn/kv_page.h"
#include "nn/nn.h"

typedef struct attn_shape {
    size_t heads, kv_heads; /* query head a reads kv head a / (heads / kv_heads) */
    size_t layers;          /* attention layers of the model: the first index of a page */
    mote_kv kv;
    float eps;
} attn_shape;

static inline size_t attn_page_bytes(const attn_shape *s)
{
    return s->layers * s->kv_heads * 2 * kv_half_bytes(s->kv);
}

/* n consecutive rows of the pass that belong to one timeline. */
typedef struct attn_segment {
    size_t row, n;
    uint64_t pos;                /* of the first row */
    unsigned char *const *pages; /* page i holds positions 64i .. 64i+63 */
} attn_segment;

typedef struct attn_rows {
    const float *qg;    /* [rows][heads][query 256, gate 256] */
    const float *k, *v; /* [rows][kv_heads][256] */
    const float *cos;   /* [rows][32] */
    const float *sin;   /* [rows][32] */
    float *y;           /* [rows][heads][256]: out */
} attn_rows;

typedef struct attn_weights {
    const float *q_norm, *k_norm; /* [256] */
} attn_weights;

/* Results of partitions of a long context, waiting to be merged. */
typedef struct attn_parts {
    kern_attn_acc *acc; /* [capacity] */
    size_t capacity;
} attn_parts;

/* Enough parts for single rows over `positions` positions in `sessions` timelines. */
size_t attn_parts_needed(size_t heads, uint64_t positions, uint32_t sessions);

void nn_attention(const nn *n, const attn_shape *shape, const attn_weights *w, size_t layer,
                  const attn_segment *segments, size_t n_segments, const attn_rows *rows,
                  const attn_parts *parts);

#endif
