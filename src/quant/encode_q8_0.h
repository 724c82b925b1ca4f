/* SPDX-License-Identifier: Apache-2.0 */
/* encode_q8_0.h - the one format mote also writes. */
#ifndef MOTE_QUANT_ENCODE_Q8_0_H
#define MOTE_QUANT_ENCODE_Q8_0_H

#include <stddef.h>

/* Turns n_blocks * 32 floats into n_blocks Q8_0 blocks: d = amax / 127 kept as
 * f16, codes rounded half away from zero with the unrounded d, as llama.cpp's
 * quantiser does. */
void quant_encode_q8_0(const float *values, size_t n_blocks, void *blocks);

#endif
