/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level_x86.c - AVX2 and AVX-512 kernels other than GEMM.
 *
 * Contains pointer assignments only and is built for the baseline CPU. Slots that are not listed
 * keep the kernel of the lower level: kv_put_f32 only copies, and rope and the other kv_put kernels
 * are not faster with AVX-512.
 */
#include "kernels/variants.h"

void kern_level_avx2(kern_table *t)
{
    t->rmsnorm = k_rmsnorm_avx2;
    t->rmsnorm_gated = k_rmsnorm_gated_avx2;
    t->l2norm = k_l2norm_avx2;
    t->layernorm = k_layernorm_avx2;
    t->gelu_tanh = k_gelu_tanh_avx2;
    t->gelu_erf = k_gelu_erf_avx2;
    t->vision_attn_block = k_vision_attn_block_avx2;
    t->add = k_add_avx2;
    t->axpy = k_axpy_avx2;
    t->silu_mul = k_silu_mul_avx2;
    t->conv_silu = k_conv_silu_avx2;
    t->low_rank_add = k_low_rank_add_avx2;
    t->rope = k_rope_avx2;
    t->delta_rows = k_delta_rows_avx2;
    t->delta_fold = k_delta_fold_avx2;
    t->kv_put_f16 = k_kv_put_f16_avx2;
    t->kv_put_q8_0 = k_kv_put_q8_0_avx2;
    t->hadamard = k_hadamard_avx2;
    t->kv_put_q4_0 = k_kv_put_q4_0_avx2;
    t->attn_block_f32 = k_attn_block_f32_avx2;
    t->attn_block_f16 = k_attn_block_f16_avx2;
    t->attn_block_q8_0 = k_attn_block_q8_0_avx2;
    t->attn_block_q4_0 = k_attn_block_q4_0_avx2;
    t->attn_merge = k_attn_merge_avx2;
    t->attn_finish = k_attn_finish_avx2;
    t->max = k_max_avx2;
    t->sum_exp = k_sum_exp_avx2;
}

void kern_level_avx512(kern_table *t)
{
    t->rmsnorm = k_rmsnorm_avx512;
    t->rmsnorm_gated = k_rmsnorm_gated_avx512;
    t->l2norm = k_l2norm_avx512;
    t->layernorm = k_layernorm_avx512;
    t->gelu_tanh = k_gelu_tanh_avx512;
    t->gelu_erf = k_gelu_erf_avx512;
    t->vision_attn_block = k_vision_attn_block_avx512;
    t->add = k_add_avx512;
    t->axpy = k_axpy_avx512;
    t->silu_mul = k_silu_mul_avx512;
    t->conv_silu = k_conv_silu_avx512;
    t->low_rank_add = k_low_rank_add_avx512;
    t->delta_rows = k_delta_rows_avx512;
    t->delta_fold = k_delta_fold_avx512;
    t->hadamard = k_hadamard_avx512;
    t->kv_put_q4_0 = k_kv_put_q4_0_avx512;
    t->attn_block_f32 = k_attn_block_f32_avx512;
    t->attn_block_f16 = k_attn_block_f16_avx512;
    t->attn_block_q8_0 = k_attn_block_q8_0_avx512;
    t->attn_block_q4_0 = k_attn_block_q4_0_avx512;
    t->attn_merge = k_attn_merge_avx512;
    t->attn_finish = k_attn_finish_avx512;
    t->max = k_max_avx512;
    t->sum_exp = k_sum_exp_avx512;
}
