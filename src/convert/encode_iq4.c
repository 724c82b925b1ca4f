/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode_iq4.c - IQ4_NL and IQ4_XS: blocks of 32 values with the code book quant_iq4_values; see
 * encode.h.
 *
 * As in encode_k.c, eight blocks are searched at the same time: value i of block g is at
 * x[i * GROUPS + g]. The operations of one block and their order are those of llama.cpp.
 */
#include "convert/encode.h"

#include "convert/encode_search.h"
#include "quant/blocks.h"
#include "quant/half.h"

#include <math.h>
#include <string.h>

enum { GROUPS = 8, N = QUANT_BLOCK, VALUES = GROUPS * N, CODES = 16, TRIES = 7 };

/* Half the distance to the next value is the border between two codes. The borders are multiples of
 * 1/2 and both distances from a value near a border are exact, so comparing with the border gives
 * the code that a comparison of the distances gives. */
static const float borders[CODES - 1] = {-115.5f, -93.5f, -74,   -57,   -42, -28.5f, -16, -4.5f,
                                         7,       19,     31.5f, 45.5f, 61,  79,     101};
static const float gaps[CODES - 1] = {23, 21, 18, 16, 14, 13, 12, 11, 12, 12, 13, 15, 16, 20, 24};

/* The value of the code book nearest to x. */
static inline float book_value(float x)
{
    float value = -127;
    for (int k = 0; k < CODES - 1; k++)
        value += x >= borders[k] ? gaps[k] : 0;
    return value;
}

static inline uint8_t book_code(float x)
{
    uint8_t code = 0;
    for (int k = 0; k < CODES - 1; k++)
        code = (uint8_t)(code + (x >= borders[k]));
    return code;
}

/* ---- scales of eight blocks ---- */

/* Weights of values with the mean square of the values that share a scale, or of one block. */
static void weigh(float *w, const float *values, const float *weights, float mean, int g)
{
    for (int i = 0; i < N; i++) {
        const float v = values[i];
        w[i * GROUPS + g] = weights != NULL ? weights[i] * sqrtf(mean + v * v) : v * v;
    }
}

static float mean_square_twice(const float *values, int n)
{
    float sum = 0;
    for (int i = 0; i < n; i++)
        sum += values[i] * values[i];
    return sum * (2.0f / (float)n);
}

static void block_extremes(float *extreme, float *largest, const float *x)
{
    for (int g = 0; g < GROUPS; g++)
        largest[g] = extreme[g] = 0;
    for (int i = 0; i < VALUES; i += GROUPS)
        for (int g = 0; g < GROUPS; g++) {
            const float magnitude = fabsf(x[i + g]);
            extreme[g] = magnitude > largest[g] ? x[i + g] : extreme[g];
            largest[g] = magnitude > largest[g] ? magnitude : largest[g];
        }
}

/* Weighted sums of least squares for one scale. */
static void book_sums(float *qx, float *q2, const float *x, const float *w, const float *inverse)
{
    for (int g = 0; g < GROUPS; g++)
        qx[g] = q2[g] = 0;
    for (int i = 0; i < VALUES; i += GROUPS)
        for (int g = 0; g < GROUPS; g++) {
            const float q = book_value(inverse[g] * x[i + g]);
            qx[g] += w[i + g] * q * x[i + g];
            q2[g] += w[i + g] * q * q;
        }
}

