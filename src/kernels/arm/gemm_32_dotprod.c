/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_32_dotprod.c - GEMM and GEMV with blocks of 32, SDOT; see gemm_panel_32.h. */
#include "kernels/arm/dot_dotprod.h"
#include "kernels/arm/tile_dotprod.h"

#include "kernels/arm/gemm_rows_32.h"

#include "kernels/arm/gemm_panel_32.h"

#define GEMM(f)                                                                                    \
    void k_gemm_##f##_dotprod(const kern_gemm_args *a)                                             \
    {                                                                                              \
        if (a->x->n <= ROWS_TOKENS || !panels_32(a, &format_##f))                                  \
            rows_32(a, &format_##f);                                                               \
    }

GEMM(q4_0)
GEMM(q4_1)
GEMM(q5_0)
GEMM(q5_1)
GEMM(q8_0)
GEMM(iq4_nl)
