/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_kv.h - rotates keys and values and stores them in a page, on the vector layer.
 * ref/kv_ref.c defines the results.
 */
#ifndef MOTE_KERNELS_VEC_BODY_KV_H
#define MOTE_KERNELS_VEC_BODY_KV_H

#include "kernels/vec/chain.h"

/* Keys are a column of the page: converted as vectors, stored one by one. */
static inline void body_kv_put_f16(const float *k, const float *v, uint16_t *k_page,
                                   uint16_t *v_page, uint32_t slot)
{
    uint16_t *values = v_page + (size_t)slot * KERN_HEAD_DIM;
    for (int i = 0; i < KERN_HEAD_DIM; i += VF_WIDTH) {
        uint16_t keys[VF_WIDTH];
        vf_store_f16(keys, vf_load(k + i));
        vf_store_f16(values + i, vf_load(v + i));
        for (int j = 0; j < VF_WIDTH; j++)
            k_page[(size_t)(i + j) * KERN_PAGE + slot] = keys[j];
    }
}

/* Steps h < VF_WIDTH are inside a vector, the others combine vectors. */
static inline void body_hadamard(float *x, size_t n, float scale)
{
    enum { VECTORS = KERN_KV_GROUP / VF_WIDTH };
    for (float *group = x; group < x + n; group += KERN_KV_GROUP) {
        vf part[VECTORS];
        CHAIN_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            part[v] = vf_butterfly(vf_load(group + v * VF_WIDTH), 1);
            part[v] = vf_butterfly(part[v], 2);
            if (VF_WIDTH > 4)
                part[v] = vf_butterfly(part[v], 4);
            if (VF_WIDTH > 8)
                part[v] = vf_butterfly(part[v], 8);
        }
        CHAIN_UNROLL
        for (int h = 1; h < VECTORS; h *= 2)
            CHAIN_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            if ((v & h) != 0)
                continue;
            const vf a = part[v], b = part[v + h];
            part[v] = vf_add(a, b);
            part[v + h] = vf_sub(a, b);
        }
        CHAIN_UNROLL
        for (int v = 0; v < VECTORS; v++)
            vf_store(group + v * VF_WIDTH, vf_mul(part[v], vf_set(scale)));
    }
}

/* Codes of a group of 32 in the low four bits of each word; returns the scale. A comparison with a
 * NaN is false, so it is ignored in the maxima and gets the code 7. */
static inline float kv_quantise_q4_0(const float *x, uint32_t code[KERN_KV_GROUP])
{
    vf high = vf_zero(), low = vf_zero();
    for (int i = 0; i < KERN_KV_GROUP; i += VF_WIDTH) {
        const vf value = vf_load(x + i);
        high = vf_max(value, high);
        low = vf_max(vf_negate(value), low);
    }
    const float h = vf_reduce_max(high), l = vf_reduce_max(low);
    const float m = h > l ? h : -l;
    const vf inv = vf_set(-8.0f / m), most = vf_set(7.0f), least = vf_set(-8.0f);
    for (int i = 0; i < KERN_KV_GROUP; i += VF_WIDTH) {
        vf value = vf_mul(vf_load(x + i), inv);
        value = vf_select_less(value, most, value, most);
        value = vf_select_less(least, value, value, least);
        vf_store_bits(code + i, m != 0.0f ? vf_add(value, vf_set(0x1.8p23f)) : vf_zero());
    }
    return m * -0.125f;
}

/* Codes and scales of 256 values. */
static inline void kv_quantise_head(const float *x, uint32_t code[KERN_HEAD_DIM],
                                    uint16_t d[KERN_KV_GROUPS])
{
    float scale[KERN_KV_GROUPS];
    for (int g = 0; g < KERN_KV_GROUPS; g++)
        scale[g] = kv_quantise_q4_0(x + g * KERN_KV_GROUP, code + g * KERN_KV_GROUP);
    vf_store_8_f16(d, scale);
}

static inline void body_kv_put_q4_0(const float *k, const float *v, kern_q4_keys *keys,
                                    kern_q4_values *values, uint32_t slot)
{
    enum { GROUP = KERN_KV_GROUP, HALF = GROUP / 2 };
    uint32_t code[KERN_HEAD_DIM];
    uint16_t d[KERN_KV_GROUPS];
    kv_quantise_head(k, code, d);
    for (size_t i = 0; i < KERN_HEAD_DIM / 2; i++)
        keys->code[i][slot] = (uint8_t)((code[2 * i] & 15) | (code[2 * i + 1] & 15) << 4);
    for (size_t g = 0; g < KERN_KV_GROUPS; g++)
        keys->d[g][slot] = d[g];
    kv_quantise_head(v, code, values->d[slot]);
    for (size_t g = 0; g < KERN_KV_GROUPS; g++)
        for (size_t i = 0; i < HALF; i++) {
            const uint32_t *at = code + g * GROUP + i;
            values->code[slot][g * HALF + i] = (uint8_t)((at[0] & 15) | (at[HALF] & 15) << 4);
        }
}

#endif
