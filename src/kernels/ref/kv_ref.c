/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_ref.c - stores the key and value of one position in a KV page.
 *
 * Keys are stored transposed, [256][64]: a vector then computes scores of many positions at once.
 * Values are stored as rows, [64][256]: a vector computes many output dimensions at once. Rounding
 * to the cache format happens only here, so a new key and a cached key are the same number.
 *
 * The quantised formats store rotated keys and values. The rotation is a Hadamard transform of each
 * group of 32 dimensions: it spreads an outlier over its group, so the scale of the group is smaller.
 */
#include "kernels/variants.h"

#include "kernels/fmath.h"
#include "quant/half.h"

void k_hadamard_ref(float *x, size_t n, float scale)
{
    for (float *group = x; group < x + n; group += KERN_KV_GROUP)
        for (size_t h = 1; h < KERN_KV_GROUP; h *= 2)
            for (size_t i = 0; i < KERN_KV_GROUP; i++) {
                if ((i & h) != 0)
                    continue;
                const float a = group[i], b = group[i + h];
                group[i] = a + b;
                group[i + h] = a - b;
            }
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
}

void k_kv_put_f32_ref(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    float *keys = k_page;                                           /* [256][64] */
    float *values = (float *)v_page + (size_t)slot * KERN_HEAD_DIM; /* row of [64][256] */
    for (size_t i = 0; i < KERN_HEAD_DIM; i++) {
        keys[i * KERN_PAGE + slot] = k[i];
        values[i] = v[i];
    }
}

void k_kv_put_q8_0_ref(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    kern_q8_keys *keys = k_page;
    kern_q8_values *values = v_page;
    int8_t code[KERN_HEAD_DIM];
    float d[2][KERN_KV_GROUPS];
    int16_t unused[KERN_KV_GROUPS];
    k_act_32_ref(k, KERN_HEAD_DIM, code, d[0], unused);
    k_act_32_ref(v, KERN_HEAD_DIM, values->code[slot], d[1], unused);
    for (size_t i = 0; i < KERN_HEAD_DIM; i++)
        keys->code[i][slot] = code[i];
    for (size_t g = 0; g < KERN_KV_GROUPS; g++) {
        keys->d[g][slot] = half_f32_to_f16(d[0][g]);
        values->d[slot][g] = half_f32_to_f16(d[1][g]);
    }
}

/* Codes and scale of a group of 32 in Q4_0. The element with the largest absolute value gets the
 * code -8, so the scale has its sign, reversed:
 *   high = max x, low = max -x, both at least 0;  m = high if high > low, else -low
 *   d = m * -1/8;  code = rne(clamp(x * (-8 / m), -8, 7));  all zero if m is 0
 * Broken values as in act_ref.c: a NaN is ignored in m and gets the code 7, as does 0 * infinity. */
static uint16_t kv_quantise_q4_0(const float *x, uint8_t code[KERN_KV_GROUP])
{
    float high = 0.0f, low = 0.0f;
    for (size_t i = 0; i < KERN_KV_GROUP; i++) {
        high = x[i] > high ? x[i] : high;
        low = -x[i] > low ? -x[i] : low;
    }
    const float m = high > low ? high : -low;
    const float inv = -8.0f / m;
    for (size_t i = 0; i < KERN_KV_GROUP; i++) {
        float value = x[i] * inv;
        value = value < 7.0f ? value : 7.0f;
        value = value > -8.0f ? value : -8.0f;
        /* The addition rounds; the low bits of the sum are the code in two's complement. */
        code[i] = m != 0.0f ? f_bits(value + 0x1.8p23f) & 15 : 0;
    }
    return half_f32_to_f16(m * -0.125f);
}

void k_kv_put_q4_0_ref(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    enum { GROUP = KERN_KV_GROUP, HALF = GROUP / 2 };
    kern_q4_keys *keys = k_page;
    kern_q4_values *values = v_page;
    uint8_t code[GROUP];
    for (size_t g = 0; g < KERN_KV_GROUPS; g++) {
        keys->d[g][slot] = kv_quantise_q4_0(k + g * GROUP, code);
        for (size_t i = 0; i < HALF; i++)
            keys->code[g * HALF + i][slot] = (uint8_t)(code[2 * i] | code[2 * i + 1] << 4);
        values->d[slot][g] = kv_quantise_q4_0(v + g * GROUP, code);
        for (size_t i = 0; i < HALF; i++)
            values->code[slot][g * HALF + i] = (uint8_t)(code[i] | code[HALF + i] << 4);
    }
}

void k_kv_put_f16_ref(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    uint16_t *keys = k_page;                                              /* [256][64] */
    uint16_t *values = (uint16_t *)v_page + (size_t)slot * KERN_HEAD_DIM; /* row of [64][256] */
    for (size_t i = 0; i < KERN_HEAD_DIM; i++) {
        keys[i * KERN_PAGE + slot] = half_f32_to_f16(k[i]);
        values[i] = half_f32_to_f16(v[i]);
    }
}
