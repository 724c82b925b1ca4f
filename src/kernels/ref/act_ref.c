/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act_ref.c - activations to 8 bits, one scale per block of 32 or 256.
 *
 *     amax = max |x|;  d = amax / 127;  q = clamp(rne(x * (127 / amax)), -127, 127)
 *
 * A block of zeros has d = 0 and q = 0. Every input has one defined answer, also
 * those that no healthy model produces: a NaN does not count for amax and gets the
 * code 127, as does 0 * infinity when amax is so small that 127 / amax overflows.
 * The comparisons are written so that a vector minimum and maximum agree.
 */
#include "kernels/variants.h"

#include "quant/blocks.h"

#include <math.h>

enum { SUM_256 = 16 }; /* values behind one entry of sum, for blocks of 256 */

static float largest_magnitude(const float *x, size_t n)
{
    float amax = 0.0f;
    for (size_t i = 0; i < n; i++)
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    return amax;
}

/* To the nearest integer, ties to even: at 1.5 * 2^23 a float has no fraction
 * bits left, so the addition does the rounding. Needs |value| < 2^22. */
static float round_to_integer(float value)
{
    const float no_fraction = 0x1.8p23f;
    return (value + no_fraction) - no_fraction;
}

/* Clamping first gives the same as rounding first: both limits are integers. */
static int8_t code_of(float x, float inv)
{
    float value = x * inv;
    value = value < 127.0f ? value : 127.0f;
    value = value > -127.0f ? value : -127.0f;
    return (int8_t)round_to_integer(value);
}

static float quantise_block(const float *x, size_t n, int8_t *q)
{
    const float amax = largest_magnitude(x, n);
    const float inv = 127.0f / amax;
    for (size_t i = 0; i < n; i++)
        q[i] = amax > 0.0f ? code_of(x[i], inv) : 0;
    return amax / 127.0f;
}

/* At most 32 * 127 = 4064. */
static int16_t sum_of(const int8_t *q, size_t n)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += q[i];
    return (int16_t)sum;
}

static void quantise_row(const float *x, size_t cols, size_t block, size_t group, int8_t *q,
                         float *d, int16_t *sum)
{
    for (size_t b = 0; b < cols / block; b++)
        d[b] = quantise_block(x + b * block, block, q + b * block);
    for (size_t g = 0; g < cols / group; g++)
        sum[g] = sum_of(q + g * group, group);
}

void k_act_32_ref(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    quantise_row(x, cols, QUANT_BLOCK, QUANT_BLOCK, q, d, sum);
}

void k_act_256_ref(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    quantise_row(x, cols, QUANT_SUPERBLOCK, SUM_256, q, d, sum);
}
