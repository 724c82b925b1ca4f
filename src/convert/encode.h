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

#include <mote.h>

/* Encodes n_blocks blocks; of F32, F16 and BF16 a block is one value. */
typedef void encode_fn(const float *values, size_t n_blocks, void *blocks);

/* For CPUs up to `level`, which this one must have; all levels give the same bytes. NULL: mote does
 * not write the format. */
encode_fn *encode_find(quant_format format, mote_isa level);

/* ---- of encode_k.c, which is compiled once for each of these instruction sets ---- */

typedef struct encode_k_set {
    encode_fn *q2_k, *q3_k, *q4_k, *q5_k, *q6_k;
} encode_k_set;

extern const encode_k_set encode_k_baseline;
#if defined(__x86_64__)
extern const encode_k_set encode_k_avx2, encode_k_avx512;
#endif

#endif
