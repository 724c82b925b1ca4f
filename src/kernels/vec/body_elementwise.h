/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_elementwise.h - norms, element-wise kernels and reductions on the vector layer.
 *
 * The last vector of a loop uses masked loads and stores, which access only existing elements.
 */
#ifndef MOTE_KERNELS_VEC_BODY_ELEMENTWISE_H
#define MOTE_KERNELS_VEC_BODY_ELEMENTWISE_H

#include "kernels/vec/vmath.h"

/* Elements in the vector that starts at i. */
static inline size_t vector_count(size_t n, size_t i)
{
    return n - i < VF_WIDTH ? n - i : VF_WIDTH;
}

static inline vf load_count(const float *p, size_t left)
{
    return left == VF_WIDTH ? vf_load(p) : vf_load_n(p, left);
}

static inline void store_count(float *p, size_t left, vf x)
{
    if (left == VF_WIDTH)
        vf_store(p, x);
    else
        vf_store_n(p, left, x);
}

/* y = (x * r) * w */
static inline void scale_vector(const float *x, const float *w, size_t n, float r, float *y)
{
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf scaled = vf_mul(load_count(x + i, left), vf_set(r));
        store_count(y + i, left, vf_mul(scaled, load_count(w + i, left)));
    }
}

static inline void body_rmsnorm(const float *x, const float *w, size_t n, float eps, float *y)
{
    scale_vector(x, w, n, 1.0f / sqrtf(vf_sum_of_squares(x, n) / (float)n + eps), y);
}

static inline void body_rmsnorm_gated(const float *x, const float *w, const float *z, size_t n,
                                      float eps, float *y)
{
    const vf r = vf_set(1.0f / sqrtf(vf_sum_of_squares(x, n) / (float)n + eps));
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf normed = vf_mul(vf_mul(load_count(x + i, left), r), load_count(w + i, left));
        store_count(y + i, left, vf_mul(normed, vf_silu(load_count(z + i, left))));
    }
}

static inline void body_l2norm(const float *x, size_t n, float eps, float scale, float *y)
{
    const vf r = vf_set(1.0f / sqrtf(vf_sum_of_squares(x, n) + eps));
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf normed = vf_mul(load_count(x + i, left), r);
        store_count(y + i, left, vf_mul(normed, vf_set(scale)));
    }
}

/* lanes(x) if mean is NULL, otherwise lanes((x - mean)^2). */
static inline float lanes_sum_around(const float *x, size_t n, const float *mean)
{
    vlanes sums = {{vf_zero()}};
    for (size_t i = 0; i < n; i += KERN_LANES)
        for (int p = 0; p < VLANES_PARTS; p++) {
            const size_t share = vlanes_share(n - i, p);
            const vf v = load_count(x + i + p * VF_WIDTH, share);
            if (mean == NULL) {
                sums.part[p] = vf_add(sums.part[p], v);
                continue;
            }
            const vf d = vf_keep_first(vf_sub(v, vf_set(*mean)), share, vf_zero());
            sums.part[p] = vf_fma(d, d, sums.part[p]);
        }
    return vlanes_total(&sums);
}

static inline void body_layernorm(const float *x, const float *w, const float *b, size_t n,
                                  float eps, float *y)
{
    const float mean = lanes_sum_around(x, n, NULL) / (float)n;
    const vf r = vf_set(1.0f / sqrtf(lanes_sum_around(x, n, &mean) / (float)n + eps));
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf d = vf_sub(load_count(x + i, left), vf_set(mean));
        const vf scaled = vf_fma(vf_mul(d, r), load_count(w + i, left), load_count(b + i, left));
        store_count(y + i, left, scaled);
    }
}

static inline void body_gelu_tanh(const float *b, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf x = vf_add(load_count(y + i, left), load_count(b + i, left));
        store_count(y + i, left, vf_gelu_tanh(x));
    }
}

static inline void body_gelu_erf(const float *b, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf x = vf_add(load_count(y + i, left), load_count(b + i, left));
        store_count(y + i, left, vf_gelu_erf(x));
    }
}

static inline void body_add(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        store_count(y + i, left, vf_add(load_count(y + i, left), load_count(x + i, left)));
    }
}

static inline void body_axpy(float a, const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf sum = vf_fma(vf_set(a), load_count(x + i, left), load_count(y + i, left));
        store_count(y + i, left, sum);
    }
}

static inline void body_silu_mul(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf silu = vf_silu(load_count(gate + i, left));
        store_count(y + i, left, vf_mul(silu, load_count(up + i, left)));
    }
}

static inline void body_conv_silu(const float *const x[4], const float *w, size_t w_stride,
                                  size_t n, float *y)
{
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        vf sum = vf_zero();
        for (size_t j = 0; j < 4; j++)
            sum = vf_fma(load_count(w + j * w_stride + i, left), load_count(x[j] + i, left), sum);
        store_count(y + i, left, vf_silu(sum));
    }
}

static inline void body_rope(float *x, const float *cos, const float *sin, size_t n)
{
    for (size_t i = 0; i < n; i += VF_WIDTH) {
        const size_t left = vector_count(n, i);
        const vf a = load_count(x + i, left), b = load_count(x + i + n, left);
        const vf c = load_count(cos + i, left), s = load_count(sin + i, left);
        store_count(x + i, left, vf_sub(vf_mul(a, c), vf_mul(b, s)));
        store_count(x + i + n, left, vf_add(vf_mul(b, c), vf_mul(a, s)));
    }
}

static inline float body_sum_exp(const float *x, size_t n, float max, float scale)
{
    vlanes sums = {{vf_zero()}};
    for (size_t i = 0; i < n; i += KERN_LANES)
        for (int p = 0; p < VLANES_PARTS; p++) {
            const size_t share = vlanes_share(n - i, p);
            const vf v = vf_sub(load_count(x + i + p * VF_WIDTH, share), vf_set(max));
            const vf e = vf_exp(vf_mul(v, vf_set(scale)));
            sums.part[p] = vf_add(sums.part[p], vf_keep_first(e, share, vf_zero()));
        }
    return vlanes_total(&sums);
}

#endif
