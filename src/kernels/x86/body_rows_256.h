/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_rows_256.h - row kernels of the superblock formats: 1 to 8 tokens, along the row. AVX2 and
 * AVX-VNNI.
 *
 * Include a dot_*.h first. Superblocks are read in the order of memory, whatever row they belong to:
 * one stream of weights, prefetched, without slabs. A superblock is unpacked once, in registers, and
 * multiplied by the codes of every token. The lanes of a product are partial sums. They are
 * integers, so their order is free, and only the total of a superblock is defined.
 *
 * Activations are copied once per call, in the order of the unpacked codes. Eight totals are reduced
 * together: of eight superblocks for one token, else of the tokens. Heads (d, scales, minima) of
 * eight superblocks are unpacked together. For one token the copy of the activations repeats the
 * first superblocks after the last, so that eight superblocks follow each other in it, also across
 * the end of a row.
 */
#ifndef MOTE_KERNELS_X86_BODY_ROWS_256_H
#define MOTE_KERNELS_X86_BODY_ROWS_256_H

#include "kernels/x86/gemm_unpack_rows.h"

#include <math.h>

typedef struct rows_format {
    rows_heads_fn *heads;
    rows_codes_fn *codes;
    rows_scales_fn *scales;
    rows_source_fn *source;
    size_t block_bytes;
    int sums, offset;
    int min_pairs; /* pairs of minima */
} rows_format;

static const rows_format rows_q4_k = {
    rows_heads_q4_k,
    rows_codes_q4_k,
    rows_scales_q4_k,
    rows_source_q4_k,
    sizeof(quant_q4_k),
    2,
    0,
    4,
};
static const rows_format rows_q5_k = {
    rows_heads_q5_k,
    rows_codes_q5_k,
    rows_scales_q5_k,
    rows_source_q5_k,
    sizeof(quant_q5_k),
    4,
    0,
    4,
};
static const rows_format rows_q6_k = {
    rows_heads_q6_k,
    rows_codes_q6_k,
    rows_scales_q6_k,
    rows_source_q6_k,
    sizeof(quant_q6_k),
    4,
    32,
    0,
};

static const rows_format rows_iq4_xs = {
    rows_heads_iq4_xs,    rows_codes_iq4_xs,
    rows_scales_iq4_xs,   rows_source_iq4_xs,
    sizeof(quant_iq4_xs), 1,
    DOT_WIDE_OFFSET,      0,
};

/* ---- activations ---- */

/* Copied activations: T tokens, n superblocks of each. */
typedef struct rows_x {
    size_t n;
    int8_t *q;      /* [n][T][256] */
    __m256i *start; /* [n][T][sums]: start values of the sums */
    float *d;       /* one token: [n]; else [n][8] */
    int32_t *sum;   /* pairs of 16-bit sums; one token: [pairs][n]; else [n][pairs][8] */
} rows_x;

ALWAYS_INLINE void rows_copy_codes(const rows_format *f, const int8_t *q, int8_t *to,
                                   __m256i *start)
{
    EACH(k, 8)
    {
        EACH(lane, 8)
        {
            memcpy(to + 32 * k + 4 * lane, q + 4 * f->source(k, lane), 4);
        }
    }
    const int each = 8 / f->sums;
    for (int s = 0; f->offset != 0 && s < f->sums; s++)
        start[s] = dot_start(to + 32 * each * s, each, f->offset);
}

/* Sums of groups 2p and 2p + 1 of 32 columns, from sums of 16. */
ALWAYS_INLINE int32_t rows_sum_pair(const int16_t *sum, size_t p)
{
    const int low = sum[4 * p] + sum[4 * p + 1], high = sum[4 * p + 2] + sum[4 * p + 3];
    return (int32_t)((uint32_t)(low & 0xFFFF) | (uint32_t)high << 16);
}

/* The activations of all tokens; n superblocks of each, repeated from the first after the last. */
ALWAYS_INLINE rows_x rows_copy(const rows_format *f, const kern_act *a, size_t n,
                               unsigned char *room)
{
    const size_t T = a->n, blocks = a->cols / SLAB_COLS, lanes = T == 1 ? 1 : ROWS_TOKENS;
    rows_x x = {.n = n, .q = (int8_t *)room};
    x.start = (__m256i *)(x.q + n * T * SLAB_COLS);
    x.d = (float *)(x.start + n * T * (size_t)(f->offset != 0 ? f->sums : 0));
    x.sum = (int32_t *)(x.d + n * lanes);
    if (T > 1)
        memset(x.d, 0, n * lanes * (sizeof(float) + (size_t)f->min_pairs * sizeof(int32_t)));
    for (size_t b = 0; b < n; b++)
        for (size_t t = 0; t < T; t++) {
            const size_t from = t * blocks + b % blocks;
            rows_copy_codes(f, a->q + from * SLAB_COLS, x.q + (b * T + t) * SLAB_COLS,
                            x.start + (b * T + t) * (size_t)f->sums);
            x.d[b * lanes + t] = a->d[from];
            for (size_t p = 0; p < (size_t)f->min_pairs; p++)
                x.sum[T == 1 ? p * n + b : (b * (size_t)f->min_pairs + p) * lanes + t] =
                    rows_sum_pair(a->sum + from * 16, p);
        }
    return x;
}

