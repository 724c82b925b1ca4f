/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_ref.c - stores the key and value of one position in a KV page.
 *
 * Keys are stored transposed, [256][64]: a vector then computes scores of many positions at once.
 * Values are stored as rows, [64][256]: a vector computes many output dimensions at once. Rounding
 * to the cache format happens only here, so a new key and a cached key are the same number.
 */
#include "kernels/variants.h"

#include "quant/half.h"

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

void k_kv_put_f16_ref(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    uint16_t *keys = k_page;                                              /* [256][64] */
    uint16_t *values = (uint16_t *)v_page + (size_t)slot * KERN_HEAD_DIM; /* row of [64][256] */
    for (size_t i = 0; i < KERN_HEAD_DIM; i++) {
        keys[i * KERN_PAGE + slot] = half_f32_to_f16(k[i]);
        values[i] = half_f32_to_f16(v[i]);
    }
}
