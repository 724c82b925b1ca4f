/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_look.h - attention inside a picture over a vec_*.h; ref/look_ref.c has the mathematics.
 *
 * Queries are taken in tiles: scores of a tile against the block, weights, values. Both
 * products are chains (chain.h); a head's width is a whole number of vectors, which are
 * taken four at a time while there are so many, then one at a time.
 */
#ifndef MOTE_KERNELS_X86_BODY_LOOK_H
#define MOTE_KERNELS_X86_BODY_LOOK_H

#include "kernels/x86/chain.h"
#include "kernels/x86/vmath.h"

enum { LOOK_BLOCK = KERN_PAGE, LOOK_QUERIES = 8 * TILE_ROWS };

typedef struct look_tile {
    size_t n;
    const float *q[LOOK_QUERIES];
    float *score[LOOK_QUERIES]; /* rows of p */
    float *fresh[LOOK_QUERIES]; /* where the values of this block go */
    float e_old[LOOK_QUERIES], e_new[LOOK_QUERIES];
    _Alignas(64) float p[LOOK_QUERIES][LOOK_BLOCK];
    _Alignas(64) float o[LOOK_QUERIES][KERN_LOOK_DIM];
} look_tile;

static inline void look_gather(const kern_look_args *a, size_t first, look_tile *t)
{
    t->n = a->n - first < LOOK_QUERIES ? a->n - first : LOOK_QUERIES;
    for (size_t i = 0; i < t->n; i++) {
        t->q[i] = a->q + (first + i) * a->q_stride;
        t->score[i] = t->p[i];
        t->fresh[i] = a->first ? a->o + (first + i) * a->dim : t->o[i];
    }
}

static inline void look_softmax(const kern_look_args *a, size_t first, look_tile *t)
{
    for (size_t i = 0; i < t->n; i++) {
        float *m = &a->m[first + i], *l = &a->l[first + i];
        for (size_t j = 0; j < LOOK_BLOCK; j += VF_WIDTH)
            vf_store(t->p[i] + j, vf_mul(vf_load(t->p[i] + j), vf_set(a->scale)));
        const float m2 = vf_max(t->p[i], a->n_keys);
        const float l2 = vf_weights(t->p[i], a->n_keys, m2);
        if (a->first) {
            *m = m2;
            *l = l2;
            continue;
        }
        const float larger = m2 > *m ? m2 : *m;
        t->e_old[i] = f_exp(*m - larger);
        t->e_new[i] = f_exp(m2 - larger);
        *m = larger;
        *l = fmaf(l2, t->e_new[i], *l * t->e_old[i]);
    }
}

static inline void look_values(const kern_look_args *a, look_tile *t)
{
    const size_t wide = a->dim / (TILE_VECTORS * VF_WIDTH) * (TILE_VECTORS * VF_WIDTH);
    chain_args values = {.m = a->v, .m_stride = a->dim, .len = a->n_keys, .width = wide};
    const float *const *p = (const float *const *)t->score;
    chain_rows(&values, p, t->fresh, t->n, (chain_shape){.vectors = TILE_VECTORS});
    if (wide == a->dim)
        return;
    float *rest[LOOK_QUERIES];
    for (size_t i = 0; i < t->n; i++)
        rest[i] = t->fresh[i] + wide;
    values.m = a->v + wide;
    values.width = a->dim - wide;
    chain_rows(&values, p, rest, t->n, (chain_shape){.vectors = 1});
}

static inline void look_merge(const kern_look_args *a, size_t first, const look_tile *t)
{
    for (size_t i = 0; i < t->n; i++) {
        float *o = a->o + (first + i) * a->dim;
        const vf e_new = vf_set(t->e_new[i]), e_old = vf_set(t->e_old[i]);
        for (size_t d = 0; d < a->dim; d += VF_WIDTH)
            vf_store(o + d, vf_fma(vf_load(t->o[i] + d), e_new, vf_mul(vf_load(o + d), e_old)));
    }
}

static inline void body_look_block(const kern_look_args *a)
{
    look_tile t;
    const chain_args keys = {.m = a->k, .m_stride = LOOK_BLOCK, .len = a->dim, .width = LOOK_BLOCK};
    for (size_t first = 0; first < a->n; first += LOOK_QUERIES) {
        look_gather(a, first, &t);
        chain_rows(&keys, t.q, t.score, t.n, (chain_shape){.vectors = TILE_VECTORS});
        look_softmax(a, first, &t);
        look_values(a, &t);
        if (!a->first)
            look_merge(a, first, &t);
    }
}

#endif
