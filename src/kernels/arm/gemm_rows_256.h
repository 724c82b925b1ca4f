/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_rows_256.h - row kernels of the superblock formats: a few tokens, along the row.
 *
 * Include a dot_*.h first. A superblock of a row is unpacked to registers and multiplied by the
 * codes of every token, in the order of memory: no transposition, no panel, one stream of weights.
 * The four lanes of a sum are partial sums. They are integers, so their order is free; ADDP reduces
 * four sums at once. One token: the four sums are four superblocks of a row, and the float chain is
 * scalar. More tokens: they are four tokens, and the lanes of the chain are tokens.
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

/* Four partial sums of scale * code * x. */
ALWAYS_INLINE int32x4_t sum_codes(const format_256 *f, const int8x16_t q[16],
                                  const steps_256 *steps, const int8_t *x)
{
    int32x4_t running = vdupq_n_s32(0), isum = running;
    EACH(g, 8)
    {
        const int8x16_t x0 = vld1q_s8(x + 32 * g), x1 = vld1q_s8(x + 32 * g + 16);
        if (f->groups == 16) {
            running = dot_16(running, q[2 * g], x0);
            isum += running * steps->v[g / 2][g % 2 * 2];
            running = dot_16(running, q[2 * g + 1], x1);
            isum += running * steps->v[g / 2][g % 2 * 2 + 1];
        } else {
            running = dot_32(running, q[2 * g], q[2 * g + 1], x0, x1, f->narrow);
            isum += running * steps->v[g / 4][g % 4];
        }
    }
    return isum;
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

/* Sums of four superblocks of a row. */
typedef struct sums_256 {
    int32x4_t isum[4], msum[4];
} sums_256;

/* The activations of the token from one superblock on. */
typedef struct token_256 {
    const int8_t *q;
    const float *d;
    const int16_t *sum;
} token_256;

ALWAYS_INLINE void one_superblock(const format_256 *f, const uint8_t *block, const token_256 *x,
                                  const int i, sums_256 *s)
{
    int8x16_t q[16];
    head_256 head;
    f->head(block, &head);
    f->codes(block, q);
    const steps_256 steps = scale_steps(f, &head);
    s->isum[i] = sum_codes(f, q, &steps, x->q + i * QUANT_SUPERBLOCK);
    if (f->has_min)
        s->msum[i] = sum_minima(f, &head, x->sum + i * N_SUMS);
}

/* Four steps of the chain of a row. */
ALWAYS_INLINE float one_chain_4(const format_256 *f, const uint8_t *block, const float *dx,
                                const sums_256 *s, float acc)
{
    const float32x4_t x = vld1q_f32(dx);
    const float32x4_t d = vmulq_f32(load_4_halves(block + f->d_at, f->bytes), x);
    const float32x4_t isum = sum_to_float(reduce_4(s->isum), f->fraction);
    float32x4_t dmin = x, msum = x;
    if (f->has_min) {
        dmin = vmulq_f32(load_4_halves(block + f->dmin_at, f->bytes), x);
        msum = vcvtq_f32_s32(reduce_4(s->msum));
    }
#define STEP(i)                                                                                    \
    acc = vfmas_laneq_f32(acc, vgetq_lane_f32(d, i), isum, i);                                     \
    if (f->has_min)                                                                                \
    acc = vfmss_laneq_f32(acc, vgetq_lane_f32(dmin, i), msum, i)
    STEP(0);
    STEP(1);
    STEP(2);
    STEP(3);
#undef STEP
    return acc;
}

/* One step of the chain of a row. */
ALWAYS_INLINE float one_chain(const format_256 *f, const uint8_t *block, const token_256 *x,
                              float acc)
{
    sums_256 s;
    one_superblock(f, block, x, 0, &s);
    const float32x4_t isum = sum_to_float(vdupq_n_s32(vaddvq_s32(s.isum[0])), f->fraction);
    acc =
        fmaf(vgetq_lane_f32(load_half(block + f->d_at), 0) * x->d[0], vgetq_lane_f32(isum, 0), acc);
    if (f->has_min)
        acc = fmaf(-(vgetq_lane_f32(load_half(block + f->dmin_at), 0) * x->d[0]),
                   (float)vaddvq_s32(s.msum[0]), acc);
    return acc;
}

ALWAYS_INLINE void rows_256_one(const kern_gemm_args *a, const format_256 *f)
{
    const size_t blocks = a->x->cols / QUANT_SUPERBLOCK;
    const token_256 first = {a->x->q, a->x->d, a->x->sum};
    for (size_t r = 0; r < a->rows; r++) {
        const uint8_t *block = (const uint8_t *)a->w + r * a->row_bytes;
        token_256 x = first;
        float acc = 0.0f;
        size_t left = blocks;
        for (; left >= 4; left -= 4, block += 4 * f->bytes) {
            sums_256 s;
            EACH(i, 4)
            one_superblock(f, block + (size_t)i * f->bytes, &x, i, &s);
            acc = one_chain_4(f, block, x.d, &s, acc);
            x = (token_256){x.q + 4 * QUANT_SUPERBLOCK, x.d + 4, x.sum + 4 * N_SUMS};
        }
        for (; left > 0; left--, block += f->bytes) {
            acc = one_chain(f, block, &x, acc);
            x = (token_256){x.q + QUANT_SUPERBLOCK, x.d + 1, x.sum + N_SUMS};
        }
        a->y[r] = acc;
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
    int8x16_t q[16];
    head_256 head;
    f->head(block, &head);
    f->codes(block, q);
    const steps_256 steps = scale_steps(f, &head);
    for (size_t t = 0; t < x->n; t++) {
        isum[t] = sum_codes(f, q, &steps, x->q + t * x->cols + b * QUANT_SUPERBLOCK);
        if (f->has_min)
            msum[t] = sum_minima(f, &head, x->sum + (t * x->blocks + b) * N_SUMS);
    }
    for (size_t t = x->n; t % 4 != 0; t++)
        isum[t] = msum[t] = vdupq_n_s32(0);
    const float32x4_t d = load_half(block + f->d_at);
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
