/* SPDX-License-Identifier: Apache-2.0 */
/*
 * variants.h - prototypes of all kernels of all levels, generated from kernels.def.
 *
 * Only the references exist for every slot. A kernel of a higher level is used only by the
 * kern_level functions below. These functions contain pointer assignments only and are built
 * without instruction-set flags.
 */
#ifndef MOTE_KERNELS_VARIANTS_H
#define MOTE_KERNELS_VARIANTS_H

#include "kernels/kernels.h"

#define KERNEL(slot, type)                                                                         \
    type k_##slot##_ref, k_##slot##_avx2, k_##slot##_avxvnni, k_##slot##_avx512, k_##slot##_amx;   \
    type k_##slot##_neon, k_##slot##_dotprod, k_##slot##_i8mm;
#include "kernels/kernels.def"
#undef KERNEL

void kern_level_avx2(kern_table *table);
void kern_level_avx512(kern_table *table);
void kern_gemm_level_avx2(kern_table *table);
void kern_gemm_level_avxvnni(kern_table *table);
void kern_gemm_level_avx512(kern_table *table);
void kern_gemm_level_amx(kern_table *table);
void kern_level_neon(kern_table *table);
void kern_gemm_level_neon(kern_table *table);
void kern_gemm_level_dotprod(kern_table *table);
void kern_gemm_level_i8mm(kern_table *table);

#endif
