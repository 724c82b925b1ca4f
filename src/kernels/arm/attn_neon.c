/* SPDX-License-Identifier: Apache-2.0 */
/* attn_neon.c - attention over KV pages; see body_attn.h. */
#include "kernels/variants.h"

#include "kernels/arm/vec_neon.h"

#include "kernels/vec/body_attn.h"
#include "kernels/vec/body_kv.h"

void k_attn_block_f32_neon(const kern_attn_args *a)
{
    body_attn_block_f32(a);
}

void k_attn_block_f16_neon(const kern_attn_args *a)
{
    body_attn_block_f16(a);
}

void k_attn_block_q8_0_neon(const kern_attn_args *a)
{
    body_attn_block_q8_0(a);
}

void k_attn_block_q4_0_neon(const kern_attn_args *a)
{
    body_attn_block_q4_0(a);
}

void k_attn_merge_neon(kern_attn_acc *into, const kern_attn_acc *from, size_t n)
{
    body_attn_merge(into, from, n);
}

void k_attn_finish_neon(const kern_attn_acc *acc, const float *gate, float *y)
{
    body_attn_finish(acc, gate, y);
}

void k_kv_put_f16_neon(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    body_kv_put_f16(k, v, k_page, v_page, slot);
}

void k_kv_put_q8_0_neon(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    kern_q8_keys *keys = k_page;
    kern_q8_values *values = v_page;
    int8_t code[DIM];
    float d[KERN_KV_GROUPS];
    int16_t unused[KERN_KV_GROUPS];
    uint16_t half[KERN_KV_GROUPS];
    k_act_32_neon(v, DIM, values->code[slot], d, unused);
    for (size_t g = 0; g < KERN_KV_GROUPS; g += VF_WIDTH)
        vf_store_f16(values->d[slot] + g, vf_load(d + g));
    k_act_32_neon(k, DIM, code, d, unused);
    for (size_t g = 0; g < KERN_KV_GROUPS; g += VF_WIDTH)
        vf_store_f16(half + g, vf_load(d + g));
    for (size_t i = 0; i < DIM; i++)
        keys->code[i][slot] = code[i];
    for (size_t g = 0; g < KERN_KV_GROUPS; g++)
        keys->d[g][slot] = half[g];
}

void k_hadamard_neon(float *x, size_t n, float scale)
{
    body_hadamard(x, n, scale);
}

void k_kv_put_q4_0_neon(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    body_kv_put_q4_0(k, v, k_page, v_page, slot);
}
