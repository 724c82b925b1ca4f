/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_32_neon.c - GEMM and GEMV with blocks of 32, NEON; see gemm_rows_32.h. */
#include "kernels/arm/dot_neon.h"

#include "kernels/arm/gemm_rows_32.h"

#define GEMM(f)                                                                                    \
    void k_gemm_##f##_neon(const kern_gemm_args *a)                                                \
    {                                                                                              \
        rows_32(a, &format_##f);                                                                   \
    }

GEMM(q4_0)
GEMM(q4_1)
GEMM(q5_0)
GEMM(q5_1)
GEMM(q8_0)
GEMM(iq4_nl)
