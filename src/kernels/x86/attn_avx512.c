/* SPDX-License-Identifier: Apache-2.0 */
/* attn_avx512.c - attention over KV pages; see body_attn.h. */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx512.h"

#include "kernels/vec/body_attn.h"
#include "kernels/vec/body_kv.h"

void k_attn_block_f32_avx512(const kern_attn_args *a)
{
    body_attn_block_f32(a);
}

void k_attn_block_f16_avx512(const kern_attn_args *a)
{
    body_attn_block_f16(a);
}

void k_attn_block_q8_0_avx512(const kern_attn_args *a)
{
    body_attn_block_q8_0(a);
}

void k_attn_block_q4_0_avx512(const kern_attn_args *a)
{
    body_attn_block_q4_0(a);
}

void k_attn_merge_avx512(kern_attn_acc *into, const kern_attn_acc *from, size_t n)
{
    body_attn_merge(into, from, n);
}

void k_attn_finish_avx512(const kern_attn_acc *acc, const float *gate, float *y)
{
    body_attn_finish(acc, gate, y);
}

void k_hadamard_avx512(float *x, size_t n, float scale)
{
    body_hadamard(x, n, scale);
}

void k_kv_put_q4_0_avx512(const float *k, const float *v, void *k_page, void *v_page, uint32_t slot)
{
    body_kv_put_q4_0(k, v, k_page, v_page, slot);
}
