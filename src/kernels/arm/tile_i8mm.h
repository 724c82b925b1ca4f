/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tile_i8mm.h - a tile of 8 rows by 4 tokens with SMMLA.
 *
 * SMMLA multiplies two rows by two tokens over 8 columns. The tile has eight accumulators: vector v
 * is rows 2 (v / 2) and the next, tokens 2 (v % 2) and the next; its lanes are
 * { row 0 token 0, row 0 token 1, row 1 token 0, row 1 token 1 }. Eight columns of the rows are 64
 * bytes, row after row. Eight columns of the tokens are 32 bytes, token after token.
 */
#ifndef MOTE_KERNELS_ARM_TILE_I8MM_H
#define MOTE_KERNELS_ARM_TILE_I8MM_H

#include "kernels/arm/take.h"

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define TILE_INLINE static inline __attribute__((always_inline))

enum {
    TILE_ROWS = 8,
    TILE_TOKENS = 4,
    TILE_SUMS = 8,         /* accumulators */
    TILE_ROW_VECTORS = 4,  /* vectors of a value per row */
    TILE_TOKEN_VECTORS = 2 /* vectors of a value per token */
};

/* The vector of row values, and of token values, that belongs to accumulator v. */
#define TILE_ROW_VECTOR(v)   ((v) / 2)
#define TILE_TOKEN_VECTOR(v) ((v) % 2)

/* acc += products of eight columns. w and x advance. */
TILE_INLINE void tile_add_8(int32x4_t acc[TILE_SUMS], const int8_t **w, const int8_t **x)
{
    int8x16_t low[2], high[2], token[2];
    take_32(x, token);
    take_32(w, low);
    take_32(w, high);
    const int8x16_t x0 = token[0], x1 = token[1];
    const int8x16_t w0 = low[0], w1 = low[1], w2 = high[0], w3 = high[1];
    acc[0] = vmmlaq_s32(acc[0], w0, x0);
    acc[1] = vmmlaq_s32(acc[1], w0, x1);
    acc[2] = vmmlaq_s32(acc[2], w1, x0);
    acc[3] = vmmlaq_s32(acc[3], w1, x1);
    acc[4] = vmmlaq_s32(acc[4], w2, x0);
    acc[5] = vmmlaq_s32(acc[5], w2, x1);
    acc[6] = vmmlaq_s32(acc[6], w3, x0);
    acc[7] = vmmlaq_s32(acc[7], w3, x1);
}

/* Eight columns of eight rows to the order of tile_add_8. */
TILE_INLINE void tile_pack_rows(const int8_t *const row[TILE_ROWS], size_t column, int8_t *out)
{
    for (int r = 0; r < TILE_ROWS; r++)
        memcpy(out + 8 * r, row[r] + column, 8);
}

TILE_INLINE void tile_spread_rows(const float in[TILE_ROWS], float out[TILE_ROW_VECTORS][4])
{
    for (int v = 0; v < TILE_ROW_VECTORS; v++)
        for (int lane = 0; lane < 4; lane++)
            out[v][lane] = in[2 * v + lane / 2];
}

TILE_INLINE void tile_spread_rows_s32(const int32_t in[TILE_ROWS], int32_t out[TILE_ROW_VECTORS][4])
{
    const int32x4_t first = vld1q_s32(in), second = vld1q_s32(in + 4);
    vst1q_s32(out[0], vzip1q_s32(first, first));
    vst1q_s32(out[1], vzip2q_s32(first, first));
    vst1q_s32(out[2], vzip1q_s32(second, second));
    vst1q_s32(out[3], vzip2q_s32(second, second));
}

TILE_INLINE void tile_spread_tokens(const float in[TILE_TOKENS], float out[TILE_TOKEN_VECTORS][4])
{
    for (int v = 0; v < TILE_TOKEN_VECTORS; v++)
        for (int lane = 0; lane < 4; lane++)
            out[v][lane] = in[2 * v + lane % 2];
}

/* out[t][r]: the value of row r and token t. */
TILE_INLINE void tile_unpack(const float32x4_t acc[TILE_SUMS], float out[TILE_TOKENS][TILE_ROWS])
{
    for (int t = 0; t < 2; t++)
        for (int half = 0; half < 2; half++) {
            const float32x4_t a = acc[4 * half + t], b = acc[4 * half + 2 + t];
            vst1q_f32(out[2 * t] + 4 * half, vuzp1q_f32(a, b));
            vst1q_f32(out[2 * t + 1] + 4 * half, vuzp2q_f32(a, b));
        }
}

#endif
