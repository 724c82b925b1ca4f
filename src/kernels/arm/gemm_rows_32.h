/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_rows_32.h - row kernels of the formats with blocks of 32: a few tokens, along the row.
 *
 * Include a dot_*.h first. Like gemm_rows_256.h: codes are unpacked to registers, sums are reduced
 * four at a time, of four rows for one token, else of four tokens. Accumulators run along the whole
 * row; the sum of a block is the difference of two totals. Integers wrap, and the difference fits.
 */
#ifndef MOTE_KERNELS_ARM_GEMM_ROWS_32_H
#define MOTE_KERNELS_ARM_GEMM_ROWS_32_H

#include "kernels/arm/gemm_rows.h"
#include "kernels/arm/gemm_unpack_32.h"
#include "kernels/variants.h"

#include <math.h>

/* Four accumulators along a row and their totals after the last block. */
typedef struct sums_32 {
    int32x4_t running[4], before;
} sums_32;

ALWAYS_INLINE sums_32 sums_begin(void)
{
    const int32x4_t zero = vdupq_n_s32(0);
    return (sums_32){{zero, zero, zero, zero}, zero};
}

/* The four sums of the last block. */
ALWAYS_INLINE int32x4_t sums_of_block(sums_32 *s)
{
    const int32x4_t total = reduce_4(s->running), sum = vsubq_s32(total, s->before);
    s->before = total;
    return sum;
}

/* ---- one token ---- */

/* Four rows and the token, each from one block on. */
typedef struct four_rows {
    const uint8_t *row[4];
    const int8_t *x;
    sums_32 sums;
    float32x4_t acc;
} four_rows;

/* A block of four rows: one step of their chains. Lane k of dx and xsum: d and sum of the token. */
ALWAYS_INLINE void four_blocks(const format_32 *f, four_rows *s, float32x4_t dx, float32x4_t xsum,
                               const int k)
{
    int8x16_t x[2], q[2];
    take_32(&s->x, x);
    const float32x4_t d = vmulq_n_f32(take_4_halves(s->row), dx[k]);
    const float32x4_t m = f->has_m ? vmulq_n_f32(take_4_halves(s->row), dx[k]) : d;
#define ROW(i)                                                                                     \
    f->codes(&s->row[i], q);                                                                       \
    s->sums.running[i] = dot_32(s->sums.running[i], q[0], q[1], x[0], x[1], f->narrow)
    ROW(0); /* not a loop, which gcc unrolls too late to keep the pointers in registers */
    ROW(1);
    ROW(2);
    ROW(3);
#undef ROW
    float32x4_t sum = vcvtq_f32_s32(sums_of_block(&s->sums));
    if (f->bias != 0) /* exact: at most 32 * 31 * 127 */
        sum = vfmsq_n_f32(sum, vdupq_n_f32((float)f->bias), xsum[k]);
    s->acc = vfmaq_f32(s->acc, d, sum);
    if (f->has_m)
        s->acc = vfmaq_n_f32(s->acc, m, xsum[k]);
}

/* Four rows at a time, so that they share the loads of activations and a chain has four lanes. */
ALWAYS_INLINE void rows_32_one(const kern_gemm_args *a, const format_32 *f)
{
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    for (size_t r = 0; r < a->rows; r += 4) {
        four_rows s = {.x = a->x->q, .sums = sums_begin()};
        s.acc = vdupq_n_f32(0.0f);
        rows_at(a, r, s.row);
        const float *d = a->x->d;
        const int16_t *sum = a->x->sum;
        size_t left = blocks;
        for (; left >= 4; left -= 4, d += 4, sum += 4) {
            const float32x4_t dx = vld1q_f32(d);
            const float32x4_t xsum = vcvtq_f32_s32(vmovl_s16(vld1_s16(sum)));
            four_blocks(f, &s, dx, xsum, 0);
            four_blocks(f, &s, dx, xsum, 1);
            four_blocks(f, &s, dx, xsum, 2);
            four_blocks(f, &s, dx, xsum, 3);
        }
        for (; left > 0; left--, d++, sum++)
            four_blocks(f, &s, vdupq_n_f32(*d), vdupq_n_f32((float)*sum), 0);
        store_rows(a, s.acc, r);
    }
}

/* ---- two to eight tokens ---- */

/* Tokens t .. t+n-1 of the activations. d and sum are 0 after the last token. */
typedef struct tokens_32 {
    const int8_t *q;
    size_t cols, blocks, n;
    const float *d;   /* [blocks][ROWS_TOKENS] */
    const float *sum; /* [blocks][ROWS_TOKENS], if the format has m */
} tokens_32;

static inline tokens_32 tokens_at(const kern_act *x, size_t t, size_t n, float *room)
{
    const size_t blocks = x->cols / QUANT_BLOCK;
    float *d = room, *sum = room + blocks * ROWS_TOKENS;
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < ROWS_TOKENS; i++) {
            d[b * ROWS_TOKENS + i] = i < n ? x->d[(t + i) * blocks + b] : 0.0f;
            sum[b * ROWS_TOKENS + i] = i < n ? (float)x->sum[(t + i) * blocks + b] : 0.0f;
        }
    return (tokens_32){x->q + t * x->cols, x->cols, blocks, n, d, sum};
}