/* ---- sums ---- */

/* scale * code * x of a superblock, as eight partial sums. */
ALWAYS_INLINE __m256i rows_sum(const rows_format *f, const __m256i q[8],
                               const dot_pair_scale scale[2], const int8_t *x, const __m256i *start)
{
    const int each = 8 / f->sums;
    __m256i isum = _mm256_setzero_si256();
    if (f->sums == 1)
        return dot_lanes(q, x, f->offset != 0 ? start[0] : isum, &scale[0]);
    EACH(p, f->sums / 2)
    {
        __m256i sum[2];
        EACH(s, 2)
        {
            const int from = (2 * p + s) * each;
            sum[s] = f->offset == 0 ? dot_first(q[from], load_256(x + 32 * from))
                                    : dot_next(start[2 * p + s], q[from], load_256(x + 32 * from));
            EACH(k, each - 1)
            {
                sum[s] = dot_next(sum[s], q[from + 1 + k], load_256(x + 32 * (from + 1 + k)));
            }
        }
        isum = p == 0 ? dot_pair(sum[0], sum[1], &scale[p])
                      : _mm256_add_epi32(isum, dot_pair(sum[0], sum[1], &scale[p]));
    }
    return isum;
}

/* ---- one token ---- */

/* Factors of the chain steps of a batch. */
typedef struct rows_steps {
    float d[ROWS_BATCH], isum[ROWS_BATCH], dmin[ROWS_BATCH], msum[ROWS_BATCH];
} rows_steps;

ALWAYS_INLINE void rows_one_steps(const rows_format *f, const uint8_t *block, const rows_x *x,
                                  size_t at, rows_steps *out)
{
    rows_heads h;
    __m256i v[ROWS_BATCH];
    f->heads(block, &h);
    for (size_t i = 0; i < ROWS_BATCH; i++) {
        const uint8_t *p = block + i * f->block_bytes;
        dot_pair_scale scale[2];
        __m256i q[8];
        rows_prefetch(p, f->block_bytes);
        f->scales(h.scale[i], scale);
        f->codes(p, q);
        v[i] = rows_sum(f, q, scale, x->q + (at + i) * SLAB_COLS,
                        x->start + (at + i) * (size_t)f->sums);
    }
    const __m256 dx = _mm256_loadu_ps(x->d + at);
    _mm256_storeu_ps(out->d, _mm256_mul_ps(_mm256_loadu_ps(h.d), dx));
    _mm256_storeu_ps(out->isum, _mm256_cvtepi32_ps(reduce_8(v)));
    if (f->min_pairs == 0)
        return;
    __m256i msum = _mm256_setzero_si256();
    EACH(p, f->min_pairs)
    {
        const __m256i sum = load_256(x->sum + (size_t)p * x->n + at);
        msum = _mm256_add_epi32(msum, _mm256_madd_epi16(load_256(h.min[p]), sum));
    }
    _mm256_storeu_ps(out->dmin, _mm256_mul_ps(_mm256_loadu_ps(h.dmin), dx));
    _mm256_storeu_ps(out->msum, _mm256_cvtepi32_ps(msum));
}

/* The chain steps of n superblocks of a batch. */
ALWAYS_INLINE float rows_one_chain(const rows_format *f, const rows_steps *s, size_t n, rows_at *at,
                                   float acc)
{
    /* The factors are read from memory: gcc would extract each from its vector, with more
     * instructions than the rest of the chain. */
    __asm__ volatile("" ::: "memory");
    for (size_t i = 0; i < n; i++) {
        acc = fmaf(s->d[i], s->isum[i], acc);
        if (f->min_pairs > 0)
            acc = fmaf(-s->dmin[i], s->msum[i], acc);
        if (++at->block < at->blocks)
            continue;
        at->a->y[at->row++] = acc;
        acc = 0.0f;
        at->block = 0;
    }
    return acc;
}

ALWAYS_INLINE float rows_one_batch(const rows_format *f, const uint8_t *block, size_t n,
                                   const rows_x *x, rows_at *at, float sum)
{
    rows_steps s;
    rows_one_steps(f, block, x, at->block, &s);
    return rows_one_chain(f, &s, n, at, sum);
}

/* ---- two to eight tokens ---- */

