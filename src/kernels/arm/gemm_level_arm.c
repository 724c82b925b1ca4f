/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_level_arm.c - GEMM and activation kernels of NEON, dotprod and i8mm. Pointer assignments
 * only. */
#include "kernels/gemm_unpacked.h"
#include "kernels/variants.h"

void kern_gemm_level_neon(kern_table *table)
{
    table->gemm_f32 = k_gemm_f32_neon;
    table->gemm_f16 = k_gemm_f16_neon;
    table->gemm_bf16 = k_gemm_bf16_neon;
    table->gemm_q4_0 = k_gemm_q4_0_neon;
    table->gemm_q4_1 = k_gemm_q4_1_neon;
    table->gemm_q5_0 = k_gemm_q5_0_neon;
    table->gemm_q5_1 = k_gemm_q5_1_neon;
    table->gemm_q8_0 = k_gemm_q8_0_neon;
    table->gemm_iq4_nl = k_gemm_iq4_nl_neon;
    table->gemm_q2_k = k_gemm_q2_k_neon;
    table->gemm_q3_k = k_gemm_q3_k_neon;
    table->gemm_q4_k = k_gemm_q4_k_neon;
    table->gemm_q5_k = k_gemm_q5_k_neon;
    table->gemm_q6_k = k_gemm_q6_k_neon;
    table->gemm_iq4_xs = k_gemm_iq4_xs_neon;
    table->gemm_i8_256 = k_gemm_i8_256_neon;
    UNPACKED_TO_I8_256(SET_UNPACKED, neon)
    UNPACKED_TO_Q8_0(SET_UNPACKED, neon)
    UNPACKED_TO_F16(SET_UNPACKED, neon)
    table->act_32 = k_act_32_neon;
    table->act_256 = k_act_256_neon;
}

void kern_gemm_level_dotprod(kern_table *table)
{
    table->gemm_q4_0 = k_gemm_q4_0_dotprod;
    table->gemm_q4_1 = k_gemm_q4_1_dotprod;
    table->gemm_q5_0 = k_gemm_q5_0_dotprod;
    table->gemm_q5_1 = k_gemm_q5_1_dotprod;
    table->gemm_q8_0 = k_gemm_q8_0_dotprod;
    table->gemm_iq4_nl = k_gemm_iq4_nl_dotprod;
    table->gemm_q2_k = k_gemm_q2_k_dotprod;
    table->gemm_q3_k = k_gemm_q3_k_dotprod;
    table->gemm_q4_k = k_gemm_q4_k_dotprod;
    table->gemm_q5_k = k_gemm_q5_k_dotprod;
    table->gemm_q6_k = k_gemm_q6_k_dotprod;
    table->gemm_iq4_xs = k_gemm_iq4_xs_dotprod;
    table->gemm_i8_256 = k_gemm_i8_256_dotprod;
    UNPACKED_TO_I8_256(SET_UNPACKED, dotprod)
    UNPACKED_TO_Q8_0(SET_UNPACKED, dotprod)
}

void kern_gemm_level_i8mm(kern_table *table)
{
    table->gemm_q4_0 = k_gemm_q4_0_i8mm;
    table->gemm_q4_1 = k_gemm_q4_1_i8mm;
    table->gemm_q5_0 = k_gemm_q5_0_i8mm;
    table->gemm_q5_1 = k_gemm_q5_1_i8mm;
    table->gemm_q8_0 = k_gemm_q8_0_i8mm;
    table->gemm_iq4_nl = k_gemm_iq4_nl_i8mm;
    table->gemm_q2_k = k_gemm_q2_k_i8mm;
    table->gemm_q3_k = k_gemm_q3_k_i8mm;
    table->gemm_q4_k = k_gemm_q4_k_i8mm;
    table->gemm_q5_k = k_gemm_q5_k_i8mm;
    table->gemm_q6_k = k_gemm_q6_k_i8mm;
    table->gemm_iq4_xs = k_gemm_iq4_xs_i8mm;
    table->gemm_i8_256 = k_gemm_i8_256_i8mm;
    UNPACKED_TO_I8_256(SET_UNPACKED, i8mm)
    UNPACKED_TO_Q8_0(SET_UNPACKED, i8mm)
}