/* Chains of two rows by four tokens, or of one row by eight. */
typedef struct few_chains {
    sums_32 sums[2];
    float32x4_t acc[2];
} few_chains;

ALWAYS_INLINE few_chains few_begin(void)
{
    const float32x4_t zero = vdupq_n_f32(0.0f);
    return (few_chains){{sums_begin(), sums_begin()}, {zero, zero}};
}

/* The codes of token t in block b. A missing token repeats the first: its d is 0, and its result is
 * not stored. */
ALWAYS_INLINE void token_codes(const tokens_32 *x, size_t b, size_t t, int8x16_t out[2])
{
    const int8_t *codes = x->q + (t < x->n ? t : 0) * x->cols + b * QUANT_BLOCK;
    out[0] = vld1q_s8(codes);
    out[1] = vld1q_s8(codes + 16);
}

/* Chains v: one step with a block of the row w and tokens t .. t+3. */
ALWAYS_INLINE void few_step(const format_32 *f, few_chains *s, const int v, const block_32 *w,
                            const tokens_32 *x, size_t b, size_t t)
{
    const float32x4_t dx = vld1q_f32(x->d + b * ROWS_TOKENS + t);
    const float32x4_t sum = vcvtq_f32_s32(sums_of_block(&s->sums[v]));
    s->acc[v] = vfmaq_f32(s->acc[v], vmulq_f32(w->d, dx), sum);
    if (f->has_m)
        s->acc[v] =
            vfmaq_f32(s->acc[v], vmulq_f32(w->m, dx), vld1q_f32(x->sum + b * ROWS_TOKENS + t));
}

ALWAYS_INLINE int32x4_t few_dot(const format_32 *f, int32x4_t acc, const block_32 *w,
                                const int8x16_t x[2])
{
    return dot_32(acc, w->q[0], w->q[1], x[0], x[1], f->narrow);
}

/* A block of two rows and up to four tokens, which share the loads of activations. */
ALWAYS_INLINE void few_pair(const format_32 *f, const uint8_t *at[2], const tokens_32 *x, size_t b,
                            few_chains *s)
{
    const block_32 first = take_block(f, &at[0]), second = take_block(f, &at[1]);
    EACH(i, 4)
    {
        int8x16_t codes[2];
        token_codes(x, b, (size_t)i, codes);
        s->sums[0].running[i] = few_dot(f, s->sums[0].running[i], &first, codes);
        s->sums[1].running[i] = few_dot(f, s->sums[1].running[i], &second, codes);
    }
    few_step(f, s, 0, &first, x, b, 0);
    few_step(f, s, 1, &second, x, b, 0);
}

/* A block of one row and up to eight tokens. */
ALWAYS_INLINE void few_eight(const format_32 *f, const uint8_t **at, const tokens_32 *x, size_t b,
                             few_chains *s)
{
    const block_32 w = take_block(f, at);
    EACH(h, 2)
    {
        EACH(i, 4)
        {
            int8x16_t codes[2];
            token_codes(x, b, 4 * (size_t)h + (size_t)i, codes);
            s->sums[h].running[i] = few_dot(f, s->sums[h].running[i], &w, codes);
        }
        few_step(f, s, h, &w, x, b, 4 * (size_t)h);
    }
}

/* Rows r .. end-1 of up to eight tokens from t on. */
ALWAYS_INLINE void rows_32_few(const kern_gemm_args *a, const format_32 *f, const tokens_32 *x,
                               size_t t, size_t r, size_t end)
{
    const uint8_t *w = a->w;
    for (; x->n <= 4 && r < end; r += 2) {
        const bool two = r + 1 < end; /* else the last row is computed twice */
        const uint8_t *at[2] = {w + r * a->row_bytes, w + (two ? r + 1 : r) * a->row_bytes};
        few_chains s = few_begin();
        for (size_t b = 0; b < x->blocks; b++)
            few_pair(f, at, x, b, &s);
        const float32x4_t second[2] = {s.acc[1], s.acc[1]};
        store_tokens(a, s.acc, r, t, x->n);
        if (two)
            store_tokens(a, second, r + 1, t, x->n);
    }
    for (; r < end; r++) {
        const uint8_t *at = w + r * a->row_bytes;
        few_chains s = few_begin();
        for (size_t b = 0; b < x->blocks; b++)
            few_eight(f, &at, x, b, &s);
        store_tokens(a, s.acc, r, t, x->n);
    }
}

/* Any number of tokens: rows that fit in the L2 cache, eight tokens at a time. */
ALWAYS_INLINE void rows_32(const kern_gemm_args *a, const format_32 *f)
{
    if (a->x->n == 1) {
        rows_32_one(a, f);
        return;
    }
    const size_t fit = ROWS_L2_BYTES / a->row_bytes, at_once = fit > 0 ? fit : 1;
    for (size_t r = 0; r < a->rows; r += at_once)
        for (size_t t = 0; t < a->x->n; t += ROWS_TOKENS) {
            const size_t left = a->x->n - t, end = a->rows - r < at_once ? a->rows : r + at_once;
            const tokens_32 x =
                tokens_at(a->x, t, left < ROWS_TOKENS ? left : ROWS_TOKENS, a->scratch);
            rows_32_few(a, f, &x, t, r, end);
        }
}

#endif