/* One superblock: one step of the chain of every token, in its lane. */
ALWAYS_INLINE __m256 rows_few_step(const rows_format *f, const uint8_t *block, const rows_heads *h,
                                   size_t i, const rows_x *x, size_t at, size_t T, __m256 acc)
{
    dot_pair_scale scale[2];
    __m256i q[8], v[ROWS_TOKENS];
    rows_prefetch(block, f->block_bytes);
    f->scales(h->scale[i], scale);
    f->codes(block, q);
    for (size_t t = 0; t < T; t++)
        v[t] = rows_sum(f, q, scale, x->q + (at * T + t) * SLAB_COLS,
                        x->start + (at * T + t) * (size_t)f->sums);
    for (size_t t = T; t % 4 != 0; t++)
        v[t] = _mm256_setzero_si256();
    const __m256i isum = T > 4 ? reduce_8(v) : reduce_halves(reduce_4(v));
    const __m256 dx = _mm256_loadu_ps(x->d + at * ROWS_TOKENS);
    acc =
        _mm256_fmadd_ps(_mm256_mul_ps(_mm256_set1_ps(h->d[i]), dx), _mm256_cvtepi32_ps(isum), acc);
    if (f->min_pairs == 0)
        return acc;
    __m256i msum = _mm256_setzero_si256();
    EACH(p, f->min_pairs)
    {
        const __m256i sum =
            load_256(x->sum + (at * (size_t)f->min_pairs + (size_t)p) * ROWS_TOKENS);
        msum = _mm256_add_epi32(msum, _mm256_madd_epi16(_mm256_set1_epi32(h->min[p][i]), sum));
    }
    return _mm256_fnmadd_ps(_mm256_mul_ps(_mm256_set1_ps(h->dmin[i]), dx), _mm256_cvtepi32_ps(msum),
                            acc);
}

/* n superblocks of a batch. Lanes of `sums` are tokens. */
ALWAYS_INLINE void rows_few_batch(const rows_format *f, const uint8_t *block, size_t n,
                                  const rows_x *x, rows_at *at, float sums[ROWS_TOKENS])
{
    const size_t T = at->a->x->n;
    rows_heads h;
    f->heads(block, &h);
    __m256 acc = _mm256_loadu_ps(sums);
    for (size_t i = 0; i < n; i++) {
        acc = rows_few_step(f, block + i * f->block_bytes, &h, i, x, at->block, T, acc);
        if (++at->block < at->blocks)
            continue;
        _mm256_storeu_ps(sums, acc);
        for (size_t t = 0; t < T; t++)
            at->a->y[t * at->a->y_stride + at->row] = sums[t];
        acc = _mm256_setzero_ps();
        at->row++;
        at->block = 0;
    }
    _mm256_storeu_ps(sums, acc);
}

/* ---- the matrix ---- */

/* Bytes of scratch memory, after the stage of the last superblocks. */
ALWAYS_INLINE size_t rows_bytes(const rows_format *f, size_t n, size_t tokens)
{
    const size_t lanes = tokens == 1 ? 1 : ROWS_TOKENS;
    return n * tokens * (SLAB_COLS + (f->offset != 0 ? (size_t)f->sums * 32 : 0)) +
           n * lanes * (1 + (size_t)f->min_pairs) * 4;
}

/* 1 to 8 tokens. False: not done, because there are more or their rows are too long. */
ALWAYS_INLINE bool gemm_rows_256(const rows_format *f, const kern_gemm_args *a)
{
    const size_t blocks = a->x->cols / SLAB_COLS, stage_bytes = ROWS_BATCH * 256;
    const size_t n = a->x->n == 1 ? blocks + ROWS_BATCH - 1 : blocks;
    if (a->x->n > ROWS_TOKENS || stage_bytes + rows_bytes(f, n, a->x->n) > KERN_SCRATCH_BYTES)
        return false;
    unsigned char *stage = a->scratch;
    const rows_x x = rows_copy(f, a->x, n, stage + stage_bytes);
    rows_at at = {.a = a, .blocks = blocks};
    float sums[ROWS_TOKENS] = {0};
    const uint8_t *block = a->w;
    for (size_t left = a->rows * blocks; left > 0; block += ROWS_BATCH * f->block_bytes) {
        const size_t here = left < ROWS_BATCH ? left : ROWS_BATCH;
        if (here < ROWS_BATCH) { /* the last superblocks, without a read past them */
            memset(stage, 0, stage_bytes);
            block = memcpy(stage, block, here * f->block_bytes);
        }
        if (a->x->n == 1)
            sums[0] = rows_one_batch(f, block, here, &x, &at, sums[0]);
        else
            rows_few_batch(f, block, here, &x, &at, sums);
        left -= here;
    }
    return true;
}

/* The kernel of a format with row kernels, at a level. Include body_gemm_256.h before, or define
 * GEMM_PANEL. */
#define GEMM_ROWS(f, level)                                                                        \
    GEMM_PANEL(f)                                                                                  \
    void k_gemm_##f##_##level(const kern_gemm_args *a)                                             \
    {                                                                                              \
        if (!gemm_rows_256(&rows_##f, a))                                                          \
            gemm_panels_##f(a);                                                                    \
    }

#endif
