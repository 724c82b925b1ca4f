/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_delta.h - Gated DeltaNet on the vector layer. ref/delta_ref.c defines the result.
 *
 * For the rows t of a call, with all k_t and q_t:
 *   1. S0^T k_t and S0^T q_t: one small dense matrix product
 *   2. k_t . k_j and q_t . k_j: one more, with the transposed keys
 *   3. row by row: decay the dot products, subtract earlier rows, compute u_t and o_t
 * Only step 3 is sequential, and it is the smallest.
 */
#ifndef MOTE_KERNELS_VEC_BODY_DELTA_H
#define MOTE_KERNELS_VEC_BODY_DELTA_H

#include "kernels/vec/chain.h"
#include "kernels/vec/vmath.h"

enum { DIM = KERN_STATE_DIM, CHUNK = KERN_CHUNK };

/* Scratch of a call. Rows of x: all k, then all q. */
typedef struct delta_rows {
    const float *x[2 * CHUNK];
    float *from_state[2 * CHUNK]; /* rows of `products` */
    float *dots[2 * CHUNK];       /* rows of `dot` */
    _Alignas(64) float products[2 * CHUNK][DIM];
    _Alignas(64) float dot[2 * CHUNK][CHUNK];
    double g[CHUNK];                     /* zero after row t1-1 */
    _Alignas(64) float keys[DIM][CHUNK]; /* transposed; zero after row t1-1 */
} delta_rows;

/* keys[i][j] = k_j[i] for j < n. Columns n up to the next multiple of 4 become zero. */
static inline void delta_transpose(const float *k, size_t stride, uint32_t n,
                                   float keys[DIM][CHUNK])
{
    static const float none[DIM];
    for (uint32_t j = 0; j < n; j += 4) {
        const float *row[4];
        for (uint32_t r = 0; r < 4; r++)
            row[r] = j + r < n ? k + (j + r) * stride : none;
        for (int i = 0; i < DIM; i += 4)
            vf_transpose_4x4(row, (size_t)i, &keys[i][j], CHUNK);
    }
}

static inline void delta_gather(const kern_delta_args *a, delta_rows *r)
{
    const uint32_t n = a->t1 - a->t0;
    for (uint32_t t = 0; t < n; t++) {
        r->x[t] = a->k + (a->t0 + t) * a->k_stride;
        r->x[n + t] = a->q + t * a->q_stride;
    }
    for (uint32_t t = 0; t < 2 * n; t++) {
        r->from_state[t] = r->products[t];
        r->dots[t] = r->dot[t];
    }
    for (uint32_t j = 0; j < CHUNK; j++)
        r->g[j] = j < a->t1 ? a->g[j * a->g_stride] : 0.0;
    if (a->t1 < CHUNK)
        memset(r->keys, 0, sizeof r->keys);
    delta_transpose(a->k, a->k_stride, a->t1, r->keys);
}

/* Steps 1 and 2. The state is processed in two halves of its rows. Each half stays in the L1 cache
 * while all rows of x use it. */
static inline void delta_products(const kern_delta_args *a, delta_rows *r)
{
    enum { HALF = DIM / 2 };
    const chain_shape square = {.vectors = TILE_VECTORS}, narrow = {.vectors = 2};
    const size_t n = 2 * (size_t)(a->t1 - a->t0);
    chain_args state = {.m = a->s0, .m_stride = DIM, .len = DIM, .width = DIM};
    const chain_args keys = {.m = r->keys[0], .m_stride = CHUNK, .len = DIM, .width = CHUNK};
    if (n == 2) {
        chain_pair(&state, r->x, r->from_state);
    } else {
        state.len = HALF;
        chain_rows(&state, r->x, r->from_state, n, square);
        for (size_t t = 0; t < n; t++)
            r->x[t] += HALF;
        state.m = a->s0 + (size_t)HALF * DIM;
        state.resume = true;
        chain_rows(&state, r->x, r->from_state, n, square);
        for (size_t t = 0; t < n; t++)
            r->x[t] -= HALF;
    }
    chain_rows(&keys, r->x, r->dots, n, narrow);
}

/* Step 3 for row t: dot products become coefficients e^{G_t-G_j} (x . k_j). Lanes j > t hold unused
 * values. */
