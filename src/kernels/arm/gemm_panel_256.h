/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_256.h - GEMM of the superblock formats with many tokens; see gemm_panel_arm.h.
 *
 * Include a tile_*.h and gemm_rows_256.h first. One accumulator per output runs through all groups;
 * gemm_rows_256.h explains the scales. The minima are a product of the tile too: eight minima by the
 * sums of eight groups. A sum of 32 codes has 13 bits, so it is 128 * high + low, two planes of
 * bytes.
 */
#ifndef MOTE_KERNELS_ARM_GEMM_PANEL_256_H
#define MOTE_KERNELS_ARM_GEMM_PANEL_256_H

#include "kernels/arm/gemm_panel_arm.h"

enum { STEPS_256 = QUANT_SUPERBLOCK / STEP_COLS };

/* One superblock of eight rows. */
typedef struct panel_256 {
    int8_t q[STEPS_256][STEP_ROW_BYTES];
    int8_t min[2][STEP_ROW_BYTES];
    int32_t scale[16][TILE_ROW_VECTORS][4]; /* scale_g - scale_{g+1} */
    float d[TILE_ROW_VECTORS][4], dmin[TILE_ROW_VECTORS][4];
} panel_256;

/* One superblock of four tokens. */
typedef struct tile_256 {
    int8_t q[STEPS_256][STEP_TOKEN_BYTES];
    int8_t low[2][STEP_TOKEN_BYTES], high[2][STEP_TOKEN_BYTES]; /* of the sums */
    float d[TILE_TOKEN_VECTORS][4];
} tile_256;

/* ---- packing ---- */

ALWAYS_INLINE void pack_panel_block(const format_256 *f, const uint8_t *const block[TILE_ROWS],
                                    panel_256 *out)
{
    int8_t q[TILE_ROWS][QUANT_SUPERBLOCK], min[TILE_ROWS][16];
    int32_t scale[16][TILE_ROWS];
    float d[TILE_ROWS], dmin[TILE_ROWS];
    const int8_t *codes[TILE_ROWS], *minima[TILE_ROWS];
    for (int r = 0; r < TILE_ROWS; r++) {
        int8x16_t v[8];
        int32_t steps[16];
        head_256 head;
        f->head(block[r], &head);
        EACH(half, 2)
        {
            f->codes(block[r], half, v);
            EACH(i, 8)
            vst1q_s8(q[r] + 128 * half + 16 * i, v[i]);
        }
        const steps_256 s = scale_steps(f, &head);
        EACH(i, f->groups / 4)
        vst1q_s32(steps + 4 * i, s.v[i]);
        for (int g = 0; g < f->groups; g++)
            scale[g][r] = steps[g];
        if (f->has_min) {
            EACH(i, f->groups / 8)
            vst1_s8(min[r] + 8 * i, vmovn_s16(head.min[i]));
            dmin[r] = vgetq_lane_f32(load_half(block[r] + f->dmin_at), 0);
        }
        d[r] = vgetq_lane_f32(load_d(f, block[r]), 0);
        codes[r] = q[r];
        minima[r] = min[r];
    }
    for (size_t s = 0; s < STEPS_256; s++)
        tile_pack_rows(codes, s * STEP_COLS, out->q[s]);
    for (int g = 0; g < f->groups; g++)
        tile_spread_rows_s32(scale[g], out->scale[g]);
    tile_spread_rows(d, out->d);
    if (f->has_min) {
        for (int i = 0; i < f->groups / 8; i++)
            tile_pack_rows(minima, (size_t)(8 * i), out->min[i]);
        tile_spread_rows(dmin, out->dmin);
    }
}

/* Rows r .. r+7; the last row is repeated if there are fewer. */
ALWAYS_INLINE void pack_panel(const kern_gemm_args *a, const format_256 *f, size_t r,
                              panel_256 *out)
{
    const uint8_t *block[TILE_ROWS];
    for (size_t i = 0; i < TILE_ROWS; i++)
        block[i] = (const uint8_t *)a->w + (r + i < a->rows ? r + i : a->rows - 1) * a->row_bytes;
    for (size_t b = 0; b < a->x->cols / QUANT_SUPERBLOCK; b++) {
        pack_panel_block(f, block, out + b);
        for (size_t i = 0; i < TILE_ROWS; i++)
            block[i] += f->bytes;
    }
}

/* Sums of the groups of a superblock, split in planes. */
static inline void pack_sums(const int16_t *sum, int groups, size_t t, tile_256 *out)
{
    for (int g = 0; g < groups; g++) {
        const int s = groups == 16 ? sum[g] : sum[2 * g] + sum[2 * g + 1];
        out->low[g / 8][8 * t + (size_t)(g % 8)] = (int8_t)(s & 127);
        out->high[g / 8][8 * t + (size_t)(g % 8)] = (int8_t)(s >> 7);
    }
}

