/* SPDX-License-Identifier: Apache-2.0 */
/*
 * amx_emulated.h - the AMX kernels without AMX, in two ways.
 *
 * Their twins: the very files of src/kernels/x86, compiled with MOTE_AMX_EMULATED, where
 * a tile instruction is a call of a function that asks tile_model.h. And they themselves:
 * a handler of SIGILL does what the instruction would have done and goes on behind it. The
 * first is easy to put bugs into; the second proves the machine code, with its encodings
 * and with the order in which the compiler left the stores around it.
 */
#ifndef MOTE_TESTS_KERNELS_AMX_EMULATED_H
#define MOTE_TESTS_KERNELS_AMX_EMULATED_H

#include "kernels/kernels.h"

/* Bugs of the tile instructions, or of those who use them. */
typedef enum amx_bug {
    AMX_NO_BUG,
    AMX_NEVER_CONFIGURED,
    AMX_CONFIGURED_A_ROW_SHORT, /* of the products */
    AMX_NEVER_ZEROED,           /* products go on from what was there */
    AMX_LOADS_IGNORE_STRIDE,
    AMX_LOADS_A_ROW_MORE,
    AMX_LOADS_HALF_A_ROW,
    AMX_STORES_A_ROW_MORE,
    AMX_STORES_A_ROW_LESS,
    AMX_STORES_COLUMNS_AS_ROWS,
    AMX_WEIGHTS_UNSIGNED,
    AMX_WEIGHTS_SIGNED,
    AMX_FACTORS_EXCHANGED,
    AMX_SUMS_SATURATE, /* as 16-bit sums would */
    AMX_ODD_PRODUCT_LOST,
    AMX_N_BUGS
} amx_bug;

extern amx_bug amx_planted_bug;
const char *amx_bug_name(amx_bug bug);

/* Puts the twins into the slots that have one. */
void amx_use_twins(kern_table *table);

/* From here on a tile instruction that the machine refuses is emulated. Call it after
 * check_catch_signals, which keeps all other illegal instructions. */
void amx_catch_instructions(void);
/* How many have been. */
unsigned long amx_caught_instructions(void);

#endif
