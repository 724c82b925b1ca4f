/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amx_emulated.h - two ways to run the AMX kernels on CPUs without AMX.
 *
 * 1. Emulated kernels: the source files of src/kernels/x86, compiled with MOTE_AMX_EMULATED. A tile
 *    instruction is a function call to tile_model.h. Bugs can be planted in these functions.
 * 2. The real kernels: a SIGILL handler emulates each tile instruction and continues after it. This
 *    tests the machine code, with its encodings and the order of stores that the compiler chose.
 */
#ifndef MOTE_TESTS_KERNELS_AMX_EMULATED_H
#define MOTE_TESTS_KERNELS_AMX_EMULATED_H

#include "kernels/kernels.h"

/* Planted bugs of the tile instructions or of their use. */
typedef enum amx_bug {
    AMX_NO_BUG,
    AMX_NEVER_CONFIGURED,
    AMX_CONFIGURED_A_ROW_SHORT, /* the product tiles */
    AMX_NEVER_ZEROED,           /* products keep the old contents */
    AMX_LOADS_IGNORE_STRIDE,
    AMX_LOADS_A_ROW_MORE,
    AMX_LOADS_HALF_A_ROW,
    AMX_STORES_A_ROW_MORE,
    AMX_STORES_A_ROW_LESS,
    AMX_STORES_COLUMNS_AS_ROWS,
    AMX_WEIGHTS_UNSIGNED,
    AMX_WEIGHTS_SIGNED,
    AMX_FACTORS_EXCHANGED,
    AMX_SUMS_SATURATE, /* to 16 bits */
    AMX_ODD_PRODUCT_LOST,
    AMX_MINIMA_LOST, /* of the second group of rows */
    AMX_N_BUGS
} amx_bug;

extern amx_bug amx_planted_bug;
const char *amx_bug_name(amx_bug bug);

/* Sets the emulated kernels in the table. */
void amx_use_emulated_kernels(kern_table *table);

/* Installs the SIGILL handler that emulates tile instructions. Call it after check_catch_signals,
 * which still handles all other illegal instructions. */
void amx_catch_instructions(void);
/* Number of instructions emulated so far. */
unsigned long amx_caught_instructions(void);

#endif