static inline void delta_decay_dots(const delta_rows *r, uint32_t t, float *dot_k, float *dot_q)
{
    for (uint32_t j = 0; j <= t; j += VF_WIDTH) {
        const vf decay = vf_exp(vf_sub_doubles(r->g[t], r->g + j));
        vf_store(dot_k + j, vf_mul(decay, vf_load(dot_k + j)));
        vf_store(dot_q + j, vf_mul(decay, vf_load(dot_q + j)));
    }
}

static inline void delta_one_row(const kern_delta_args *a, delta_rows *r, uint32_t t)
{
    const uint32_t row = t - a->t0, n = a->t1 - a->t0;
    const float *v = a->v + row * a->v_stride;
    float *u = a->u + t * a->u_stride;
    float *o = a->o + row * a->o_stride;
    const vf decay = vf_set(f_exp((float)r->g[t]));
    const vf beta = vf_set(a->beta[row * a->beta_stride]);
    _Alignas(64) float sums[2][DIM];
    delta_decay_dots(r, t, r->dot[row], r->dot[n + row]);
    const vf own = vf_set(r->dot[n + row][t]);
    const chain_args earlier = {.m = a->u, .m_stride = a->u_stride, .len = t, .width = DIM};
    chain_pair(&earlier, (const float *const[2]){r->dot[row], r->dot[n + row]},
               (float *const[2]){sums[0], sums[1]});
    for (int d = 0; d < DIM; d += VF_WIDTH) {
        const vf w = vf_fnma(decay, vf_load(r->products[row] + d), vf_load(v + d));
        const vf ud = vf_mul(beta, vf_sub(w, vf_load(sums[0] + d)));
        const vf sum = vf_fma(own, ud, vf_load(sums[1] + d));
        vf_store(u + d, ud);
        vf_store(o + d, vf_fma(decay, vf_load(r->products[n + row] + d), sum));
    }
}

static inline void body_delta_rows(const kern_delta_args *a)
{
    delta_rows r;
    delta_gather(a, &r);
    delta_products(a, &r);
    for (uint32_t t = a->t0; t < a->t1; t++)
        delta_one_row(a, &r, t);
}

/* keys[i][j] = e^{G_31-G_j} k_j[i]. Returns e^{G_31}. */
static inline float delta_fold_factors(const kern_delta_args *a, float keys[DIM][CHUNK])
{
    float decays[CHUNK];
    double g[CHUNK];
    for (uint32_t j = 0; j < CHUNK; j++)
        g[j] = a->g[j * a->g_stride];
    for (uint32_t j = 0; j < CHUNK; j += VF_WIDTH)
        vf_store(decays + j, vf_exp(vf_sub_doubles(g[CHUNK - 1], g + j)));
    delta_transpose(a->k, a->k_stride, CHUNK, keys);
    for (int i = 0; i < DIM; i++)
        for (int j = 0; j < CHUNK; j += VF_WIDTH)
            vf_store(&keys[i][j], vf_mul(vf_load(decays + j), vf_load(&keys[i][j])));
    return f_exp((float)g[CHUNK - 1]);
}

/* A dense product: TILE_ROWS rows of S1 at a time start as e^{G_31} S0 and add the 32 rows of u
 * while they are in the L1 cache. */
static inline void body_delta_fold(const kern_delta_args *a, float *s1)
{
    _Alignas(64) float keys[DIM][CHUNK];
    const vf decay = vf_set(delta_fold_factors(a, keys));
    const chain_args rows = {
        .m = a->u, .m_stride = a->u_stride, .len = CHUNK, .width = DIM, .resume = true};
    for (size_t i = 0; i < DIM; i += TILE_ROWS) {
        const size_t n = DIM - i < TILE_ROWS ? DIM - i : TILE_ROWS;
        const float *x[TILE_ROWS];
        float *out[TILE_ROWS];
        for (size_t r = 0; r < n; r++) {
            x[r] = keys[i + r];
            out[r] = s1 + (i + r) * DIM;
        }
        for (size_t d = 0; d < n * DIM; d += VF_WIDTH)
            vf_store(out[0] + d, vf_mul(decay, vf_load(a->s0 + i * DIM + d)));
        chain_group(&rows, x, out, n, (chain_shape){.vectors = TILE_VECTORS});
    }
}

#endif
