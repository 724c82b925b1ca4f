/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmath.h - the functions of fmath.h on vectors, sums by lanes, and the maximum.
 *
 * Include a vec_*.h first. Each function has the same operations in the same order as its scalar
 * definition in fmath.h.
 */
#ifndef MOTE_KERNELS_VEC_VMATH_H
#define MOTE_KERNELS_VEC_VMATH_H

#include "kernels/fmath.h"
#include "kernels/kernels.h"

/* e^x = 2^n p. n is also in the low bits of `shifted`. */
static inline vf vf_exp_parts(vf x, vf *n, vf *shifted)
{
    const vf magic = vf_set(F_ROUND_MAGIC);
    *shifted = vf_fma(x, vf_set(F_LOG2E), magic);
    *n = vf_sub(*shifted, magic);
    vf r = vf_fma(*n, vf_set(-F_LN2_HI), x);
    r = vf_fma(*n, vf_set(-F_LN2_LO), r);
    vf p = vf_set(F_EXP_C6);
    p = vf_fma(p, r, vf_set(F_EXP_C5));
    p = vf_fma(p, r, vf_set(F_EXP_C4));
    p = vf_fma(p, r, vf_set(F_EXP_C3));
    p = vf_fma(p, r, vf_set(F_EXP_C2));
    p = vf_fma(p, r, vf_set(1.0f));
    return vf_fma(p, r, vf_set(1.0f));
}

static inline vf vf_exp(vf x)
{
    vf n, shifted, p = vf_exp_parts(x, &n, &shifted);
    p = vf_add_exponent(p, shifted);
    /* Lanes with x out of range are invalid up to here; replace them. */
    p = vf_select_less(x, vf_set(F_EXP_LO), vf_zero(), p);
    p = vf_select_less(vf_set(F_EXP_HI), x, vf_set(INFINITY), p);
    return vf_select_nan(x, p);
}

/* e^x for x <= 0 or NaN, same bits as vf_exp. Needs a third fewer instructions. */
static inline vf vf_exp_nonpositive(vf x)
{
    vf n, shifted;
    const vf p = vf_exp_parts(x, &n, &shifted);
    return vf_zero_if_less(x, vf_set(F_EXP_LO), vf_mul_exp2(p, n, shifted));
}

static inline vf vf_sigmoid(vf x)
{
    const vf one = vf_set(1.0f);
    return vf_div(one, vf_add(one, vf_exp(vf_negate(x))));
}

static inline vf vf_silu(vf x)
{
    return vf_mul(x, vf_sigmoid(x));
}

/* Copies the sign of x to value >= 0. Where x is +-0 the value is 0. */
static inline vf vf_copysign(vf value, vf x)
{
    return vf_select_less(x, vf_zero(), vf_negate(value), value);
}

static inline vf vf_tanh(vf x)
{
    const vf one = vf_set(1.0f), a = vf_abs(x), z = vf_mul(a, a);
    vf p = vf_set(0x1.2c83cp-9f);
    p = vf_fma(p, z, vf_set(-0x1.116a16p-7f));
    p = vf_fma(p, z, vf_set(0x1.64a976p-6f));
    p = vf_fma(p, z, vf_set(-0x1.ba08c4p-5f));
    p = vf_fma(p, z, vf_set(0x1.1110eap-3f));
    p = vf_fma(p, z, vf_set(-0x1.555556p-2f));
    const vf small = vf_fma(vf_mul(p, z), a, a);
    const vf large = vf_sub(one, vf_div(vf_set(2.0f), vf_add(vf_exp(vf_add(a, a)), one)));
    return vf_copysign(vf_select_less(vf_set(0.625f), a, large, small), x);
}

static inline vf vf_gelu_tanh(vf x)
{
    const vf cubic = vf_fma(vf_mul(x, x), vf_set(0x1.2444f2p-5f), vf_set(0x1.988454p-1f));
    return vf_mul(vf_mul(vf_set(0.5f), x), vf_add(vf_set(1.0f), vf_tanh(vf_mul(cubic, x))));
}

