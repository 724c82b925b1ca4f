/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_32_avx2.c - GEMM and GEMV with Q4_0, Q4_1, Q5_0 and Q5_1, AVX2; see body_gemm_32.h. */
#include "kernels/x86/dot_avx2.h"

#include "kernels/x86/body_gemm_32.h"

GEMM(q4_0, avx2)
GEMM(q4_1, avx2)
GEMM(q5_0, avx2)
GEMM(q5_1, avx2)
