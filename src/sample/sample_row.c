/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_row.c - finds the best entries of a row without sorting all of it.
 *
 * The maximum of each block of 256 ids costs one pass of the fastest kernel
 * there is. If `want` blocks have a maximum of at least t, then at least `want`
 * values are at least t: the want-th largest block maximum is a threshold below
 * which nothing has to be looked at, and blocks whose maximum is smaller are not
 * even read. What passes is gathered in the order of ids and put in order by a
 * stable radix sort, so equal values keep the lower id first, and no input, not
 * even a row of equal values, is slower than four passes over it.
 */
#include "sample/sample_row.h"

#include <string.h>

enum { DIGIT_BITS = 8, DIGITS = 32 / DIGIT_BITS, DIGIT_VALUES = 1 << DIGIT_BITS };

static uint32_t block_length(const sample_row *row, uint32_t block)
{
    uint32_t left = row->n - block * SAMPLE_BLOCK;
    return left < SAMPLE_BLOCK ? left : SAMPLE_BLOCK;
}

/* Floats compare as sign and magnitude, keys as plain integers. Adding +0 makes -0 a +0. */
static uint32_t key_of(float value)
{
    const float x = value + 0.0f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t ascending = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
    return ~ascending;
}

/* Stable, by key. Digits that are the same in all entries cost nothing but the count. */
static void sort_entries(sample_entry *entries, sample_entry *spare, size_t n)
{
    uint32_t count[DIGITS][DIGIT_VALUES] = {{0}};
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < DIGITS; d++)
            count[d][entries[i].key >> (d * DIGIT_BITS) & (DIGIT_VALUES - 1)]++;

    sample_entry *from = entries, *to = spare;
    for (int d = 0; d < DIGITS; d++) {
        const int shift = d * DIGIT_BITS;
        if (n == 0 || count[d][from[0].key >> shift & (DIGIT_VALUES - 1)] == n)
            continue;
        uint32_t next[DIGIT_VALUES], at = 0;
        for (int v = 0; v < DIGIT_VALUES; v++) {
            next[v] = at;
            at += count[d][v];
        }
        for (size_t i = 0; i < n; i++)
            to[next[from[i].key >> shift & (DIGIT_VALUES - 1)]++] = from[i];
        sample_entry *swap = from;
        from = to;
        to = swap;
    }
    if (from != entries)
        memcpy(entries, from, n * sizeof *entries);
}

/* Block by block, so that the maximum is taken of values that are still in the nearest cache. */
float sample_row_load(const sample_row *row, const float *logits)
{
    const uint32_t blocks = sample_row_blocks(row->n);
    for (uint32_t b = 0; b < blocks; b++) {
        const size_t first = (size_t)b * SAMPLE_BLOCK;
        const uint32_t n = block_length(row, b);
        for (uint32_t i = 0; i < n; i++)
            row->values[first + i] = sample_clean(logits[first + i]);
        row->block_max[b] = row->kernels->max(row->values + first, n);
    }
    return row->kernels->max(row->block_max, blocks);
}

float sample_row_measure(const sample_row *row)
{
    const uint32_t blocks = sample_row_blocks(row->n);
    for (uint32_t b = 0; b < blocks; b++)
        row->block_max[b] =
            row->kernels->max(row->values + (size_t)b * SAMPLE_BLOCK, block_length(row, b));
    return row->kernels->max(row->block_max, blocks);
}

uint32_t sample_row_first(const sample_row *row, float max)
{
    uint32_t id = 0;
    while (row->block_max[id / SAMPLE_BLOCK] != max)
        id += SAMPLE_BLOCK;
    while (row->values[id] != max)
        id++;
    return id;
}

/* The want-th largest block maximum; -inf if there are not so many blocks. */
static float threshold(const sample_row *row, size_t want)
{
    const uint32_t blocks = sample_row_blocks(row->n);
    if (want > blocks)
        return -INFINITY;
    for (uint32_t b = 0; b < blocks; b++)
        row->entries[b] = (sample_entry){key_of(row->block_max[b]), b};
    sort_entries(row->entries, row->spare, blocks);
    return row->block_max[row->entries[want - 1].id];
}

size_t sample_row_best(const sample_row *row, size_t want)
{
    if (want == 0)
        return 0;
    const float least = threshold(row, want);
    const uint32_t blocks = sample_row_blocks(row->n);
    size_t found = 0;
    for (uint32_t b = 0; b < blocks; b++) {
        if (row->block_max[b] < least)
            continue;
        const uint32_t first = b * SAMPLE_BLOCK, end = first + block_length(row, b);
        for (uint32_t id = first; id < end; id++)
            if (row->values[id] >= least && row->values[id] > -INFINITY)
                row->entries[found++] = (sample_entry){key_of(row->values[id]), id};
    }
    sort_entries(row->entries, row->spare, found);
    return found;
}

double sample_row_mass(const sample_row *row, float max, float scale)
{
    const uint32_t blocks = sample_row_blocks(row->n);
    double sum = 0;
    for (uint32_t b = 0; b < blocks; b++)
        sum += (double)row->kernels->sum_exp(row->values + (size_t)b * SAMPLE_BLOCK,
                                             block_length(row, b), max, scale);
    return sum;
}
