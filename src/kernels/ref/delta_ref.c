/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delta_ref.c - Gated DeltaNet in chunk form, one value head.
 *
 * The recurrence is
 *
 *   S <- e^g S;  u = beta (v - S^T k);  S <- S + k u^T;  o = S^T q
 *
 * It is unrolled from the last chunk boundary, where the state is S0. G_t is the sum of g over rows
 * 0..t, in binary64 because the differences below would lose digits in f32:
 *
 *   u_t = beta_t (v_t - e^{G_t} (S0^T k_t) - sum_{j<t}  e^{G_t-G_j} (k_t . k_j) u_j)
 *   o_t =              e^{G_t} (S0^T q_t) + sum_{j<=t} e^{G_t-G_j} (q_t . k_j) u_j
 *   S1  = e^{G_31} S0 + sum_j e^{G_31-G_j} k_j u_j^T
 *
 * A row depends only on S0 and the rows before it. So its bits do not depend on the number of rows
 * per call. Every sum is a chain, one per output. g <= 0, so every exponent is <= 0 and no
 * exponential overflows.
 */
#include "kernels/variants.h"

#include "kernels/fmath.h"

enum { DIM = KERN_STATE_DIM };

/* a . b as a chain */
static float delta_dot(const float *a, const float *b)
{
    float sum = 0.0f;
    for (int i = 0; i < DIM; i++)
        sum = fmaf(a[i], b[i], sum);
    return sum;
}

/* (S0^T x)[d]: a chain over the key dimension of column d. */
static float state_column_dot(const float *s0, const float *x, int d)
{
    float sum = 0.0f;
    for (int i = 0; i < DIM; i++)
        sum = fmaf(s0[i * DIM + d], x[i], sum);
    return sum;
}

/* e^{G_t - G_j}: one binary64 subtraction, one rounding, then exp. */
static float delta_decay(const kern_delta_args *a, uint32_t t, uint32_t j)
{
    return f_exp((float)(a->g[t * a->g_stride] - a->g[j * a->g_stride]));
}

/* c[j] = e^{G_t-G_j} (x . k_j) for j < n */
static void delta_coefficients(const kern_delta_args *a, const float *x, uint32_t t, uint32_t n,
                               float c[KERN_CHUNK])
{
    for (uint32_t j = 0; j < n; j++)
        c[j] = delta_decay(a, t, j) * delta_dot(x, a->k + j * a->k_stride);
}

/* sum_j c[j] u_j[d], a chain over j < n */
static float delta_weighted_u(const kern_delta_args *a, const float *c, uint32_t n, int d)
{
    float sum = 0.0f;
    for (uint32_t j = 0; j < n; j++)
        sum = fmaf(c[j], a->u[j * a->u_stride + d], sum);
    return sum;
}

static void delta_row(const kern_delta_args *a, uint32_t t)
{
    const uint32_t row = t - a->t0;
    const float *k = a->k + t * a->k_stride;
    const float *q = a->q + row * a->q_stride;
    const float *v = a->v + row * a->v_stride;
    const float beta = a->beta[row * a->beta_stride];
    float *u = a->u + t * a->u_stride;
    float *o = a->o + row * a->o_stride;
    const float decay_t = f_exp((float)a->g[t * a->g_stride]);
    float c[KERN_CHUNK];

    delta_coefficients(a, k, t, t, c);
    for (int d = 0; d < DIM; d++) {
        const float from_state = fmaf(-decay_t, state_column_dot(a->s0, k, d), v[d]);
        u[d] = beta * (from_state - delta_weighted_u(a, c, t, d));
    }
    delta_coefficients(a, q, t, t + 1, c);
    for (int d = 0; d < DIM; d++)
        o[d] = fmaf(decay_t, state_column_dot(a->s0, q, d), delta_weighted_u(a, c, t + 1, d));
}

/* Rows are computed in ascending order: a row reads the u of all rows before it. */
void k_delta_rows_ref(const kern_delta_args *a)
{
    for (uint32_t t = a->t0; t < a->t1; t++)
        delta_row(a, t);
}

/* S1[i][d] is a chain that starts with the decayed S0[i][d] and adds the rows in ascending order:
 * fma(e^{G_31-G_j} k_j[i], u_j[d], ...). It reads only S0[i][d], so s1 may be s0. */
void k_delta_fold_ref(const kern_delta_args *a, float *s1)
{
    const uint32_t last = KERN_CHUNK - 1;
    const float decay_all = f_exp((float)a->g[last * a->g_stride]);
    float row_decay[KERN_CHUNK];
    for (uint32_t j = 0; j < KERN_CHUNK; j++)
        row_decay[j] = delta_decay(a, last, j);
    for (int i = 0; i < DIM; i++)
        for (int d = 0; d < DIM; d++) {
            float sum = decay_all * a->s0[i * DIM + d];
            for (uint32_t j = 0; j < KERN_CHUNK; j++)
                sum =
                    fmaf(row_decay[j] * a->k[j * a->k_stride + i], a->u[j * a->u_stride + d], sum);
            s1[i * DIM + d] = sum;
        }
}
