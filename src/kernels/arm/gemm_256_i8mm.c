/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_256_i8mm.c - GEMM and GEMV with superblock formats, SMMLA; see gemm_panel_256.h. */
#include "kernels/arm/dot_dotprod.h"
#include "kernels/arm/tile_i8mm.h"

#include "kernels/arm/gemm_rows_256.h"

#include "kernels/arm/gemm_panel_256.h"

#define GEMM(f)                                                                                    \
    void k_gemm_##f##_i8mm(const kern_gemm_args *a)                                                \
    {                                                                                              \
        if (a->x->n <= ROWS_TOKENS || !panels_256(a, &format_##f))                                 \
            rows_256(a, &format_##f);                                                              \
    }

GEMM(q2_k)
GEMM(q3_k)
GEMM(q4_k)
GEMM(q5_k)
GEMM(q6_k)
GEMM(iq4_xs)
GEMM(i8_256)
