/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dmath.h - binary64 sin, cos, log, exp and pow for the RoPE tables.
 *
 * The tables affect logits, so they must not depend on the installed C library. Errors are a few
 * units of 1e-16: absolute for sin and cos with |x| up to 2e6, relative for log and exp. Every
 * result is then rounded to f32 once. The series are Taylor series: after argument reduction
 * minimax coefficients would not improve the rounded result.
 */
#ifndef MOTE_KERNELS_DMATH_H
#define MOTE_KERNELS_DMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t d_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double d_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* A sum with this constant has no fraction bits: it rounds to nearest even. See fmath.h. */
#define D_ROUND_MAGIC 0x1.8p52

/* sin r for |r| <= pi/4, to r^17 */
static inline double d_sin_reduced(double r)
{
    const double z = r * r;
    double p = 1.0 / 355687428096000.0;
    p = fma(p, z, -1.0 / 1307674368000.0);
    p = fma(p, z, 1.0 / 6227020800.0);
    p = fma(p, z, -1.0 / 39916800.0);
    p = fma(p, z, 1.0 / 362880.0);
    p = fma(p, z, -1.0 / 5040.0);
    p = fma(p, z, 1.0 / 120.0);
    p = fma(p, z, -1.0 / 6.0);
    return fma(p * z, r, r);
}

/* cos r for |r| <= pi/4, to r^18 */
static inline double d_cos_reduced(double r)
{
    const double z = r * r;
    double p = -1.0 / 6402373705728000.0;
    p = fma(p, z, 1.0 / 20922789888000.0);
    p = fma(p, z, -1.0 / 87178291200.0);
    p = fma(p, z, 1.0 / 479001600.0);
    p = fma(p, z, -1.0 / 3628800.0);
    p = fma(p, z, 1.0 / 40320.0);
    p = fma(p, z, -1.0 / 720.0);
    p = fma(p, z, 1.0 / 24.0);
    p = fma(p, z, -0.5);
    return fma(p, z, 1.0);
}

/* Argument reduction: quarter = q mod 4 and r = x - q pi/2. pi/2 is the sum of two doubles, and an
 * fma does not round the product. So for |x| <= 2e6 (q < 2^21) the error is q times the remainder
 * of pi/2, below 1e-26, plus the rounding of r. */
static inline double d_quarter_turns(double x, unsigned *quarter)
{
    const double shifted = fma(x, 0x1.45f306dc9c883p-1, D_ROUND_MAGIC);
    const double q = shifted - D_ROUND_MAGIC;
    *quarter = (unsigned)d_bits(shifted) & 3;
    const double r = fma(q, -0x1.921fb54442d18p+0, x);
    return fma(q, -0x1.1a62633145c07p-54, r);
}

static inline double d_sin(double x)
{
    unsigned quarter;
    const double r = d_quarter_turns(x, &quarter);
    const double y = quarter & 1 ? d_cos_reduced(r) : d_sin_reduced(r);
    return quarter & 2 ? -y : y;
}

static inline double d_cos(double x)
{
    unsigned quarter;
    const double r = d_quarter_turns(x, &quarter);
    const double y = quarter & 1 ? d_sin_reduced(r) : d_cos_reduced(r);
    return (quarter + 1) & 2 ? -y : y;
}

#define D_LN2_HI 0x1.62e42fefa39efp-1
#define D_LN2_LO 0x1.abc9e3b39803fp-56

/* e^x; +0 below the smallest normal number, +inf above the largest. */
static inline double d_exp(double x)
{
    if (x != x)
        return x;
    if (x < -708.0)
        return 0.0;
    if (x > 709.0)
        return INFINITY;
    const double shifted = fma(x, 0x1.71547652b82fep+0, D_ROUND_MAGIC);
    const double n = shifted - D_ROUND_MAGIC;
    double r = fma(n, -D_LN2_HI, x);
    r = fma(n, -D_LN2_LO, r);
    double p = 1.0;
    for (int k = 14; k > 0; k--) /* Horner scheme of sum r^k / k! */
        p = fma(p * r, 1.0 / k, 1.0);
    return d_from_bits(d_bits(p) + (d_bits(shifted) << 52));
}

/*
 * ln x for normal x > 0. x = 2^n m with m in [sqrt(1/2), sqrt(2)), and ln m = 2 atanh(s), s = (m -
 * 1) / (m + 1), |s| < 0.172: eleven terms.
 */
static inline double d_log(double x)
{
    const uint64_t sqrt_half = 0x3fe6a09e667f3bcd;
    const uint64_t offset = d_bits(x) - sqrt_half;
    const int64_t n = (int64_t)offset >> 52;
    const double m = d_from_bits(d_bits(x) - ((uint64_t)n << 52));
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double p = 0.0;
    for (int k = 23; k > 1; k -= 2)
        p = fma(p, z, 2.0 / k);
    const double log_m = fma(p * z, s, s + s);
    return fma((double)n, D_LN2_HI, fma((double)n, D_LN2_LO, log_m));
}

/* x^y for normal x > 0 */
static inline double d_pow(double x, double y)
{
    return d_exp(y * d_log(x));
}

#endif
