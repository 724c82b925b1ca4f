/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.c - which function stands in which slot.
 *
 * The references fill the whole table; then every level up to the wanted one
 * writes over the slots it improves. kern_level_* holds the levels of everything
 * but the matrix products, kern_gemm_level_* those of the products.
 */
#include "kernels/variants.h"

void kern_table_init(kern_table *table, mote_isa level)
{
    table->level = level;
#define KERNEL(slot, type) table->slot = k_##slot##_ref;
#include "kernels/kernels.def"
#undef KERNEL
}
