/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_32.c - blocks of 32 values: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL.
 *
 * Each value is one product, and one sum where the format has a minimum, in
 * that order and rounded separately: other readers of these files do the same,
 * and golden/quant compares bit by bit.
 */
#include "quant/blocks.h"
#include "quant/quant_decode.h"
#include "quant/half.h"

const int8_t quant_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

void quant_decode_q4_0(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q4_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int j = 0; j < 16; j++) {
            values[j] = d * (float)((block->qs[j] & 15) - 8);
            values[j + 16] = d * (float)((block->qs[j] >> 4) - 8);
        }
    }
}

void quant_decode_q4_1(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q4_1 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float m = half_f16_to_f32(block->m);
        for (int j = 0; j < 16; j++) {
            values[j] = d * (float)(block->qs[j] & 15) + m;
            values[j + 16] = d * (float)(block->qs[j] >> 4) + m;
        }
    }
}

/* The five bits of value j of a Q5_0 or Q5_1 block. */
static int code_of_5(const uint8_t qh[4], const uint8_t qs[16], int j)
{
    const int low = j < 16 ? qs[j] & 15 : qs[j - 16] >> 4;
    return low | (qh[j / 8] >> (j % 8) & 1) << 4;
}

void quant_decode_q5_0(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q5_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int j = 0; j < QUANT_BLOCK; j++)
            values[j] = d * (float)(code_of_5(block->qh, block->qs, j) - 16);
    }
}

void quant_decode_q5_1(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q5_1 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float m = half_f16_to_f32(block->m);
        for (int j = 0; j < QUANT_BLOCK; j++)
            values[j] = d * (float)code_of_5(block->qh, block->qs, j) + m;
    }
}

void quant_decode_q8_0(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q8_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int j = 0; j < QUANT_BLOCK; j++)
            values[j] = d * (float)block->qs[j];
    }
}

void quant_decode_iq4_nl(const void *blocks, size_t n_blocks, float *values)
{
    const quant_iq4_nl *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int j = 0; j < 16; j++) {
            values[j] = d * (float)quant_iq4_values[block->qs[j] & 15];
            values[j + 16] = d * (float)quant_iq4_values[block->qs[j] >> 4];
        }
    }
}
