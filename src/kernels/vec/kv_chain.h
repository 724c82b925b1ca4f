/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_chain.h - chains over quantised keys and values, over a vec_*.h.
 *
 *   scores   out[g][j] = sum over i ascending of x[g][i] * k[i][j]
 *   values   out[g][d] (+)= sum over j ascending of x[g][j] * v[j][d]
 *
 * An element is a code times the scale of its group. The product is exact, so it does not matter
 * whether a page is widened first or, as here, each vector at its load. Tiles as in chain.h; the
 * chains of the scores stay in registers over all dimensions, and the codes of the keys are read in
 * the order of memory.
 */
#ifndef MOTE_KERNELS_VEC_KV_CHAIN_H
#define MOTE_KERNELS_VEC_KV_CHAIN_H

#include "kernels/vec/chain.h"

/* acc[g][v] += column * x[g][i] for each row g. */
CHAIN_INLINE void kv_add_column(vf acc[TILE_ROWS][TILE_VECTORS], int v, vf column,
                                const float *const *x, size_t i, const int rows)
{
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        acc[g][v] = vf_fma(column, vf_set(x[g][i]), acc[g][v]);
}

/* Keys of a page, and the memory to prefetch while scores are computed: the values. */
typedef struct kv_key_args {
    const kern_q8_keys *k;
    const char *next;
    size_t next_bytes;
} kv_key_args;

/* An eighth of the memory to prefetch, with the keys of group g. */
static inline void kv_prefetch(const kv_key_args *a, size_t g)
{
    const size_t bytes = a->next_bytes / KERN_KV_GROUPS;
    for (size_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(a->next + g * bytes + at);
}

/* Columns j .. of the scores of `rows` queries. */
CHAIN_INLINE void kv_key_tile(const kv_key_args *a, const float *const *x, float *const *out,
                              size_t j, const int rows)
{
    const kern_q8_keys *k = a->k;
    vf acc[TILE_ROWS][TILE_VECTORS];
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        acc[g][v] = vf_zero();
    for (size_t group = 0; group < KERN_KV_GROUPS; group++) {
        vf d[TILE_VECTORS];
        if (j == 0)
            kv_prefetch(a, group);
        CHAIN_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++)
            d[v] = vf_load_f16(k->d[group] + j + v * VF_WIDTH);
        for (size_t i = group * KERN_KV_GROUP; i < (group + 1) * KERN_KV_GROUP; i++) {
            CHAIN_UNROLL
            for (int v = 0; v < TILE_VECTORS; v++) {
                const vf code = vf_load_i8(k->code[i] + j + v * VF_WIDTH);
                kv_add_column(acc, v, vf_mul(code, d[v]), x, i, rows);
            }
        }
    }
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        vf_store(out[g] + j + v * VF_WIDTH, acc[g][v]);
}

/* Positions first .. end-1 of the values. `d` is the scales as f32, [64][KERN_KV_GROUPS]. */
typedef struct kv_value_args {
    const kern_q8_values *v;
    const float *d;
    size_t first, end;
    size_t dim;  /* out[g][0] is dimension `dim` */
    bool resume; /* as in chain_args */
} kv_value_args;

/* Columns c .. of the outputs of `rows` queries; x[g][j] is the weight of position j. */
CHAIN_INLINE void kv_value_tile(const kv_value_args *a, const float *const *x, float *const *out,
                                size_t c, const int rows)
{
    vf acc[TILE_ROWS][TILE_VECTORS];
    const size_t dim = a->dim + c;
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        acc[g][v] = a->resume ? vf_load(out[g] + c + v * VF_WIDTH) : vf_zero();
    for (size_t j = a->first; j < a->end; j++) {
        const int8_t *code = a->v->code[j] + dim;
        const float *d = a->d + j * KERN_KV_GROUPS + dim / KERN_KV_GROUP;
        CHAIN_UNROLL
        for (int v = 0; v < TILE_VECTORS; v++) {
            const vf scale = vf_set(d[v * VF_WIDTH / KERN_KV_GROUP]);
            kv_add_column(acc, v, vf_mul(vf_load_i8(code + v * VF_WIDTH), scale), x, j, rows);
        }
    }
    CHAIN_UNROLL
    for (int g = 0; g < rows; g++)
        CHAIN_UNROLL
    for (int v = 0; v < TILE_VECTORS; v++)
        vf_store(out[g] + c + v * VF_WIDTH, acc[g][v]);
}

/* Calls `tile` with a constant number of rows, 1 to TILE_ROWS. */
#define KV_TILE_ROWS(tile, a, x, out, c, rows)                                                     \
    switch (rows) {                                                                                \
    case 1: tile(a, x, out, c, 1); break;                                                          \
    case 2: tile(a, x, out, c, 2); break;                                                          \
    case 3: tile(a, x, out, c, 3); break;                                                          \
    case 4: tile(a, x, out, c, 4); break;                                                          \
    case 5: tile(a, x, out, c, 5); break;                                                          \
    default: tile(a, x, out, c, TILE_ROWS); break;                                                 \
    }

/* Scores of n queries with all 64 positions. */
CHAIN_INLINE void kv_key_rows(const kv_key_args *a, const float *const *x, float *const *out,
                              size_t n)
{
    for (size_t g = 0; g < n; g += TILE_ROWS) {
        const size_t rows = n - g < TILE_ROWS ? n - g : TILE_ROWS;
        for (size_t j = 0; j < KERN_PAGE; j += (size_t)TILE_VECTORS * VF_WIDTH)
            KV_TILE_ROWS(kv_key_tile, a, x + g, out + g, j, rows)
    }
}

/* `width` columns of up to TILE_ROWS queries. */
CHAIN_INLINE void kv_value_group(const kv_value_args *a, const float *const *x, float *const *out,
                                 size_t width, size_t rows)
{
    for (size_t c = 0; c < width; c += (size_t)TILE_VECTORS * VF_WIDTH)
        KV_TILE_ROWS(kv_value_tile, a, x, out, c, rows)
}

#endif
