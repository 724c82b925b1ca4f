/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rope.c - RoPE frequencies, with YaRN, and the cosines and sines of a position.
 *
 *     inv_freq[i] = base^(-2i/64),   angle = pos * inv_freq[i]
 *
 * Frequencies are computed in binary64 and rounded once. The angle is the binary32 product of
 * position and frequency, because the model was trained with that. Cosine and sine of the angle are
 * computed in binary64 and rounded once.
 *
 * YaRN keeps fast frequencies (i <= low), divides slow ones (i >= high) by the factor, and
 * interpolates between. low and high are the pairs that turn 32 times and once over the trained
 * context.
 */
#include "nn/nn.h"

#include "kernels/dmath.h"

static const double two_pi = 6.283185307179586;

/* Index (a fraction) of the pair that makes `turns` turns over the trained context. */
static double yarn_pair(double turns, double base, double original)
{
    return 2 * ROPE_PAIRS * d_log(original / (two_pi * turns)) / (2 * d_log(base));
}

static double yarn_floor(double x)
{
    double whole = (double)(int64_t)x;
    return whole > x ? whole - 1 : whole;
}

void rope_init(rope *r, double base, double factor, double original)
{
    enum { DIMS = 2 * ROPE_PAIRS };
    bool yarn = factor > 1;
    double low = 0, high = 1;
    if (yarn) {
        low = yarn_floor(yarn_pair(32, base, original));
        high = -yarn_floor(-yarn_pair(1, base, original));
        low = low > 0 ? low : 0;
        high = high < DIMS - 1 ? high : DIMS - 1;
        if (high <= low)
            high = low + 0.001; /* as transformers does: never divide by 0 */
    }
    for (int i = 0; i < ROPE_PAIRS; i++) {
        double plain = d_pow(base, -2.0 * i / DIMS);
        double ramp = (i - low) / (high - low);
        ramp = ramp < 0 ? 0 : ramp > 1 ? 1 : ramp;
        r->inv_freq[i] = (float)(yarn ? plain * ((1 - ramp) + ramp / factor) : plain);
    }
    r->scale = yarn ? (float)(1 + 0.1 * d_log(factor)) : 1.0f;
}

static void rope_pair(const rope *r, int i, uint64_t pos, float *cos, float *sin)
{
    const float angle = (float)pos * r->inv_freq[i];
    cos[i] = (float)d_cos((double)angle) * r->scale;
    sin[i] = (float)d_sin((double)angle) * r->scale;
}

void rope_angles(const rope *r, uint64_t pos, float *cos, float *sin)
{
    for (int i = 0; i < ROPE_PAIRS; i++)
        rope_pair(r, i, pos, cos, sin);
}

void rope_angles_image(const rope *r, uint64_t base, uint64_t row, uint64_t col, float *cos,
                       float *sin)
{
    const uint64_t axes[3] = {base, base + row, base + col};
    for (int i = 0; i < ROPE_PAIRS; i++)
        rope_pair(r, i, axes[i % 3], cos, sin);
}
