/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act_ref.c - quantises activations to 8 bits, one scale per block of 32 or 256.
 *
 *     amax = max |x|;  d = amax / 127;  q = clamp(rne(x * (127 / amax)), -127, 127)
 *
 * A block of zeros has d = 0 and q = 0. The result is defined for every input, also for broken
 * models: a NaN is ignored in amax and gets the code 127, as does 0 * infinity, which occurs when
 * amax is so small that 127 / amax overflows. The comparisons are written so that vector minimum
 * and maximum instructions give the same results.
 */
#include "kernels/variants.h"

#include "quant/blocks.h"

#include <math.h>

enum { SUM_256 = 16 }; /* values per entry of `sum`, for blocks of 256 */

static float act_amax(const float *x, size_t n)
{
    float amax = 0.0f;
    for (size_t i = 0; i < n; i++)
        amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    return amax;
}

/* Rounds to nearest, ties to even: a float near 1.5 * 2^23 has no fraction bits, so the addition
 * rounds. Requires |value| < 2^22. */
static float act_round(float value)
{
    const float no_fraction = 0x1.8p23f;
    return (value + no_fraction) - no_fraction;
}

/* Clamps before it rounds. The order does not matter, because both limits are integers. */
static int8_t act_code(float x, float inv)
{
    float value = x * inv;
    value = value < 127.0f ? value : 127.0f;
    value = value > -127.0f ? value : -127.0f;
    return (int8_t)act_round(value);
}

static float act_quantise_block(const float *x, size_t n, int8_t *q)
{
    const float amax = act_amax(x, n);
    const float inv = 127.0f / amax;
    for (size_t i = 0; i < n; i++)
        q[i] = amax > 0.0f ? act_code(x[i], inv) : 0;
    return amax / 127.0f;
}

/* |sum| <= 32 * 127 = 4064. */
static int16_t act_code_sum(const int8_t *q, size_t n)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += q[i];
    return (int16_t)sum;
}

static void act_quantise_row(const float *x, size_t cols, size_t block, size_t group, int8_t *q,
                             float *d, int16_t *sum)
{
    for (size_t b = 0; b < cols / block; b++)
        d[b] = act_quantise_block(x + b * block, block, q + b * block);
    for (size_t g = 0; g < cols / group; g++)
        sum[g] = act_code_sum(q + g * group, group);
}

void k_act_32_ref(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    act_quantise_row(x, cols, QUANT_BLOCK, QUANT_BLOCK, q, d, sum);
}

void k_act_256_ref(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    act_quantise_row(x, cols, QUANT_SUPERBLOCK, SUM_256, q, d, sum);
}
