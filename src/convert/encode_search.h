/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode_search.h - codes and scale of one group of values with the smallest weighted error.
 *
 * Every search is that of llama.cpp, operation by operation: the results have the same bits.
 */
#ifndef MOTE_CONVERT_ENCODE_SEARCH_H
#define MOTE_CONVERT_ENCODE_SEARCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A group with a largest magnitude below this counts as zero. */
#define GROUP_IS_ZERO 1e-15f

/* The nearest integer, ties to even, of a value below 2^22. */
static inline int32_t nearest(float value)
{
    const float shifted = value + 0x1.8p23f;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return (bits & 0x7FFFFF) - 0x400000;
}

static inline int32_t clamp(int32_t code, int32_t low, int32_t high)
{
    code = code < high ? code : high;
    return code > low ? code : low;
}

/* x is about scale * (code - bound), with codes below 2 bound. Returns the scale. */
float search_scale(uint8_t *codes, const float *x, const float *w, size_t n, int bound);

/* x, not negative, is about scale * code, with codes up to `largest`. Returns the scale. */
float search_positive(uint8_t *codes, const float *x, const float *w, size_t n, int largest);

/* x is about scale * code - min, with codes up to `largest` and min not negative; at most 32
 * values. Returns the scale. */
float search_affine(uint8_t *codes, float *min, const float *x, const float *w, size_t n,
                    int largest);

#endif
