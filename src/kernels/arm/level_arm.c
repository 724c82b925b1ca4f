/* SPDX-License-Identifier: Apache-2.0 */
/*
 * level_arm.c - NEON kernels other than GEMM.
 *
 * Contains pointer assignments only. Slots that are not listed keep the kernel of the lower level:
 * kv_put_f32 only copies. `dotprod` and `i8mm` add nothing to floats.
 */
#include "kernels/variants.h"

void kern_level_neon(kern_table *t)
{
    t->rmsnorm = k_rmsnorm_neon;
    t->rmsnorm_gated = k_rmsnorm_gated_neon;
    t->l2norm = k_l2norm_neon;
    t->layernorm = k_layernorm_neon;
    t->gelu_tanh = k_gelu_tanh_neon;
    t->gelu_erf = k_gelu_erf_neon;
    t->vision_attn_block = k_vision_attn_block_neon;
    t->add = k_add_neon;
    t->axpy = k_axpy_neon;
    t->silu_mul = k_silu_mul_neon;
    t->conv_silu = k_conv_silu_neon;
    t->low_rank_add = k_low_rank_add_neon;
    t->rope = k_rope_neon;
    t->delta_rows = k_delta_rows_neon;
    t->delta_fold = k_delta_fold_neon;
    t->kv_put_f16 = k_kv_put_f16_neon;
    t->kv_put_q8_0 = k_kv_put_q8_0_neon;
    t->hadamard = k_hadamard_neon;
    t->kv_put_q4_0 = k_kv_put_q4_0_neon;
    t->attn_block_f32 = k_attn_block_f32_neon;
    t->attn_block_f16 = k_attn_block_f16_neon;
    t->attn_block_q8_0 = k_attn_block_q8_0_neon;
    t->attn_block_q4_0 = k_attn_block_q4_0_neon;
    t->attn_merge = k_attn_merge_neon;
    t->attn_finish = k_attn_finish_neon;
    t->max = k_max_neon;
    t->sum_exp = k_sum_exp_neon;
}
