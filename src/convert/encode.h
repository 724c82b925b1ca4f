/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode.h - float32 values to blocks of a weight format.
 *
 * The blocks equal those of llama.cpp, byte for byte: the same search for scales, the same order of
 * every sum. A row depends on its own values and weights only, so rows can be encoded by any number
 * of threads.
 */
#ifndef MOTE_CONVERT_ENCODE_H
#define MOTE_CONVERT_ENCODE_H

#include "quant/quant.h"

#include <mote.h>

/* Encodes the n_blocks blocks of one row; of F32, F16 and BF16 a block is one value. `weights`: of
 * the errors, one for each value (imatrix.h); NULL: the encoder derives them from the values. */
typedef void encode_fn(const float *values, const float *weights, size_t n_blocks, void *blocks);

/* For CPUs up to `level`, which this one must have; all levels give the same bytes. NULL: mote does
 * not write the format. Builds the code book of a format on its first call: call it from one thread.
 * IQ1 and IQ2 formats without weights give files of little use. */
encode_fn *encode_find(quant_format format, mote_isa level);

/* ---- encoders with weights, of encode_weighted.c; weights are not NULL ---- */

encode_fn encode_weighted_q4_0, encode_weighted_q4_1, encode_weighted_q5_0, encode_weighted_q5_1;

/* ---- of encode_iq.c and encode_iq1.c; encode_book_get before the first call ---- */

encode_fn encode_iq2_xxs, encode_iq2_xs, encode_iq2_s, encode_iq3_xxs, encode_iq3_s;
encode_fn encode_iq1_s, encode_iq1_m;

/* ---- of encode_k.c and encode_iq4.c, which are compiled once for each of these instruction sets */

typedef struct encode_k_set {
    encode_fn *q2_k, *q3_k, *q4_k, *q5_k, *q6_k;
} encode_k_set;

typedef struct encode_iq4_set {
    encode_fn *iq4_nl, *iq4_xs;
} encode_iq4_set;

extern const encode_k_set encode_k_baseline;
extern const encode_iq4_set encode_iq4_baseline;
#if defined(__x86_64__)
extern const encode_k_set encode_k_avx2, encode_k_avx512;
extern const encode_iq4_set encode_iq4_avx2, encode_iq4_avx512;
#endif

#endif
