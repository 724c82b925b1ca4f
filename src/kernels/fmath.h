/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fmath.h - definitions of the elementary functions (exp, sigmoid, tanh, erf, GELU, ...).
 *
 * Each function is a fixed sequence of IEEE operations: add, subtract, multiply, divide, fused
 * multiply-add, comparison and integer operations on the bits. vec/vmath.h executes the same
 * sequence in every vector lane, so all levels give the same bits. A change of any operation here
 * changes MOTE_NUMERICS.
 *
 * Rounding to an integer: an fma adds 1.5 * 2^23. The sum has no fraction bits, so the addition
 * rounds to nearest even. This works on every target and needs no rounding instruction (SSE4.1, not
 * in the baseline). The low bits of the sum are the integer.
 */
#ifndef MOTE_KERNELS_FMATH_H
#define MOTE_KERNELS_FMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t f_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float f_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define F_ROUND_MAGIC 0x1.8p23f

/* The smallest and the largest x for which e^x is a normal number. */
#define F_EXP_LO -0x1.5d589ep6f
#define F_EXP_HI 0x1.62e42ep6f
#define F_LOG2E  0x1.715476p0f
/* ln 2 = HI + LO. n * HI has at most 32 bits and cancels against x exactly in an fma. */
#define F_LN2_HI 0x1.62e43p-1f
#define F_LN2_LO -0x1.05c61p-29f
/* e^r = 1 + r + r^2 (C2 + C3 r + ...), interpolated at the Chebyshev points of |r| <= ln2 / 2. */
#define F_EXP_C2 0x1p-1f
#define F_EXP_C3 0x1.5554dcp-3f
#define F_EXP_C4 0x1.55551ap-5f
#define F_EXP_C5 0x1.120ba2p-7f
#define F_EXP_C6 0x1.6d113cp-10f

/* e^x within 1 ulp. With n = rne(x / ln 2) and r = x - n ln 2, e^x = 2^n e^r. The factor 2^n is
 * added to the exponent bits, which is exact because the result is normal. Below F_EXP_LO the
 * result is +0: no subnormals, which are slow on some CPUs. Above F_EXP_HI it is +inf. A NaN stays
 * a NaN. */
static inline float f_exp(float x)
{
    if (x != x)
        return x;
    if (x < F_EXP_LO)
        return 0.0f;
    if (x > F_EXP_HI)
        return INFINITY;
    const float shifted = fmaf(x, F_LOG2E, F_ROUND_MAGIC);
    const float n = shifted - F_ROUND_MAGIC;
    float r = fmaf(n, -F_LN2_HI, x);
    r = fmaf(n, -F_LN2_LO, r);
    float p = F_EXP_C6;
    p = fmaf(p, r, F_EXP_C5);
    p = fmaf(p, r, F_EXP_C4);
    p = fmaf(p, r, F_EXP_C3);
    p = fmaf(p, r, F_EXP_C2);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    return f_from_bits(f_bits(p) + (f_bits(shifted) << 23));
}

static inline float f_sigmoid(float x)
{
    return 1.0f / (1.0f + f_exp(-x));
}

static inline float f_silu(float x)
{
    return x * f_sigmoid(x);
}

/*
 * ln(1 + y) for 0 <= y <= 1, as 2 atanh(s) with s = y / (2 + y) <= 1/3: no cancellation near 0.
 * atanh(s) = s + s^3 (...), interpolated over s^2 <= 1/9.
 */
static inline float f_log1p(float y)
{
    const float s = y / (2.0f + y);
    const float z = s * s;
    float p = 0x1.a9bafcp-3f;
    p = fmaf(p, z, 0x1.65ad56p-3f);
    p = fmaf(p, z, 0x1.c7fb36p-3f);
    p = fmaf(p, z, 0x1.248f58p-2f);
    p = fmaf(p, z, 0x1.9999ap-2f);
    p = fmaf(p, z, 0x1.555556p-1f);
    return fmaf(p * z, s, s + s);
}

/* ln(1 + e^x) as max(x, 0) + ln(1 + e^-|x|): no overflow and no cancellation. */
static inline float f_softplus(float x)
{
    const float positive = x > 0.0f ? x : 0.0f;
    return positive + f_log1p(f_exp(-fabsf(x)));
}

/* |x| <= 5/8: an odd polynomial, x + x^3 (...), because 1 - 2/(...) would cancel. Larger: 1 - 2 /
 * (e^2x + 1). Computed for |x|, then the sign is copied. */
static inline float f_tanh(float x)
{
    const float a = fabsf(x);
    if (a > 0.625f)
        return copysignf(1.0f - 2.0f / (f_exp(a + a) + 1.0f), x);
    const float z = a * a;
    float p = 0x1.2c83cp-9f;
    p = fmaf(p, z, -0x1.116a16p-7f);
    p = fmaf(p, z, 0x1.64a976p-6f);
    p = fmaf(p, z, -0x1.ba08c4p-5f);
    p = fmaf(p, z, 0x1.1110eap-3f);
    p = fmaf(p, z, -0x1.555556p-2f);
    return copysignf(fmaf(p * z, a, a), x);
}

/* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
static inline float f_gelu_tanh(float x)
{
    const float cubic = fmaf(x * x, 0x1.2444f2p-5f, 0x1.988454p-1f);
    return (0.5f * x) * (1.0f + f_tanh(cubic * x));
}

/* Upper limit of the polynomial form of erf. */
#define F_ERF_SMALL 0.875f
#define F_ERF_LARGE 4.0f /* above, 1 - erf is below half an ulp */

/* erf(a) = a + a P(a^2) up to F_ERF_SMALL, and 1 - e^Q(a) above, where Q approximates ln(1 - erf).
 * Both are interpolated at Chebyshev points. Coefficients start with the highest power. */
static const float f_erf_p[6] = {-0x1.45d2cp-11f, 0x1.49eebap-8f,  -0x1.b6f9c4p-6f,
                                 0x1.ce218ep-4f,  -0x1.81270ep-2f, 0x1.06eba6p-3f};
static const float f_erf_q[9] = {0x1.b88886p-20f, -0x1.82e04ap-15f, 0x1.391452p-11f,
                                 -0x1.37f858p-8f, 0x1.b0dd94p-6f,   -0x1.c2dab2p-4f,
                                 -0x1.4380dap-1f, -0x1.215606p0f,   0x1.4a768cp-12f};

/* Absolute error at most 1.5e-7. */
static inline float f_erf(float x)
{
    const float a = fabsf(x);
    if (a > F_ERF_SMALL) {
        const float t = a < F_ERF_LARGE ? a : F_ERF_LARGE;
        float q = f_erf_q[0];
        for (int i = 1; i < 9; i++)
            q = fmaf(q, t, f_erf_q[i]);
        return copysignf(1.0f - f_exp(q), x);
    }
    const float z = a * a;
    float p = f_erf_p[0];
    for (int i = 1; i < 6; i++)
        p = fmaf(p, z, f_erf_p[i]);
    return copysignf(fmaf(p, a, a), x);
}

/* x/2 (1 + erf(x / sqrt 2)) */
static inline float f_gelu_erf(float x)
{
    return (0.5f * x) * (1.0f + f_erf(x * 0x1.6a09e6p-1f));
}

#endif
