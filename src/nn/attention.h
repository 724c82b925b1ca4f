/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attention.h - gated grouped-query attention over a paged KV cache.
 *
 * A page holds keys and values of 64 positions: [layer][kv head] cells. Full pages are immutable
 * and shared between sessions. A cell has the keys, then the values, of one layer and kv head:
 *
 *   f16, f32   K [256][64], V [64][256]
 *   q8_0       kern_q8_keys, kern_q8_values: codes in the same order, then the scales
 *   q4_0       kern_q4_keys, kern_q4_values: the same with two codes in a byte
 *
 * Keys are stored after norm and RoPE. Keys and values are rounded to the cache format before any
 * row reads them, so a new key and a cached key are the same number. Quantised formats store them
 * after a Hadamard transform H of each group of 32 dimensions. Queries are transformed too, which
 * keeps the scores, and the weighted sum of the values is transformed back: H H = 32.
 */
#ifndef MOTE_NN_ATTENTION_H
#define MOTE_NN_ATTENTION_H

#include "nn/nn.h"

typedef struct attn_shape {
    size_t heads, kv_heads; /* query head a reads kv head a / (heads / kv_heads) */
    size_t layers;          /* attention layers of a page, its first index */
    mote_kv kv;
    float eps;
} attn_shape;

/* Bytes of the keys of a cell. The values take the same. */
static inline size_t kv_half_bytes(mote_kv kv)
{
    const size_t values = (size_t)KERN_PAGE * KERN_HEAD_DIM;
    switch (kv) {
    case MOTE_KV_F32: return values * sizeof(float);
    case MOTE_KV_Q8_0: return sizeof(kern_q8_keys);
    case MOTE_KV_Q4_0: return sizeof(kern_q4_keys);
    case MOTE_KV_F16: break;
    }
    return values * sizeof(uint16_t);
}

/* Keys and values of this format are Hadamard transforms. */
static inline bool kv_is_rotated(mote_kv kv)
{
    return kv == MOTE_KV_Q8_0 || kv == MOTE_KV_Q4_0;
}

static inline size_t attn_page_bytes(const attn_shape *s)
{
    return s->layers * s->kv_heads * 2 * kv_half_bytes(s->kv);
}

/* Zeroes positions used .. 63 of a cell. */
void kv_clear_from(mote_kv kv, unsigned char *cell, size_t used);

/* n consecutive rows of the pass that belong to one sequence. */
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
    float *y;           /* [rows][heads][256]: output */
} attn_rows;

typedef struct attn_weights {
    const float *q_norm, *k_norm; /* [256] */
} attn_weights;

/* Partial results of the partitions of a long context, before the merge. */
typedef struct attn_parts {
    kern_attn_acc *acc; /* [capacity] */
    size_t capacity;
} attn_parts;

/* Capacity for one row of each of `sessions` sequences with `positions` positions in total. */
size_t attn_parts_needed(size_t heads, uint64_t positions, uint32_t sessions);

/* Stores keys and values of all rows: the first half of nn_attention. Reads k, v, cos and sin. */
void nn_attention_store(const nn *n, const attn_shape *shape, const attn_weights *w, size_t layer,
                        const attn_segment *segments, size_t n_segments, const attn_rows *rows);

/* Stores keys and values of all rows, then computes y. `layer` counts attention layers. */
void nn_attention(const nn *n, const attn_shape *shape, const attn_weights *w, size_t layer,
                  const attn_segment *segments, size_t n_segments, const attn_rows *rows,
                  const attn_parts *parts);

#endif
