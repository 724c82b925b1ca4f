/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checks.h - declarations of the check functions of all slots.
 *
 * slots.c builds its list from kernels.def and these declarations. A slot without a declaration
 * does not compile; a declaration without a function does not link.
 */
#ifndef MOTE_TESTS_KERNELS_CHECKS_H
#define MOTE_TESTS_KERNELS_CHECKS_H

#include "kernels/check.h"

/* check_gemm*.c */
check_fn check_gemm_f32, check_gemm_f16, check_gemm_bf16;
check_fn check_gemm_q4_0, check_gemm_q4_1, check_gemm_q5_0, check_gemm_q5_1, check_gemm_q8_0;
check_fn check_gemm_q2_k, check_gemm_q3_k, check_gemm_q4_k, check_gemm_q5_k, check_gemm_q6_k;
check_fn check_gemm_iq4_nl, check_gemm_iq4_xs, check_gemm_i8_256;
check_fn check_gemm_iq1_s, check_gemm_iq1_m, check_gemm_iq2_xxs, check_gemm_iq2_xs;
check_fn check_gemm_iq2_s, check_gemm_iq3_xxs, check_gemm_iq3_s, check_gemm_tq1_0, check_gemm_tq2_0;
check_fn check_gemm_mxfp4, check_gemm_nvfp4, check_gemm_q1_0, check_gemm_q2_0;
/* check_act.c */
check_fn check_act_32, check_act_256;
/* check_norm.c */
check_fn check_rmsnorm, check_rmsnorm_gated, check_l2norm, check_layernorm;
/* check_elementwise.c */
check_fn check_add, check_silu_mul, check_conv_silu, check_rope, check_max, check_sum_exp;
check_fn check_axpy, check_gelu_tanh, check_gelu_erf;
/* check_low_rank.c */
check_fn check_low_rank_add;
/* check_vision_attn.c */
check_fn check_vision_attn_block;
/* check_delta.c */
check_fn check_delta_rows, check_delta_fold;
/* check_attn.c */
check_fn check_kv_put_f32, check_kv_put_f16, check_attn_block_f32, check_attn_block_f16;
check_fn check_hadamard, check_kv_put_q4_0, check_attn_block_q4_0;
check_fn check_kv_put_q8_0, check_attn_block_q8_0, check_attn_merge, check_attn_finish;

#endif
