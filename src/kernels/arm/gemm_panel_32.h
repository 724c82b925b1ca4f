/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_32.h - GEMM of the formats with blocks of 32 and many tokens; see gemm_panel_arm.h.
 *
 * Include a tile_*.h and gemm_rows_32.h first.
 */
#ifndef MOTE_KERNELS_ARM_GEMM_PANEL_32_H
#define MOTE_KERNELS_ARM_GEMM_PANEL_32_H

#include "kernels/arm/gemm_panel_arm.h"

enum { STEPS_32 = QUANT_BLOCK / STEP_COLS };

/* One block of eight rows. */
typedef struct panel_32 {
    int8_t q[STEPS_32][STEP_ROW_BYTES];
    float d[TILE_ROW_VECTORS][4], m[TILE_ROW_VECTORS][4];
} panel_32;

/* One block of four tokens. */
typedef struct tile_32 {
    int8_t q[STEPS_32][STEP_TOKEN_BYTES];
    float d[TILE_TOKEN_VECTORS][4], sum[TILE_TOKEN_VECTORS][4];
} tile_32;

/* The blocks advance. */
ALWAYS_INLINE void pack_panel_block(const format_32 *f, const uint8_t *block[TILE_ROWS],
                                    panel_32 *out)
{
    int8_t q[TILE_ROWS][QUANT_BLOCK];
    float d[TILE_ROWS], m[TILE_ROWS];
    const int8_t *codes[TILE_ROWS];
    for (int r = 0; r < TILE_ROWS; r++) {
        const block_32 b = take_block(f, &block[r]);
        vst1q_s8(q[r], b.q[0]);
        vst1q_s8(q[r] + 16, b.q[1]);
        codes[r] = q[r];
        d[r] = vgetq_lane_f32(b.d, 0);
        m[r] = vgetq_lane_f32(b.m, 0);
    }
    EACH(s, STEPS_32)
    tile_pack_rows(codes, (size_t)s * STEP_COLS, out->q[s]);
    tile_spread_rows(d, out->d);
    if (f->has_m)
        tile_spread_rows(m, out->m);
}

/* Rows r .. r+7; the last row is repeated if there are fewer. */
ALWAYS_INLINE void pack_panel(const kern_gemm_args *a, const format_32 *f, size_t r, panel_32 *out)
{
    const uint8_t *block[TILE_ROWS];
    for (size_t i = 0; i < TILE_ROWS; i++)
        block[i] = (const uint8_t *)a->w + (r + i < a->rows ? r + i : a->rows - 1) * a->row_bytes;
    for (size_t b = 0; b < a->x->cols / QUANT_BLOCK; b++)
        pack_panel_block(f, block, out + b);
}

/* Tokens t .. t+3; the last is repeated if n < 4. */
static inline void pack_tile(const kern_act *x, size_t t, size_t n, tile_32 *out)
{
    const size_t blocks = x->cols / QUANT_BLOCK;
    for (size_t b = 0; b < blocks; b++) {
        float d[TILE_TOKENS], sum[TILE_TOKENS];
        pack_tokens(x->q + t * x->cols + b * QUANT_BLOCK, x->cols, n, STEPS_32, out[b].q[0]);
        for (size_t i = 0; i < TILE_TOKENS; i++) {
            const size_t at = (t + (i < n ? i : n - 1)) * blocks + b;
            d[i] = x->d[at];
            sum[i] = (float)x->sum[at];
        }
        tile_spread_tokens(d, out[b].d);
        tile_spread_tokens(sum, out[b].sum);
    }
}

/* One block: one step of 32 chains. */
ALWAYS_INLINE void tile_block(const format_32 *f, const panel_32 *w, const tile_32 *x,
                              float32x4_t acc[TILE_SUMS])
{
    int32x4_t isum[TILE_SUMS];
    EACH(v, TILE_SUMS)
    isum[v] = vdupq_n_s32(0);
    const int8_t *wq = w->q[0], *xq = x->q[0];
    EACH(s, STEPS_32)
    tile_add_8(isum, &wq, &xq);
    EACH(v, TILE_SUMS)
    {
        const float32x4_t dx = vld1q_f32(x->d[TILE_TOKEN_VECTOR(v)]);
        const float32x4_t d = vmulq_f32(vld1q_f32(w->d[TILE_ROW_VECTOR(v)]), dx);
        acc[v] = vfmaq_f32(acc[v], d, vcvtq_f32_s32(isum[v]));
        if (f->has_m)
            acc[v] = vfmaq_f32(acc[v], vmulq_f32(vld1q_f32(w->m[TILE_ROW_VECTOR(v)]), dx),
                               vld1q_f32(x->sum[TILE_TOKEN_VECTOR(v)]));
    }
}

/* Tokens t .. end-1 of a chunk, eight rows from r on. */
ALWAYS_INLINE void multiply_panel(const kern_gemm_args *a, const format_32 *f, const panel_32 *w,
                                  const tile_32 *x, size_t r, size_t t, size_t end)
{
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    for (; t < end; t += TILE_TOKENS, x += blocks) {
        float32x4_t acc[TILE_SUMS];
        EACH(v, TILE_SUMS)
        acc[v] = vdupq_n_f32(0.0f);
        for (size_t b = 0; b < blocks; b++)
            tile_block(f, w + b, x + b, acc);
        store_tile(a, acc, r, a->rows - r, t, end - t);
    }
}

/* False: a row is too long for the scratch memory. */
ALWAYS_INLINE bool panels_32(const kern_gemm_args *a, const format_32 *f)
{
    const size_t blocks = a->x->cols / QUANT_BLOCK, n = a->x->n;
    panel_32 *w = a->scratch;
    tile_32 *x = (tile_32 *)(w + blocks);
    const size_t at_once = chunk_tokens(n, blocks * sizeof *w, blocks * sizeof *x);
    if (at_once == 0)
        return false;
    for (size_t t = 0; t < n; t += at_once) {
        const size_t end = n - t < at_once ? n : t + at_once;
        for (size_t i = t; i < end; i += TILE_TOKENS)
            pack_tile(a->x, i, end - i, x + (i - t) / TILE_TOKENS * blocks);
        for (size_t r = 0; r < a->rows; r += TILE_ROWS) {
            pack_panel(a, f, r, w);
            take_after_writes();
            multiply_panel(a, f, w, x, r, t, end);
        }
    }
    return true;
}

#endif
