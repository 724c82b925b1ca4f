/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpacked.h - the formats without kernels of their own, and the product that each one uses.
 *
 * EACH(f, product, level) is expanded for every format f with a product that has a kernel at the level.
 */
#ifndef MOTE_KERNELS_GEMM_UNPACKED_H
#define MOTE_KERNELS_GEMM_UNPACKED_H

#include "kernels/kernels.h"
#include "quant/unpack.h"

/* Code books with signs: x86 has row kernels for few tokens, AVX-512 and NEON functions
 * that unpack them. */
#define UNPACKED_IQ2_IQ3(EACH, level)                                                              \
    EACH(iq2_xxs, i8_256, level)                                                                   \
    EACH(iq2_xs, i8_256, level)                                                                    \
    EACH(iq2_s, i8_256, level)                                                                     \
    EACH(iq3_xxs, i8_256, level)                                                                   \
    EACH(iq3_s, i8_256, level)

#define UNPACKED_IQ1(EACH, level)                                                                  \
    EACH(iq1_s, i8_256, level)                                                                     \
    EACH(iq1_m, i8_256, level)

#define UNPACKED_TERNARY(EACH, level)                                                              \
    EACH(tq1_0, i8_256, level)                                                                     \
    EACH(tq2_0, i8_256, level)

#define UNPACKED_TO_I8_256(EACH, level)                                                            \
    UNPACKED_IQ1(EACH, level)                                                                      \
    UNPACKED_IQ2_IQ3(EACH, level)                                                                  \
    UNPACKED_TERNARY(EACH, level)

#define UNPACKED_BITS(EACH, level)                                                                 \
    EACH(q1_0, q8_0, level)                                                                        \
    EACH(q2_0, q8_0, level)

#define UNPACKED_TO_Q8_0(EACH, level)                                                              \
    EACH(mxfp4, q8_0, level)                                                                       \
    UNPACKED_BITS(EACH, level)

#define UNPACKED_TO_F16(EACH, level) EACH(nvfp4, f16, level)

/* As the functions of quant/unpack.h (unpack_neon.c, unpack_avx512.c). */
quant_unpack_fn k_unpack_iq2_xxs_neon, k_unpack_iq2_xs_neon, k_unpack_iq2_s_neon,
    k_unpack_iq3_xxs_neon, k_unpack_iq3_s_neon;
quant_unpack_fn k_unpack_iq1_s_avx512, k_unpack_iq1_m_avx512, k_unpack_iq2_xxs_avx512,
    k_unpack_iq2_xs_avx512, k_unpack_iq2_s_avx512, k_unpack_iq3_xxs_avx512, k_unpack_iq3_s_avx512,
    k_unpack_mxfp4_avx512;

/* Products of few tokens along the rows, without unpacking to memory (gemm_books_*.c). False: not
 * done, because there are more tokens. */
typedef bool kern_rows_fn(const kern_gemm_args *a);
kern_rows_fn k_rows_iq2_xxs_avx2, k_rows_iq2_xs_avx2, k_rows_iq2_s_avx2, k_rows_iq3_xxs_avx2,
    k_rows_iq3_s_avx2;
kern_rows_fn k_rows_iq2_xxs_avx512, k_rows_iq2_xs_avx512, k_rows_iq2_s_avx512,
    k_rows_iq3_xxs_avx512, k_rows_iq3_s_avx512;
kern_rows_fn k_rows_iq2_xxs_amx, k_rows_iq2_xs_amx, k_rows_iq3_xxs_amx, k_rows_iq3_s_amx;

/* In a function that fills a table of kernels. */
#define SET_UNPACKED(f, product, level) table->gemm_##f = k_gemm_##f##_##level;

#endif