static inline vf vf_erf(vf x)
{
    const vf a = vf_abs(x), z = vf_mul(a, a);
    const vf t = vf_select_less(a, vf_set(F_ERF_LARGE), a, vf_set(F_ERF_LARGE));
    vf p = vf_set(f_erf_p[0]), q = vf_set(f_erf_q[0]);
    for (int i = 1; i < 6; i++)
        p = vf_fma(p, z, vf_set(f_erf_p[i]));
    for (int i = 1; i < 9; i++)
        q = vf_fma(q, t, vf_set(f_erf_q[i]));
    const vf large = vf_sub(vf_set(1.0f), vf_exp(q));
    return vf_copysign(vf_select_less(vf_set(F_ERF_SMALL), a, large, vf_fma(p, a, a)), x);
}

static inline vf vf_gelu_erf(vf x)
{
    const vf e = vf_erf(vf_mul(x, vf_set(0x1.6a09e6p-1f)));
    return vf_mul(vf_mul(vf_set(0.5f), x), vf_add(vf_set(1.0f), e));
}

enum { VLANES_PARTS = KERN_LANES / VF_WIDTH };

/* The number of the n remaining values that belong to register `part` of the sixteen lanes. */
static inline size_t vlanes_share(size_t n, int part)
{
    const size_t before = (size_t)part * VF_WIDTH;
    const size_t left = n > before ? n - before : 0;
    return left < VF_WIDTH ? left : VF_WIDTH;
}

/* lanes(x * x). Missing elements add 0 * 0, which does not change a sum of squares. */
static inline float vf_sum_of_squares(const float *x, size_t n)
{
    vlanes sums = {{vf_zero()}};
    size_t i = 0;
    for (; i + KERN_LANES <= n; i += KERN_LANES)
        for (int p = 0; p < VLANES_PARTS; p++) {
            const vf v = vf_load(x + i + p * VF_WIDTH);
            sums.part[p] = vf_fma(v, v, sums.part[p]);
        }
    for (int p = 0; p < VLANES_PARTS; p++) {
        const vf v = vf_load_n(x + i + p * VF_WIDTH, vlanes_share(n - i, p));
        sums.part[p] = vf_fma(v, v, sums.part[p]);
    }
    return vlanes_total(&sums);
}

/* Softmax numerators: replaces scores p with e^(p - m) and returns lanes(p). Lanes after the last
 * key become zero. */
static inline float vf_softmax_weights(float *p, size_t n, float m)
{
    vlanes sums = {{vf_zero()}};
    for (size_t j = 0; j < n; j += KERN_LANES)
        for (int part = 0; part < VLANES_PARTS; part++) {
            float *at = p + j + part * VF_WIDTH;
            const vf e = vf_exp_nonpositive(vf_sub(vf_load(at), vf_set(m)));
            const vf kept = vf_keep_first(e, vlanes_share(n - j, part), vf_zero());
            vf_store(at, kept);
            sums.part[part] = vf_add(sums.part[part], kept);
        }
    return vlanes_total(&sums);
}

/* A zero maximum has the sign of the first zero. This case is rare, so it is a scalar search. */
static inline float vf_find_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] == 0.0f)
            return x[i];
    return 0.0f;
}

/* Maximum of n values. NaN is skipped; -inf if all are NaN. */
static inline float vf_max_array(const float *x, size_t n)
{
    enum { CHAINS = 4, STEP = CHAINS * VF_WIDTH };
    const vf lowest = vf_set(-INFINITY);
    vf best[CHAINS] = {lowest, lowest, lowest, lowest};
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        for (int c = 0; c < CHAINS; c++)
            best[c] = vf_max(vf_load(x + i + c * VF_WIDTH), best[c]);
    for (; i < n; i += VF_WIDTH) {
        const size_t left = n - i < VF_WIDTH ? n - i : VF_WIDTH;
        best[0] = vf_max(vf_keep_first(vf_load_n(x + i, left), left, lowest), best[0]);
    }
    const vf all = vf_max(vf_max(best[0], best[1]), vf_max(best[2], best[3]));
    const float max = vf_reduce_max(all);
    return max == 0.0f ? vf_find_zero(x, n) : max;
}

#endif
