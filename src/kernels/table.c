/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - which function stands in which slot.
 *
 * The references fill the whole table; then every level up to the wanted one
 * writes over the slots it improves. kern_level_* holds the levels of everything
 * but the matrix products, kern_gemm_level_* those of the products.
 */
#include "kernels/variants.h"

#if defined(__x86_64__)
static void raise_to(kern_table *table, mote_isa level)
{
    if (level >= MOTE_ISA_AVX2) {
        kern_level_avx2(table);
        kern_gemm_level_avx2(table);
    }
    if (level >= MOTE_ISA_AVX512) {
        kern_level_avx512(table);
        kern_gemm_level_avx512(table);
    }
    if (level >= MOTE_ISA_AMX)
        kern_gemm_level_amx(table);
}
#else
static void raise_to(kern_table *table, mote_isa level)
{
    (void)table;
    (void)level;
}
#endif

void kern_table_init(kern_table *table, mote_isa level)
{
    table->level = level;
#define KERNEL(slot, type) table->slot = k_##slot##_ref;
#include "kernels/kernels.def"
#undef KERNEL
    raise_to(table, level);
}
