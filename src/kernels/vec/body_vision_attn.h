/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_vision_attn.h - attention of the vision encoder on the vector layer. ref/vision_attn_ref.c
 * defines the result.
 *
 * Queries are processed in tiles: scores of a tile with the block, softmax weights, values. Both
 * matrix products are chains (chain.h). The head size is a multiple of the vector width: the kernel
 * uses tiles of TILE_VECTORS vectors as long as possible, then tiles of one vector. Maxima,
 * denominators and rescale factors are computed for VF_WIDTH queries at once, one per lane.
 */
#ifndef MOTE_KERNELS_VEC_BODY_VISION_ATTN_H
#define MOTE_KERNELS_VEC_BODY_VISION_ATTN_H

#include "kernels/vec/chain.h"
#include "kernels/vec/vmath.h"

enum { VISION_ATTN_BLOCK = KERN_PAGE, VISION_ATTN_QUERIES = 8 * TILE_ROWS };
_Static_assert(VISION_ATTN_QUERIES % VF_WIDTH == 0,
               "a tile is a whole number of vectors of queries");

typedef struct vision_attn_tile {
    size_t n;
    const float *q[VISION_ATTN_QUERIES];
    float *p[VISION_ATTN_QUERIES]; /* rows of `weights` */
    float *o[VISION_ATTN_QUERIES];
    _Alignas(64) float m[VISION_ATTN_QUERIES];
    _Alignas(
        64) float rescale[VISION_ATTN_QUERIES]; /* factor of the accumulators of earlier blocks */
    _Alignas(64) float weights[VISION_ATTN_QUERIES][VISION_ATTN_BLOCK];
} vision_attn_tile;

static inline void vision_attn_gather(const kern_vision_attn_args *a, size_t first,
                                      vision_attn_tile *t)
{
    t->n = a->n - first < VISION_ATTN_QUERIES ? a->n - first : VISION_ATTN_QUERIES;
    for (size_t i = 0; i < t->n; i++) {
        t->q[i] = a->q + (first + i) * a->q_stride;
        t->p[i] = t->weights[i];
        t->o[i] = a->o + (first + i) * a->dim;
    }
}

/* Scores. Keys after the last get -inf, so their weight is 0. */
static inline void vision_attn_scores(const kern_vision_attn_args *a, vision_attn_tile *t)
{
    const chain_args keys = {
        .m = a->k, .m_stride = VISION_ATTN_BLOCK, .len = a->dim, .width = VISION_ATTN_BLOCK};
    chain_columns(&keys, t->q, t->p, t->n, (chain_shape){.vectors = TILE_VECTORS});
    for (size_t i = 0; a->n_keys < VISION_ATTN_BLOCK && i < t->n; i++)
        for (size_t j = a->n_keys; j < VISION_ATTN_BLOCK; j++)
            t->p[i][j] = -INFINITY;
}

/* Maximum score of each of n queries, one per lane. */
static inline vf vision_attn_row_max(float *const *p, size_t n)
{
    vf best[VF_WIDTH];
    for (size_t i = 0; i < VF_WIDTH; i++)
        best[i] = vf_set(-INFINITY);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < VISION_ATTN_BLOCK; j += VF_WIDTH)
            best[i] = vf_max(vf_load(p[i] + j), best[i]);
    return vf_add(vf_reduce_each(best, vf_max), vf_zero());
}

/* Prefetches keys and values of the next block, which usually follow in memory. Query i prefetches
 * its share. */
static inline void vision_attn_prefetch(const kern_vision_attn_args *a, size_t i)
{
    enum { LINE = 64 };
    const size_t bytes = VISION_ATTN_BLOCK * a->dim * sizeof(float),
                 share = bytes / VISION_ATTN_QUERIES;
    const char *k = (const char *)a->k + bytes, *v = (const char *)a->v + bytes;
    for (size_t at = i * share / LINE * LINE; at < (i + 1) * share; at += LINE) {
        __builtin_prefetch(k + at, 0, 2); /* to the L2 cache */
        __builtin_prefetch(v + at, 0, 2);
    }
}

