/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tile_dotprod.h - a tile of 8 rows by 4 tokens with SDOT. Same functions as tile_i8mm.h.
 *
 * SDOT by element multiplies four columns of four rows by four columns of one token. Vector v is
 * rows 4 (v / 4) to 4 (v / 4) + 3 of token v % 4. Eight columns of the rows are 64 bytes: four
 * columns of all rows, then the next four.
 */
#ifndef MOTE_KERNELS_ARM_TILE_DOTPROD_H
#define MOTE_KERNELS_ARM_TILE_DOTPROD_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define TILE_INLINE static inline __attribute__((always_inline))

enum {
    TILE_ROWS = 8,
    TILE_TOKENS = 4,
    TILE_SUMS = 8,
    TILE_ROW_VECTORS = 2,
    TILE_TOKEN_VECTORS = 4
};

#define TILE_ROW_VECTOR(v)   ((v) / 4)
#define TILE_TOKEN_VECTOR(v) ((v) % 4)

TILE_INLINE void tile_add_8(int32x4_t acc[TILE_SUMS], const int8_t **w, const int8_t **x)
{
    const int8x16x2_t token = vld1q_s8_x2(*x);
    const int8x16x4_t row = vld1q_s8_x4(*w);
    *x += sizeof token;
    *w += sizeof row;
    const int8x16_t x0 = token.val[0], x1 = token.val[1];
    const int8x16_t w0 = row.val[0], w1 = row.val[1], w2 = row.val[2], w3 = row.val[3];
    acc[0] = vdotq_laneq_s32(acc[0], w0, x0, 0);
    acc[1] = vdotq_laneq_s32(acc[1], w0, x0, 2);
    acc[2] = vdotq_laneq_s32(acc[2], w0, x1, 0);
    acc[3] = vdotq_laneq_s32(acc[3], w0, x1, 2);
    acc[4] = vdotq_laneq_s32(acc[4], w1, x0, 0);
    acc[5] = vdotq_laneq_s32(acc[5], w1, x0, 2);
    acc[6] = vdotq_laneq_s32(acc[6], w1, x1, 0);
    acc[7] = vdotq_laneq_s32(acc[7], w1, x1, 2);
    acc[0] = vdotq_laneq_s32(acc[0], w2, x0, 1);
    acc[1] = vdotq_laneq_s32(acc[1], w2, x0, 3);
    acc[2] = vdotq_laneq_s32(acc[2], w2, x1, 1);
    acc[3] = vdotq_laneq_s32(acc[3], w2, x1, 3);
    acc[4] = vdotq_laneq_s32(acc[4], w3, x0, 1);
    acc[5] = vdotq_laneq_s32(acc[5], w3, x0, 3);
    acc[6] = vdotq_laneq_s32(acc[6], w3, x1, 1);
    acc[7] = vdotq_laneq_s32(acc[7], w3, x1, 3);
}

TILE_INLINE void tile_pack_rows(const int8_t *const row[TILE_ROWS], size_t column, int8_t *out)
{
    for (int r = 0; r < TILE_ROWS; r++) {
        memcpy(out + 4 * r, row[r] + column, 4);
        memcpy(out + 32 + 4 * r, row[r] + column + 4, 4);
    }
}

TILE_INLINE void tile_spread_rows(const float in[TILE_ROWS], float out[TILE_ROW_VECTORS][4])
{
    memcpy(out, in, TILE_ROWS * sizeof *in);
}

TILE_INLINE void tile_spread_rows_s32(const int32_t in[TILE_ROWS], int32_t out[TILE_ROW_VECTORS][4])
{
    memcpy(out, in, TILE_ROWS * sizeof *in);
}

TILE_INLINE void tile_spread_tokens(const float in[TILE_TOKENS], float out[TILE_TOKEN_VECTORS][4])
{
    for (int v = 0; v < TILE_TOKEN_VECTORS; v++)
        vst1q_f32(out[v], vdupq_n_f32(in[v]));
}

TILE_INLINE void tile_unpack(const float32x4_t acc[TILE_SUMS], float out[TILE_TOKENS][TILE_ROWS])
{
    for (int t = 0; t < TILE_TOKENS; t++) {
        vst1q_f32(out[t], acc[t]);
        vst1q_f32(out[t] + 4, acc[4 + t]);
    }
}

#endif
