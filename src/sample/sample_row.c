/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_row.c - finds the best entries of a row without sorting all of them.
 *
 * One pass of the max kernel gives the maximum of each block of 256 ids. If `want` blocks have a
 * maximum of at least t, then at least `want` values are at least t. So the want-th largest block
 * maximum is a threshold, and blocks with a smaller maximum are skipped.
 *
 * The remaining values are collected in id order and sorted with a stable radix sort, so equal
 * values keep the lower id first. The worst case, a row of equal values, costs four passes.
 */
#include "sample/sample_row.h"

#include <string.h>

enum { DIGIT_BITS = 8, DIGITS = 32 / DIGIT_BITS, DIGIT_VALUES = 1 << DIGIT_BITS };

static uint32_t row_block_length(const sample_row *row, uint32_t block)
{
    uint32_t left = row->n - block * SAMPLE_BLOCK;
    return left < SAMPLE_BLOCK ? left : SAMPLE_BLOCK;
}

/* Maps a float to an integer with the reverse order. Adding +0 turns -0 into +0. */
static uint32_t entry_key(float value)
{
    const float x = value + 0.0f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t ascending = bits >> 31 ? ~bits : bits | UINT32_C(1) << 31;
    return ~ascending;
}

/* Stable radix sort by key. A digit that is equal in all entries is only counted. */
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

/* Block by block, so the values are still in the L1 cache when the maximum is computed. */
float sample_row_load(const sample_row *row, const float *logits)
{
    const uint32_t blocks = sample_row_blocks(row->n);
    for (uint32_t b = 0; b < blocks; b++) {
        const size_t first = (size_t)b * SAMPLE_BLOCK;
        const uint32_t n = row_block_length(row, b);
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
            row->kernels->max(row->values + (size_t)b * SAMPLE_BLOCK, row_block_length(row, b));
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

/* The want-th largest block maximum; -inf if there are fewer blocks. */
static float row_threshold(const sample_row *row, size_t want)
{
    const uint32_t blocks = sample_row_blocks(row->n);
    if (want > blocks)
        return -INFINITY;
    for (uint32_t b = 0; b < blocks; b++)
        row->entries[b] = (sample_entry){entry_key(row->block_max[b]), b};
    sort_entries(row->entries, row->spare, blocks);
    return row->block_max[row->entries[want - 1].id];
}

size_t sample_row_best(const sample_row *row, size_t want)
{
    if (want == 0)
        return 0;
    const float least = row_threshold(row, want);
    const uint32_t blocks = sample_row_blocks(row->n);
    size_t found = 0;
    for (uint32_t b = 0; b < blocks; b++) {
        if (row->block_max[b] < least)
            continue;
        const uint32_t first = b * SAMPLE_BLOCK, end = first + row_block_length(row, b);
        for (uint32_t id = first; id < end; id++)
            if (row->values[id] >= least && row->values[id] > -INFINITY)
                row->entries[found++] = (sample_entry){entry_key(row->values[id]), id};
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
                                             row_block_length(row, b), max, scale);
    return sum;
}
