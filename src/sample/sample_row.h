/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_row.h - a row of logits with its best entries in order.
 *
 * The order of candidates is (value descending, id ascending); -0 equals +0. Only the requested
 * prefix is sorted: with a vocabulary of 248,320 a full sort takes longer than all other steps of
 * sampling together.
 */
#ifndef MOTE_SAMPLE_SAMPLE_ROW_H
#define MOTE_SAMPLE_SAMPLE_ROW_H

#include "kernels/kernels.h"

#include <float.h>
#include <math.h>

enum { SAMPLE_BLOCK = 256 }; /* ids per block maximum and partial sum */

typedef struct sample_entry {
    uint32_t key; /* ascending keys: descending values */
    uint32_t id;
} sample_entry;

typedef struct sample_row {
    const kern_table *kernels;
    uint32_t n;
    float *values;         /* [n], cleaned; -inf: not a candidate */
    float *block_max;      /* [sample_row_blocks(n)] */
    sample_entry *entries; /* [n], result of sample_row_best */
    sample_entry *spare;   /* [n], second buffer of the sort */
} sample_row;

/* Number of blocks in a row of n values. */
static inline uint32_t sample_row_blocks(uint32_t n)
{
    return n / SAMPLE_BLOCK + (n % SAMPLE_BLOCK != 0);
}

/* NaN becomes -inf, +inf becomes FLT_MAX. */
static inline float sample_clean(float logit)
{
    const float finite = logit < FLT_MAX ? logit : FLT_MAX;
    return logit == logit ? finite : -INFINITY;
}

/* Fills values (cleaned) and block_max from logits [n]. Returns the largest value. */
float sample_row_load(const sample_row *row, const float *logits);

/* Computes block_max after values have changed. Returns the largest value. */
float sample_row_measure(const sample_row *row);

/* The lowest id with the largest value, which is `max`. */
uint32_t sample_row_first(const sample_row *row, float max);

/* Writes at least the `want` best candidates to entries, or all if there are fewer. Returns the
 * number written; they are always a prefix of the full order. */
size_t sample_row_best(const sample_row *row, size_t want);

/* Sum of exp((value - max) * scale): lanes inside a block, a chain of binary64 adds over the
 * blocks. */
double sample_row_mass(const sample_row *row, float max, float scale);

#endif
