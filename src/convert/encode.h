/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode.h - float32 values to blocks of a weight format.
 *
 * The blocks equal those of llama.cpp without an importance matrix, byte for byte: the same search
 * for scales, the same order of every sum. A block depends on its own values only, so rows can be
 * encoded by any number of threads.
 */
#ifndef MOTE_CONVERT_ENCODE_H
#define MOTE_CONVERT_ENCODE_H

#include "quant/quant.h"

/* Encodes n_blocks blocks; of F32, F16 and BF16 a block is one value. */
typedef void encode_fn(const float *values, size_t n_blocks, void *blocks);

/* NULL: mote does not write the format. */
encode_fn *encode_find(quant_format format);

/* ---- of encode_k.c ---- */

encode_fn encode_q2_k, encode_q3_k, encode_q4_k, encode_q5_k, encode_q6_k;

#endif
