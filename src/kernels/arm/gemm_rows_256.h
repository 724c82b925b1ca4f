/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_rows_256.h - row kernels of the superblock formats: a few tokens, along the row.
 *
 * Include a dot_*.h first. A superblock of a row is unpacked to registers and multiplied by the
 * codes of every token, in the order of memory: no transposition, no panel.
 * The four lanes of a sum are partial sums. They are integers, so their order is free; ADDP reduces
 * four sums at once: of four rows for one token, else of four tokens. They are the lanes of the
 * float chain.
 *
 * Scales: isum = sum_g scale_g S_g, with S_g the sum of group g. Let P_g = S_0 + ... + S_g. Then
 * isum = sum_g (scale_g - scale_{g+1}) P_g, where the scale after the last is 0. So one accumulator
 * runs through all groups and never restarts at zero. Integers wrap, and the result fits.
 */
#ifndef MOTE_KERNELS_ARM_GEMM_ROWS_256_H
#define MOTE_KERNELS_ARM_GEMM_ROWS_256_H

#include "kernels/arm/gemm_rows.h"
#include "kernels/arm/gemm_unpack_256.h"
#include "kernels/variants.h"

#include <math.h>

enum { N_SUMS = 16 }; /* entries of kern_act.sum per superblock */

/* d of four superblocks. */
ALWAYS_INLINE float32x4_t load_4_d(const format_256 *f, const uint8_t *const block[4])
{
    if (!f->d_is_f32)
        return load_4_halves(block, f->d_at);
    float32x4_t v = vld1q_dup_f32((const float *)(block[0] + f->d_at));
    v = vld1q_lane_f32((const float *)(block[1] + f->d_at), v, 1);
    v = vld1q_lane_f32((const float *)(block[2] + f->d_at), v, 2);
    return vld1q_lane_f32((const float *)(block[3] + f->d_at), v, 3);
}

/* d of a superblock in all lanes. */
ALWAYS_INLINE float32x4_t load_d(const format_256 *f, const uint8_t *block)
{
    return f->d_is_f32 ? vld1q_dup_f32((const float *)(block + f->d_at))
                       : load_half(block + f->d_at);
}

/* scale_g - scale_{g+1} as 32-bit lanes. */
typedef struct steps_256 {
    int32x4_t v[4];
} steps_256;

ALWAYS_INLINE steps_256 scale_steps(const format_256 *f, const head_256 *h)
{
    const int16x8_t zero = vdupq_n_s16(0), *s = h->scale;
    steps_256 out;
    const int16x8_t first = vsubq_s16(s[0], vextq_s16(s[0], f->groups == 16 ? s[1] : zero, 1));
    out.v[0] = vmovl_s16(vget_low_s16(first));
    out.v[1] = vmovl_high_s16(first);
    if (f->groups == 16) {
        const int16x8_t second = vsubq_s16(s[1], vextq_s16(s[1], zero, 1));
        out.v[2] = vmovl_s16(vget_low_s16(second));
        out.v[3] = vmovl_high_s16(second);
    }
    return out;
}

/* Sums of a superblock, four partial sums each. */
typedef struct sum_256 {
    int32x4_t running; /* code * x of all groups so far */
    int32x4_t isum;    /* scale * code * x */
} sum_256;

/* Adds scale * code * x of a half superblock to four partial sums. */
ALWAYS_INLINE void sum_half(const format_256 *f, const int8x16_t q[8], const int8x16_t x[8],
                            const steps_256 *steps, const int half, sum_256 *s)
{
    EACH(i, 4) /* 32 columns */
    {
        const int g = 4 * half + i;
        if (f->groups == 16) {
            s->running = dot_16(s->running, q[2 * i], x[2 * i]);
            s->isum += s->running * steps->v[g / 2][g % 2 * 2];
            IN_ORDER(s->running, s->isum);
            s->running = dot_16(s->running, q[2 * i + 1], x[2 * i + 1]);
            s->isum += s->running * steps->v[g / 2][g % 2 * 2 + 1];
        } else {
            s->running =
                dot_32(s->running, q[2 * i], q[2 * i + 1], x[2 * i], x[2 * i + 1], f->narrow);
            s->isum += s->running * steps->v[g / 4][g % 4];
        }
        IN_ORDER(s->running, s->isum);
    }
}

