/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode_weighted.c - formats with blocks of 32 values, with an importance matrix; see encode.h.
 *
 * The weight of an error is larger for values with a large magnitude, compared with the mean square
 * of the row.
 */
#include "convert/encode.h"

#include "convert/encode_search.h"
#include "quant/blocks.h"
#include "quant/half.h"

#include <math.h>

static float row_mean_square(const float *values, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i] * values[i];
    return sum / (float)n;
}

static void block_weights(float out[QUANT_BLOCK], const float *values, const float *weights,
                          float mean)
{
    for (int i = 0; i < QUANT_BLOCK; i++)
        out[i] = weights[i] * sqrtf(mean + values[i] * values[i]);
}

static void put_nibbles(uint8_t qs[16], const uint8_t codes[QUANT_BLOCK])
{
    for (int j = 0; j < 16; j++)
        qs[j] = (uint8_t)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
}

static void put_fifth_bits(uint8_t qh[4], const uint8_t codes[QUANT_BLOCK])
{
    uint32_t bits = 0;
    for (int j = 0; j < QUANT_BLOCK; j++)
        bits |= (uint32_t)(codes[j] >> 4) << j;
    memcpy(qh, &bits, sizeof bits);
}

void encode_weighted_q4_0(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    const float mean = row_mean_square(values, n_blocks * QUANT_BLOCK);
    quant_q4_0 *block = blocks;
    uint8_t codes[QUANT_BLOCK];
    float w[QUANT_BLOCK];
    for (size_t b = 0; b < n_blocks; b++, values += QUANT_BLOCK, weights += QUANT_BLOCK) {
        block_weights(w, values, weights, mean);
        block[b].d = half_f32_to_f16(search_scale(codes, values, w, QUANT_BLOCK, 8));
        put_nibbles(block[b].qs, codes);
    }
}

void encode_weighted_q5_0(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    const float mean = row_mean_square(values, n_blocks * QUANT_BLOCK);
    quant_q5_0 *block = blocks;
    uint8_t codes[QUANT_BLOCK];
    float w[QUANT_BLOCK];
    for (size_t b = 0; b < n_blocks; b++, values += QUANT_BLOCK, weights += QUANT_BLOCK) {
        block_weights(w, values, weights, mean);
        block[b].d = half_f32_to_f16(search_scale(codes, values, w, QUANT_BLOCK, 16));
        put_nibbles(block[b].qs, codes);
        put_fifth_bits(block[b].qh, codes);
    }
}

void encode_weighted_q4_1(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    const float mean = row_mean_square(values, n_blocks * QUANT_BLOCK);
    quant_q4_1 *block = blocks;
    uint8_t codes[QUANT_BLOCK];
    float w[QUANT_BLOCK], min;
    for (size_t b = 0; b < n_blocks; b++, values += QUANT_BLOCK, weights += QUANT_BLOCK) {
        block_weights(w, values, weights, mean);
        block[b].d = half_f32_to_f16(search_affine(codes, &min, values, w, QUANT_BLOCK, 15));
        block[b].m = half_f32_to_f16(-min);
        put_nibbles(block[b].qs, codes);
    }
}

void encode_weighted_q5_1(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    const float mean = row_mean_square(values, n_blocks * QUANT_BLOCK);
    quant_q5_1 *block = blocks;
    uint8_t codes[QUANT_BLOCK];
    float w[QUANT_BLOCK], min;
    for (size_t b = 0; b < n_blocks; b++, values += QUANT_BLOCK, weights += QUANT_BLOCK) {
        block_weights(w, values, weights, mean);
        block[b].d = half_f32_to_f16(search_affine(codes, &min, values, w, QUANT_BLOCK, 31));
        block[b].m = half_f32_to_f16(-min);
        put_nibbles(block[b].qs, codes);
        put_fifth_bits(block[b].qh, codes);
    }
}
