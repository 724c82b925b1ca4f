/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_level_x86.c - GEMM and activation kernels of AVX2, AVX-VNNI, AVX-512 and AMX. Pointer
 * assignments only. */
#include "kernels/gemm_unpacked.h"
#include "kernels/variants.h"

void kern_gemm_level_avx2(kern_table *table)
{
    table->gemm_f32 = k_gemm_f32_avx2;
    table->gemm_f16 = k_gemm_f16_avx2;
    table->gemm_bf16 = k_gemm_bf16_avx2;
    table->gemm_q4_0 = k_gemm_q4_0_avx2;
    table->gemm_q4_1 = k_gemm_q4_1_avx2;
    table->gemm_q5_0 = k_gemm_q5_0_avx2;
    table->gemm_q5_1 = k_gemm_q5_1_avx2;
    table->gemm_q8_0 = k_gemm_q8_0_avx2;
    table->gemm_q2_k = k_gemm_q2_k_avx2;
    table->gemm_q3_k = k_gemm_q3_k_avx2;
    table->gemm_q4_k = k_gemm_q4_k_avx2;
    table->gemm_q5_k = k_gemm_q5_k_avx2;
    table->gemm_q6_k = k_gemm_q6_k_avx2;
    table->gemm_iq4_nl = k_gemm_iq4_nl_avx2;
    table->gemm_iq4_xs = k_gemm_iq4_xs_avx2;
    table->gemm_i8_256 = k_gemm_i8_256_avx2;
    UNPACKED_TO_I8_256(SET_UNPACKED, avx2)
    UNPACKED_TO_Q8_0(SET_UNPACKED, avx2)
    UNPACKED_TO_F16(SET_UNPACKED, avx2)
    table->act_32 = k_act_32_avx2;
    table->act_256 = k_act_256_avx2;
}

void kern_gemm_level_avxvnni(kern_table *table)
{
    table->gemm_q4_0 = k_gemm_q4_0_avxvnni;
    table->gemm_q4_1 = k_gemm_q4_1_avxvnni;
    table->gemm_q5_0 = k_gemm_q5_0_avxvnni;
    table->gemm_q5_1 = k_gemm_q5_1_avxvnni;
    table->gemm_q8_0 = k_gemm_q8_0_avxvnni;
    table->gemm_q2_k = k_gemm_q2_k_avxvnni;
    table->gemm_q3_k = k_gemm_q3_k_avxvnni;
    table->gemm_q4_k = k_gemm_q4_k_avxvnni;
    table->gemm_q5_k = k_gemm_q5_k_avxvnni;
    table->gemm_q6_k = k_gemm_q6_k_avxvnni;
    table->gemm_iq4_nl = k_gemm_iq4_nl_avxvnni;
    table->gemm_iq4_xs = k_gemm_iq4_xs_avxvnni;
    table->gemm_i8_256 = k_gemm_i8_256_avxvnni;
    UNPACKED_TO_I8_256(SET_UNPACKED, avxvnni)
    UNPACKED_TO_Q8_0(SET_UNPACKED, avxvnni)
}

void kern_gemm_level_avx512(kern_table *table)
{
    table->gemm_f32 = k_gemm_f32_avx512;
    table->gemm_f16 = k_gemm_f16_avx512;
    table->gemm_bf16 = k_gemm_bf16_avx512;
    table->gemm_q4_0 = k_gemm_q4_0_avx512;
    table->gemm_q4_1 = k_gemm_q4_1_avx512;
    table->gemm_q5_0 = k_gemm_q5_0_avx512;
    table->gemm_q5_1 = k_gemm_q5_1_avx512;
    table->gemm_q8_0 = k_gemm_q8_0_avx512;
    table->gemm_q2_k = k_gemm_q2_k_avx512;
    table->gemm_q3_k = k_gemm_q3_k_avx512;
    table->gemm_q4_k = k_gemm_q4_k_avx512;
    table->gemm_q5_k = k_gemm_q5_k_avx512;
    table->gemm_q6_k = k_gemm_q6_k_avx512;
    table->gemm_iq4_nl = k_gemm_iq4_nl_avx512;
    table->gemm_iq4_xs = k_gemm_iq4_xs_avx512;
    table->gemm_i8_256 = k_gemm_i8_256_avx512;
    UNPACKED_TO_I8_256(SET_UNPACKED, avx512)
    UNPACKED_TO_Q8_0(SET_UNPACKED, avx512)
    UNPACKED_TO_F16(SET_UNPACKED, avx512)
    table->act_256 = k_act_256_avx512;
}

/* Superblock formats. Calls with few tokens go from these kernels to AVX-512. */
void kern_gemm_level_amx(kern_table *table)
{
    table->gemm_q2_k = k_gemm_q2_k_amx;
    table->gemm_q3_k = k_gemm_q3_k_amx;
    table->gemm_q4_k = k_gemm_q4_k_amx;
    table->gemm_q5_k = k_gemm_q5_k_amx;
    table->gemm_q6_k = k_gemm_q6_k_amx;
    table->gemm_iq4_xs = k_gemm_iq4_xs_amx;
    table->gemm_i8_256 = k_gemm_i8_256_amx;
    UNPACKED_TO_I8_256(SET_UNPACKED, amx)
}