ALWAYS_INLINE void load_half_row(const int8_t *x, int8x16_t out[8])
{
    EACH(i, 8)
    out[i] = vld1q_s8(x + 16 * i);
}

/* Four partial sums of min * (sum of x). */
ALWAYS_INLINE int32x4_t sum_minima(const format_256 *f, const head_256 *h, const int16_t *sum)
{
    const int16x8_t first = vld1q_s16(sum), second = vld1q_s16(sum + 8);
    if (f->groups == 8) {
        const int16x8_t pairs = vpaddq_s16(first, second);
        return vmlal_high_s16(vmull_s16(vget_low_s16(h->min[0]), vget_low_s16(pairs)), h->min[0],
                              pairs);
    }
    int32x4_t msum = vmull_s16(vget_low_s16(h->min[0]), vget_low_s16(first));
    msum = vmlal_high_s16(msum, h->min[0], first);
    msum = vmlal_s16(msum, vget_low_s16(h->min[1]), vget_low_s16(second));
    return vmlal_high_s16(msum, h->min[1], second);
}

/* ---- one token ---- */

/* The activations of the token from one superblock on. */
typedef struct token_256 {
    const int8_t *q;
    const float *d;
    const int16_t *sum;
} token_256;

/* A superblock of four rows: one step of their chains. */
ALWAYS_INLINE float32x4_t four_superblocks(const format_256 *f, const uint8_t *const block[4],
                                           const token_256 *x, float32x4_t acc)
{
    steps_256 steps[4];
    sum_256 s[4];
    int32x4_t isum[4], msum[4];
    EACH(i, 4)
    {
        head_256 head;
        f->head(block[i], &head);
        steps[i] = scale_steps(f, &head);
        if (f->has_min)
            msum[i] = sum_minima(f, &head, x->sum);
        s[i].running = s[i].isum = vdupq_n_s32(0);
    }
    EACH(half, 2)
    {
        int8x16_t codes[8], q[8];
        load_half_row(x->q + 128 * half, codes);
        EACH(i, 4)
        {
            f->codes(block[i], half, q);
            sum_half(f, q, codes, &steps[i], half, &s[i]);
        }
    }
    EACH(i, 4)
    isum[i] = s[i].isum;
    const float32x4_t d = vmulq_n_f32(load_4_d(f, block), x->d[0]);
    acc = vfmaq_f32(acc, d, sum_to_float(reduce_4(isum), f->fraction));
    if (f->has_min) {
        const float32x4_t dmin = vmulq_n_f32(load_4_halves(block, f->dmin_at), x->d[0]);
        acc = vfmsq_f32(acc, dmin, vcvtq_f32_s32(reduce_4(msum)));
    }
    return acc;
}

/* Four rows at a time, so that they share the loads of activations and a chain has four lanes. */
ALWAYS_INLINE void rows_256_one(const kern_gemm_args *a, const format_256 *f)
{
    const size_t blocks = a->x->cols / QUANT_SUPERBLOCK;
    const token_256 first = {a->x->q, a->x->d, a->x->sum};
    for (size_t r = 0; r < a->rows; r += 4) {
        const uint8_t *block[4];
        rows_at(a, r, block);
        token_256 x = first;
        float32x4_t acc = vdupq_n_f32(0.0f);
        for (size_t left = blocks; left > 0; left--) {
            acc = four_superblocks(f, block, &x, acc);
            x = (token_256){x.q + QUANT_SUPERBLOCK, x.d + 1, x.sum + N_SUMS};
            EACH(i, 4)
            block[i] += f->bytes;
        }
        store_rows(a, acc, r);
    }
}

/* ---- two to eight tokens ---- */

/* Tokens t .. t+n-1 of the activations. */
typedef struct tokens_256 {
    const int8_t *q;
    const int16_t *sum;
    size_t cols, blocks, n;
    const float *d; /* [blocks][ROWS_TOKENS], 0 after the last token */
} tokens_256;

