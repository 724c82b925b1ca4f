/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rope.h - rotary positions: 64 of the 256 values of a head turn, in 32 pairs.
 *
 * Frequencies are made once, in binary64, with or without YaRN; the cosines and
 * sines of the rows of a pass are made once a pass and read by every layer.
 */
#ifndef MOTE_NN_ROPE_H
#define MOTE_NN_ROPE_H

#include "nn/nn.h"

enum { ROPE_PAIRS = 32 };

typedef struct rope {
    float inv_freq[ROPE_PAIRS];
    float scale; /* multiplies cos and sin; 1 without YaRN */
} rope;

/* factor <= 1: as trained. Otherwise YaRN over `original` trained positions. */
void rope_init(rope *r, double base, double factor, double original);

/* cos and sin of one position, [32] each. */
void rope_angles(const rope *r, uint64_t pos, float *cos, float *sin);

/* The same for a token of a picture: pairs take time, row and column in turn. */
void rope_angles_in_plane(const rope *r, uint64_t base, uint64_t row, uint64_t col, float *cos,
                          float *sin);

#endif
