/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_256.c - superblocks of 256 values: Q2_K .. Q6_K and IQ4_XS.
 *
 * The scale of a group is multiplied out first, then the code, then the minimum
 * is taken off, each step rounded: the order that other readers of these files
 * have, compared bit by bit in golden/quant.
 */
#include "quant/blocks.h"
#include "quant/quant_decode.h"
#include "quant/half.h"

void quant_decode_q2_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q2_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float dmin = half_f16_to_f32(block->dmin);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            const uint8_t scales = block->scales[i / 16];
            const int code = block->qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
            values[i] = d * (float)(scales & 15) * (float)code - dmin * (float)(scales >> 4);
        }
    }
}

void quant_decode_q3_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q3_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            const int low = block->qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
            const int high = block->hmask[i % 32] >> (i / 32) & 1;
            const int code = low - (high ? 0 : 4);
            values[i] = d * (float)quant_q3_k_scale(block->scales, i / 16) * (float)code;
        }
    }
}

void quant_decode_q4_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q4_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float dmin = half_f16_to_f32(block->dmin);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            uint8_t scale, min;
            quant_q4_k_scale(block->scales, i / 32, &scale, &min);
            const int code = block->qs[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15;
            values[i] = d * (float)scale * (float)code - dmin * (float)min;
        }
    }
}

void quant_decode_q5_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q5_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float dmin = half_f16_to_f32(block->dmin);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            uint8_t scale, min;
            quant_q4_k_scale(block->scales, i / 32, &scale, &min);
            const int low = block->qs[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15;
            const int code = low | (block->qh[i % 32] >> (i / 32) & 1) << 4;
            values[i] = d * (float)scale * (float)code - dmin * (float)min;
        }
    }
}

void quant_decode_q6_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q6_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            const int low = block->ql[i / 128 * 64 + i % 64] >> (4 * (i % 128 / 64)) & 15;
            const int high = block->qh[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
            const int code = (low | high << 4) - 32;
            values[i] = d * (float)block->scales[i / 16] * (float)code;
        }
    }
}

void quant_decode_iq4_xs(const void *blocks, size_t n_blocks, float *values)
{
    const quant_iq4_xs *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            const float scaled = d * (float)quant_iq4_xs_scale(block, i / 32);
            const int code = block->qs[i / 32 * 16 + i % 16] >> (4 * (i % 32 / 16)) & 15;
            values[i] = scaled * (float)quant_iq4_values[code];
        }
    }
}
