/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_rows_32.h - row kernels of the formats with blocks of 32: a few tokens, along the row.
 *
 * Include a dot_*.h first. Like gemm_rows_256.h: codes are unpacked to registers, sums are reduced
 * four at a time. One token: four blocks of a row. More tokens: four tokens.
 */
#ifndef MOTE_KERNELS_ARM_GEMM_ROWS_32_H
#define MOTE_KERNELS_ARM_GEMM_ROWS_32_H

#include "kernels/arm/gemm_rows.h"
#include "kernels/arm/gemm_unpack_32.h"
#include "kernels/variants.h"

#include <math.h>

enum { M_AT = 2 }; /* offset of m in a block; d is at 0 */

/* Four partial sums of a block. */
ALWAYS_INLINE int32x4_t sum_block(const format_32 *f, const int8x16_t q[2], const int8_t *x)
{
    return dot_32(vdupq_n_s32(0), q[0], q[1], vld1q_s8(x), vld1q_s8(x + 16), f->narrow);
}

/* ---- one token ---- */

/* The activations of the token from one block on. */
typedef struct token_32 {
    const int8_t *q;
    const float *d;
    const int16_t *sum;
} token_32;

/* Four blocks of a row: four steps of its chain. */
ALWAYS_INLINE float one_chain_4(const format_32 *f, const uint8_t *block, const token_32 *x,
                                float acc)
{
    int32x4_t sum[4];
    EACH(i, 4)
    {
        int8x16_t q[2];
        f->codes(block + (size_t)i * f->bytes, q);
        sum[i] = sum_block(f, q, x->q + i * QUANT_BLOCK);
    }
    const float32x4_t dx = vld1q_f32(x->d);
    const float32x4_t d = vmulq_f32(load_4_halves(block, f->bytes), dx);
    const float32x4_t isum = sum_to_float(reduce_4(sum), f->fraction);
    float32x4_t m = dx, xsum = dx;
    if (f->has_m) {
        m = vmulq_f32(load_4_halves(block + M_AT, f->bytes), dx);
        xsum = vcvtq_f32_s32(vmovl_s16(vld1_s16(x->sum)));
    }
#define STEP(i)                                                                                    \
    acc = vfmas_laneq_f32(acc, vgetq_lane_f32(d, i), isum, i);                                     \
    if (f->has_m)                                                                                  \
    acc = vfmas_laneq_f32(acc, vgetq_lane_f32(m, i), xsum, i)
    STEP(0);
    STEP(1);
    STEP(2);
    STEP(3);
#undef STEP
    return acc;
}

ALWAYS_INLINE float one_chain(const format_32 *f, const uint8_t *block, const token_32 *x,
                              float acc)
{
    int8x16_t q[2];
    f->codes(block, q);
    const int32x4_t sum = vdupq_n_s32(vaddvq_s32(sum_block(f, q, x->q)));
    const float isum = vgetq_lane_f32(sum_to_float(sum, f->fraction), 0);
    acc = fmaf(vgetq_lane_f32(load_half(block), 0) * x->d[0], isum, acc);
    if (f->has_m)
        acc = fmaf(vgetq_lane_f32(load_half(block + M_AT), 0) * x->d[0], (float)x->sum[0], acc);
    return acc;
}

ALWAYS_INLINE void rows_32_one(const kern_gemm_args *a, const format_32 *f)
{
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    const token_32 first = {a->x->q, a->x->d, a->x->sum};
    for (size_t r = 0; r < a->rows; r++) {
        const uint8_t *block = (const uint8_t *)a->w + r * a->row_bytes;
        token_32 x = first;
        float acc = 0.0f;
        size_t left = blocks;
        for (; left >= 4; left -= 4, block += 4 * f->bytes) {
            acc = one_chain_4(f, block, &x, acc);
            x = (token_32){x.q + 4 * QUANT_BLOCK, x.d + 4, x.sum + 4};
        }
        for (; left > 0; left--, block += f->bytes) {
            acc = one_chain(f, block, &x, acc);
            x = (token_32){x.q + QUANT_BLOCK, x.d + 1, x.sum + 1};
        }
        a->y[r] = acc;
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

/* One block of a row: one step of the chain of every token. `halves`: vectors of tokens. */
ALWAYS_INLINE void few_block(const format_32 *f, const uint8_t *block, const tokens_32 *x, size_t b,
                             const int halves, float32x4_t acc[2])
{
    int8x16_t q[2];
    f->codes(block, q);
    const float32x4_t d = load_half(block);
    EACH(h, halves)
    {
        int32x4_t sum[4];
        EACH(i, 4)
        {
            const size_t t = 4 * (size_t)h + (size_t)i;
            /* A missing token repeats the first: its d is 0, and its result is not stored. */
            const int8_t *codes = x->q + (t < x->n ? t : 0) * x->cols + b * QUANT_BLOCK;
            sum[i] = sum_block(f, q, codes);
        }
        const float32x4_t dx = vld1q_f32(x->d + b * ROWS_TOKENS + 4 * h);
        acc[h] = vfmaq_f32(acc[h], vmulq_f32(d, dx), sum_to_float(reduce_4(sum), f->fraction));
        if (f->has_m)
            acc[h] = vfmaq_f32(acc[h], vmulq_f32(load_half(block + M_AT), dx),
                               vld1q_f32(x->sum + b * ROWS_TOKENS + 4 * h));
    }
}

/* Rows r .. end-1 of up to eight tokens from t on. */
ALWAYS_INLINE void rows_32_few(const kern_gemm_args *a, const format_32 *f, const tokens_32 *x,
                               size_t t, size_t r, size_t end)
{
    for (; r < end; r++) {
        const uint8_t *block = (const uint8_t *)a->w + r * a->row_bytes;
        float32x4_t acc[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
        if (x->n <= 4)
            for (size_t b = 0; b < x->blocks; b++, block += f->bytes)
                few_block(f, block, x, b, 1, acc);
        else
            for (size_t b = 0; b < x->blocks; b++, block += f->bytes)
                few_block(f, block, x, b, 2, acc);
        store_tokens(a, acc, r, t, x->n);
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
