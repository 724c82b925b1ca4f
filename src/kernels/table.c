/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - fills the kernel table for a level.
 *
 * All slots start with their reference. Then every level up to the requested one replaces the slots
 * that it has faster kernels for. kern_gemm_level_* sets the GEMM slots, kern_level_* all others.
 */
#include "kernels/variants.h"

#include "base/cpu.h"

#if defined(__x86_64__)
static void table_set_levels(kern_table *table, mote_isa level)
{
    if (cpu_level_contains(level, MOTE_ISA_AVX2)) {
        kern_level_avx2(table);
        kern_gemm_level_avx2(table);
    }
    if (cpu_level_contains(level, MOTE_ISA_AVXVNNI))
        kern_gemm_level_avxvnni(table);
    if (cpu_level_contains(level, MOTE_ISA_AVX512)) {
        kern_level_avx512(table);
        kern_gemm_level_avx512(table);
    }
    if (cpu_level_contains(level, MOTE_ISA_AMX))
        kern_gemm_level_amx(table);
}
#elif defined(__aarch64__)
static void table_set_levels(kern_table *table, mote_isa level)
{
    if (cpu_level_contains(level, MOTE_ISA_NEON)) {
        kern_level_neon(table);
        kern_gemm_level_neon(table);
    }
    if (cpu_level_contains(level, MOTE_ISA_DOTPROD))
        kern_gemm_level_dotprod(table);
    if (cpu_level_contains(level, MOTE_ISA_I8MM))
        kern_gemm_level_i8mm(table);
}
#else
static void table_set_levels(kern_table *table, mote_isa level)
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
    table_set_levels(table, level);
}