/* p = e^(s - m). Returns the lanes sum of each of n queries, one per lane. */
static inline vf vision_attn_exp_sum(const kern_vision_attn_args *a, float *const *p,
                                     const float *m, size_t from, size_t n)
{
    vf sum[VF_WIDTH];
    for (size_t i = 0; i < VF_WIDTH; i++)
        sum[i] = vf_zero();
    for (size_t i = 0; i < n; i++) {
        vlanes sums = {{vf_zero()}};
        for (size_t j = 0; j < VISION_ATTN_BLOCK; j += VF_WIDTH) {
            const vf e = vf_exp_nonpositive(vf_sub(vf_load(p[i] + j), vf_set(m[i])));
            vf *into = &sums.part[j / VF_WIDTH % VLANES_PARTS];
            vf_store(p[i] + j, e);
            *into = vf_add(*into, e);
        }
        sum[i] = vlanes_fold_to_vector(&sums);
        vision_attn_prefetch(a, from + i);
    }
    return vf_reduce_each(sum, vf_add);
}

/* Softmax weights of up to VF_WIDTH queries from i on; updates m and l. */
static inline void vision_attn_softmax(const kern_vision_attn_args *a, size_t first, size_t i,
                                       vision_attn_tile *t)
{
    const size_t n = t->n - i < VF_WIDTH ? t->n - i : VF_WIDTH;
    float *const *p = (float *const *)t->p + i;
    float *m = a->m + first + i, *l = a->l + first + i;
    const vf m1 = vf_load_n(m, n), l1 = vf_load_n(l, n), m2 = vision_attn_row_max(p, n);
    const vf m_new = a->first ? m2 : vf_max(m2, m1);
    vf_store(t->m + i, m_new);
    const vf l2 = vision_attn_exp_sum(a, p, t->m + i, i, n);
    const vf rescale = vf_exp_nonpositive(vf_sub(m1, m_new));
    vf_store(t->rescale + i, rescale);
    vf_store_n(m, n, m_new);
    vf_store_n(l, n, a->first ? l2 : vf_fma(l1, rescale, l2));
}

/* Multiplies the accumulators of earlier blocks by e^(old maximum - new maximum). */
static inline void vision_attn_rescale(const kern_vision_attn_args *a, const vision_attn_tile *t)
{
    for (size_t i = 0; i < t->n; i++)
        for (size_t d = 0; d < a->dim; d += VF_WIDTH)
            vf_store(t->o[i] + d, vf_mul(vf_load(t->o[i] + d), vf_set(t->rescale[i])));
}

static inline void vision_attn_values(const kern_vision_attn_args *a, vision_attn_tile *t)
{
    const size_t wide = a->dim / (TILE_VECTORS * VF_WIDTH) * (TILE_VECTORS * VF_WIDTH);
    chain_args values = {
        .m = a->v, .m_stride = a->dim, .len = a->n_keys, .width = wide, .resume = !a->first};
    const float *const *p = (const float *const *)t->p;
    chain_columns(&values, p, t->o, t->n, (chain_shape){.vectors = TILE_VECTORS});
    if (wide == a->dim)
        return;
    for (size_t i = 0; i < t->n; i++)
        t->o[i] += wide;
    values.m = a->v + wide;
    values.width = a->dim - wide;
    chain_columns(&values, p, t->o, t->n, (chain_shape){.vectors = 1});
}

static inline void body_vision_attn_block(const kern_vision_attn_args *a)
{
    vision_attn_tile t;
    for (size_t first = 0; first < a->n; first += VISION_ATTN_QUERIES) {
        vision_attn_gather(a, first, &t);
        vision_attn_scores(a, &t);
        for (size_t i = 0; i < t.n; i += VF_WIDTH)
            vision_attn_softmax(a, first, i, &t);
        if (!a->first)
            vision_attn_rescale(a, &t);
        vision_attn_values(a, &t);
    }
}

#endif
