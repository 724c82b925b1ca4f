/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.h - blocks of less usual formats, rewritten in a simpler layout with the same values.
 *
 * The decoders (quant.c) and the matrix products (kernels/gemm_unpacked.c) of these formats read the
 * simpler layout, so a format needs one function here and no kernel of its own. All values are
 * equal; nothing is rounded.
 *
 *     quant_i8_256   IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, TQ1_0, TQ2_0
 *     quant_q8_0     MXFP4, Q1_0, Q2_0
 *     f16            NVFP4
 */
#ifndef MOTE_QUANT_UNPACK_H
#define MOTE_QUANT_UNPACK_H

#include "quant/blocks.h"

#include <stdbool.h>

/* A superblock with codes of 8 bits: value i is d * scale[i / 16] * q[i]. Not a format of files.
 * |scale * q| <= 31 * 62. */
typedef struct quant_i8_256 {
    int8_t q[QUANT_SUPERBLOCK];
    int8_t scale[16];
    float d;
} quant_i8_256;
_Static_assert(sizeof(quant_i8_256) == 276, "superblocks of a row have no gaps");

/* Rewrites one block at `out`. False: the layout cannot hold the values of this block. */
typedef bool quant_unpack_fn(const void *block, void *out);

quant_unpack_fn quant_unpack_iq1_s, quant_unpack_iq1_m;
quant_unpack_fn quant_unpack_iq2_xxs, quant_unpack_iq2_xs, quant_unpack_iq2_s;
quant_unpack_fn quant_unpack_iq3_xxs, quant_unpack_iq3_s;
quant_unpack_fn quant_unpack_tq1_0, quant_unpack_tq2_0;
/* False if the scale is not an f16: e below 104 or above 143. */
quant_unpack_fn quant_unpack_mxfp4;
quant_unpack_fn quant_unpack_q1_0, quant_unpack_q2_0; /* four and two blocks of Q8_0 */
quant_unpack_fn quant_unpack_nvfp4;                   /* 64 values of f16 */

/* 2^(e - 128) */
float quant_mxfp4_scale(uint8_t e);

#endif
