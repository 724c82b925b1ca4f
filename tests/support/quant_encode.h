/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_encode.h - floats to blocks of every weight format, for test models.
 *
 * The plainest encoder: the largest value of a group gives its scale, codes are rounded. Real quantisers search for
 * better scales. The result is the same on every machine.
 */
#ifndef MOTE_TESTS_SUPPORT_QUANT_ENCODE_H
#define MOTE_TESTS_SUPPORT_QUANT_ENCODE_H

#include "quant/quant.h"

/* Encodes n_blocks blocks of the format. */
void test_quant_encode(quant_format format, const float *values, size_t n_blocks, void *blocks);

/* One block of zeros becomes a block of a format after QUANT_IQ4_XS. */
void test_quant_encode_unpacked(quant_format format, const float *v, void *block);

#endif