/* Tokens t .. t+3; the last is repeated if n < 4. */
static inline void pack_tile(const kern_act *x, const format_256 *f, size_t t, size_t n,
                             tile_256 *out)
{
    const size_t blocks = x->cols / QUANT_SUPERBLOCK;
    for (size_t b = 0; b < blocks; b++) {
        float d[TILE_TOKENS];
        const int8_t *q = x->q + t * x->cols + b * QUANT_SUPERBLOCK;
        pack_tokens(q, x->cols, n, STEPS_256, out[b].q[0]);
        for (size_t i = 0; i < TILE_TOKENS; i++) {
            const size_t at = (t + (i < n ? i : n - 1)) * blocks + b;
            d[i] = x->d[at];
            if (f->has_min)
                pack_sums(x->sum + at * N_SUMS, f->groups, i, &out[b]);
        }
        tile_spread_tokens(d, out[b].d);
    }
}

/* ---- tiles ---- */

ALWAYS_INLINE void tile_minima(const format_256 *f, const panel_256 *w, const tile_256 *x,
                               float32x4_t acc[TILE_SUMS])
{
    int32x4_t msum[TILE_SUMS];
    EACH(v, TILE_SUMS)
    msum[v] = vdupq_n_s32(0);
    const int8_t *high = x->high[0], *low = x->low[0], *min = w->min[0], *again = min;
    EACH(i, f->groups / 8)
    tile_add_8(msum, &min, &high);
    EACH(v, TILE_SUMS)
    msum[v] = vshlq_n_s32(msum[v], 7);
    EACH(i, f->groups / 8)
    tile_add_8(msum, &again, &low);
    EACH(v, TILE_SUMS)
    {
        const float32x4_t d = vmulq_f32(vld1q_f32(w->dmin[TILE_ROW_VECTOR(v)]),
                                        vld1q_f32(x->d[TILE_TOKEN_VECTOR(v)]));
        acc[v] = vfmsq_f32(acc[v], d, vcvtq_f32_s32(msum[v]));
    }
}

/* One superblock: one step of 32 chains. */
ALWAYS_INLINE void tile_superblock(const format_256 *f, const panel_256 *w, const tile_256 *x,
                                   float32x4_t acc[TILE_SUMS])
{
    const int steps = STEPS_256 / f->groups;
    int32x4_t running[TILE_SUMS], isum[TILE_SUMS];
    EACH(v, TILE_SUMS)
    running[v] = isum[v] = vdupq_n_s32(0);
    const int8_t *wq = w->q[0], *xq = x->q[0];
    for (int g = 0; g < f->groups; g++) {
        EACH(s, steps)
        tile_add_8(running, &wq, &xq);
        EACH(v, TILE_SUMS)
        isum[v] = vmlaq_s32(isum[v], running[v], vld1q_s32(w->scale[g][TILE_ROW_VECTOR(v)]));
    }
    EACH(v, TILE_SUMS)
    {
        const float32x4_t d =
            vmulq_f32(vld1q_f32(w->d[TILE_ROW_VECTOR(v)]), vld1q_f32(x->d[TILE_TOKEN_VECTOR(v)]));
        acc[v] = vfmaq_f32(acc[v], d, sum_to_float(isum[v], f->fraction));
    }
    if (f->has_min)
        tile_minima(f, w, x, acc);
}

/* Tokens t .. end-1 of a chunk, eight rows from r on. */
ALWAYS_INLINE void multiply_panel(const kern_gemm_args *a, const format_256 *f, const panel_256 *w,
                                  const tile_256 *x, size_t r, size_t t, size_t end)
{
    const size_t blocks = a->x->cols / QUANT_SUPERBLOCK;
    for (; t < end; t += TILE_TOKENS, x += blocks) {
        float32x4_t acc[TILE_SUMS];
        EACH(v, TILE_SUMS)
        acc[v] = vdupq_n_f32(0.0f);
        for (size_t b = 0; b < blocks; b++)
            tile_superblock(f, w + b, x + b, acc);
        store_tile(a, acc, r, a->rows - r, t, end - t);
    }
}

/* False: a row is too long for the scratch memory. */
ALWAYS_INLINE bool panels_256(const kern_gemm_args *a, const format_256 *f)
{
    const size_t blocks = a->x->cols / QUANT_SUPERBLOCK, n = a->x->n;
    panel_256 *w = a->scratch;
    tile_256 *x = (tile_256 *)(w + blocks);
    const size_t at_once = chunk_tokens(n, blocks * sizeof *w, blocks * sizeof *x);
    if (at_once == 0)
        return false;
    for (size_t t = 0; t < n; t += at_once) {
        const size_t end = n - t < at_once ? n : t + at_once;
        for (size_t i = t; i < end; i += TILE_TOKENS)
            pack_tile(a->x, f, i, end - i, x + (i - t) / TILE_TOKENS * blocks);
        for (size_t r = 0; r < a->rows; r += TILE_ROWS) {
            pack_panel(a, f, r, w);
            take_after_writes();
            multiply_panel(a, f, w, x, r, t, end);
        }
    }
    return true;
}

#endif
