/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_256_neon.c - GEMM and GEMV with superblock formats, NEON; see gemm_rows_256.h. */
#include "kernels/arm/dot_neon.h"

#include "kernels/arm/gemm_rows_256.h"

#define GEMM(f)                                                                                    \
    void k_gemm_##f##_neon(const kern_gemm_args *a)                                                \
    {                                                                                              \
        rows_256(a, &format_##f);                                                                  \
    }

GEMM(q2_k)
GEMM(q3_k)
GEMM(q4_k)
GEMM(q5_k)
GEMM(q6_k)
GEMM(iq4_xs)
GEMM(i8_256)
