/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_row.h - a row of values and the order of its best entries.
 *
 * The order of candidates is (value descending, id ascending), and -0 equals +0
 * in it. Only as much of a row is put in order as somebody looks at: at a
 * vocabulary of 248,320 a full sort takes longer than everything else together.
 */
#ifndef MOTE_SAMPLE_SAMPLE_ROW_H
#define MOTE_SAMPLE_SAMPLE_ROW_H

#include "kernels/kernels.h"

#include <float.h>
#include <math.h>

enum { SAMPLE_BLOCK = 256 }; /* ids that share one maximum and one partial sum */

typedef struct sample_entry {
    uint32_t key; /* ascending keys are descending values */
    uint32_t id;
} sample_entry;

typedef struct sample_row {
    const kern_table *kernels;
    uint32_t n;
    float *values;         /* [n], cleaned; -inf is not a candidate */
    float *block_max;      /* [sample_row_blocks(n)] */
    sample_entry *entries; /* [n], what sample_row_best found */
    sample_entry *spare;   /* [n], for its sort */
} sample_row;

/* Blocks of a row of n values. */
static inline uint32_t sample_row_blocks(uint32_t n)
{
    return n / SAMPLE_BLOCK + (n % SAMPLE_BLOCK != 0);
}

/* What a logit counts as: NaN as -inf, +inf as the largest float, others as themselves. */
static inline float sample_clean(float logit)
{
    const float finite = logit < FLT_MAX ? logit : FLT_MAX;
    return logit == logit ? finite : -INFINITY;
}

/* Fills values, cleaned, from logits [n], and block_max. Returns the largest value. */
float sample_row_load(const sample_row *row, const float *logits);

/* Fills block_max again after values have changed. Returns the largest value. */
float sample_row_measure(const sample_row *row);

/* The best id, given the largest value. */
uint32_t sample_row_first(const sample_row *row, float max);

/* Writes at least the `want` best candidates to entries, in order, or all there
 * are. Returns how many: what is there is always a beginning of the full order. */
size_t sample_row_best(const sample_row *row, size_t want);

/* The sum of exp((value - max) * scale): lanes inside a block, a chain of
 * binary64 adds over the blocks. */
double sample_row_mass(const sample_row *row, float max, float scale);

#endif