static inline tokens_256 tokens_at(const kern_act *x, size_t t, size_t n, float *d)
{
    const size_t blocks = x->cols / QUANT_SUPERBLOCK;
    for (size_t b = 0; b < blocks; b++)
        for (size_t i = 0; i < ROWS_TOKENS; i++)
            d[b * ROWS_TOKENS + i] = i < n ? x->d[(t + i) * blocks + b] : 0.0f;
    return (tokens_256){x->q + t * x->cols, x->sum + t * blocks * N_SUMS, x->cols, blocks, n, d};
}

/* One superblock of a row: one step of the chain of every token. */
ALWAYS_INLINE void few_superblock(const format_256 *f, const uint8_t *block, const tokens_256 *x,
                                  size_t b, float32x4_t acc[2])
{
    int32x4_t isum[ROWS_TOKENS], msum[ROWS_TOKENS];
    int8x16_t q[2][8];
    head_256 head;
    f->head(block, &head);
    f->codes(block, 0, q[0]);
    f->codes(block, 1, q[1]);
    const steps_256 steps = scale_steps(f, &head);
    for (size_t t = 0; t < x->n; t++) {
        sum_256 s = {vdupq_n_s32(0), vdupq_n_s32(0)};
        EACH(half, 2)
        {
            int8x16_t codes[8];
            load_half_row(x->q + t * x->cols + b * QUANT_SUPERBLOCK + 128 * half, codes);
            sum_half(f, q[half], codes, &steps, half, &s);
        }
        isum[t] = s.isum;
        if (f->has_min)
            msum[t] = sum_minima(f, &head, x->sum + (t * x->blocks + b) * N_SUMS);
    }
    for (size_t t = x->n; t % 4 != 0; t++)
        isum[t] = msum[t] = vdupq_n_s32(0);
    const float32x4_t d = load_d(f, block);
    EACH(h, 2)
    {
        if (x->n <= 4 * (size_t)h)
            break;
        const float32x4_t dx = vld1q_f32(x->d + b * ROWS_TOKENS + 4 * h);
        acc[h] =
            vfmaq_f32(acc[h], vmulq_f32(d, dx), sum_to_float(reduce_4(isum + 4 * h), f->fraction));
        if (f->has_min) {
            const float32x4_t dmin = load_half(block + f->dmin_at);
            acc[h] = vfmsq_f32(acc[h], vmulq_f32(dmin, dx), vcvtq_f32_s32(reduce_4(msum + 4 * h)));
        }
    }
}

/* Rows r .. end-1 of up to eight tokens from t on. */
ALWAYS_INLINE void rows_256_few(const kern_gemm_args *a, const format_256 *f, const tokens_256 *x,
                                size_t t, size_t r, size_t end)
{
    for (; r < end; r++) {
        const uint8_t *block = (const uint8_t *)a->w + r * a->row_bytes;
        float32x4_t acc[2] = {vdupq_n_f32(0.0f), vdupq_n_f32(0.0f)};
        for (size_t b = 0; b < x->blocks; b++, block += f->bytes)
            few_superblock(f, block, x, b, acc);
        store_tokens(a, acc, r, t, x->n);
    }
}

/* Any number of tokens: rows that fit in the L2 cache, eight tokens at a time. */
ALWAYS_INLINE void rows_256(const kern_gemm_args *a, const format_256 *f)
{
    if (a->x->n == 1) {
        rows_256_one(a, f);
        return;
    }
    const size_t fit = ROWS_L2_BYTES / a->row_bytes, at_once = fit > 0 ? fit : 1;
    for (size_t r = 0; r < a->rows; r += at_once)
        for (size_t t = 0; t < a->x->n; t += ROWS_TOKENS) {
            const size_t left = a->x->n - t, end = a->rows - r < at_once ? a->rows : r + at_once;
            const tokens_256 x =
                tokens_at(a->x, t, left < ROWS_TOKENS ? left : ROWS_TOKENS, a->scratch);
            rows_256_few(a, f, &x, t, r, end);
        }
}

#endif
