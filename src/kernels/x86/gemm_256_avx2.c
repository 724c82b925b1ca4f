/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_256_avx2.c - GEMM and GEMV with Q2_K .. Q6_K, AVX2; see body_gemm_256.h. */
#include "kernels/x86/dot_avx2.h"

#include "kernels/x86/body_gemm_256.h"
#include "kernels/x86/body_rows_256.h"

GEMM(q2_k, avx2)
GEMM(q3_k, avx2)
GEMM_ROWS(q4_k, avx2)
GEMM_ROWS(q5_k, avx2)
GEMM_ROWS(q6_k, avx2)