/* Tries 16 scales; keeps the one with the largest reduction of the error. */
static void book_search(float *scale, const float *x, const float *w)
{
    float extreme[GROUPS], largest[GROUPS], inverse[GROUPS], qx[GROUPS], q2[GROUPS], best[GROUPS];
    block_extremes(extreme, largest, x);
    for (int g = 0; g < GROUPS; g++)
        inverse[g] = 1 / (-extreme[g] / (float)quant_iq4_values[0]);
    book_sums(qx, q2, x, w, inverse);
    for (int g = 0; g < GROUPS; g++) {
        scale[g] = q2[g] > 0 ? qx[g] / q2[g] : 0;
        best[g] = scale[g] * qx[g];
    }
    for (int step = -TRIES; step <= TRIES; step++) {
        for (int g = 0; g < GROUPS; g++)
            inverse[g] = (float)(step + quant_iq4_values[0]) / extreme[g];
        book_sums(qx, q2, x, w, inverse);
        for (int g = 0; g < GROUPS; g++) {
            const int32_t better = q2[g] > 0 && qx[g] * qx[g] > best[g] * q2[g];
            scale[g] = better ? qx[g] / q2[g] : scale[g];
            best[g] = better ? scale[g] * qx[g] : best[g];
        }
    }
    for (int g = 0; g < GROUPS; g++)
        scale[g] = largest[g] < GROUP_IS_ZERO ? 0 : scale[g];
}

static void blocks_transpose(float *x, const float *values)
{
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < N; i++)
            x[i * GROUPS + g] = values[g * N + i];
}

/* Codes of 32 values with the inverse of their scale. */
static void put_codes(uint8_t qs[16], const float *values, float inverse)
{
    for (int j = 0; j < 16; j++)
        qs[j] =
            (uint8_t)(book_code(inverse * values[j]) | book_code(inverse * values[j + 16]) << 4);
}

/* ---- rows ---- */

static void encode_iq4_nl(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_iq4_nl *block = blocks;
    for (size_t b = 0; b < n_blocks; b += GROUPS) {
        const size_t n = n_blocks - b < GROUPS ? n_blocks - b : GROUPS;
        float padded[VALUES] = {0}, x[VALUES], w[VALUES] = {0}, scale[GROUPS];
        memcpy(padded, values + b * N, n * N * sizeof *values);
        blocks_transpose(x, padded);
        for (size_t g = 0; g < n; g++)
            weigh(w, padded + g * N, weights != NULL ? weights + (b + g) * N : NULL,
                  mean_square_twice(padded + g * N, N), (int)g);
        book_search(scale, x, w);
        for (size_t g = 0; g < n; g++) {
            block[b + g].d = half_f32_to_f16(scale[g]);
            put_codes(block[b + g].qs, padded + g * N, scale[g] != 0 ? 1 / scale[g] : 0);
        }
    }
}

static void encode_one_iq4_xs(const float *values, const float *weights, quant_iq4_xs *block)
{
    const float mean = mean_square_twice(values, VALUES);
    float x[VALUES], w[VALUES], scale[GROUPS], largest = 0, extreme = 0;
    blocks_transpose(x, values);
    for (int g = 0; g < GROUPS; g++)
        weigh(w, values + g * N, weights != NULL ? weights + g * N : NULL, mean, g);
    book_search(scale, x, w);
    for (int g = 0; g < GROUPS; g++)
        if (fabsf(scale[g]) > largest) {
            largest = fabsf(scale[g]);
            extreme = scale[g];
        }
    const float d = -extreme / 32, inverse = d != 0 ? 1 / d : 0;
    *block = (quant_iq4_xs){.d = half_f32_to_f16(d)};
    for (int g = 0; g < GROUPS; g++) {
        const int32_t l = clamp(nearest(inverse * scale[g]), -32, 31);
        const float scaled = d * (float)l;
        put_codes(block->qs + 16 * g, values + g * N, scaled != 0 ? 1 / scaled : 0);
        block->scales_l[g / 2] |= (uint8_t)(((l + 32) & 15) << 4 * (g % 2));
        block->scales_h |= (uint16_t)((l + 32) >> 4 << 2 * g);
    }
}

static void encode_iq4_xs(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_iq4_xs *block = blocks;
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * QUANT_SUPERBLOCK;
        encode_one_iq4_xs(values + at, weights != NULL ? weights + at : NULL, &block[b]);
    }
}

/* The build sets the name for the instruction sets that it compiles this file for. */
#ifndef ENCODE_IQ4_SET
#define ENCODE_IQ4_SET encode_iq4_baseline
#endif
const encode_iq4_set ENCODE_IQ4_SET = {encode_iq4_nl, encode_iq4_xs};
