/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_gemm_256.h - GEMM and GEMV with superblock formats, AVX2 and AVX-VNNI.
 *
 * Include a dot_*.h first. isum = sum_s scale_s * (sum of q x over group s). The codes of a group
 * are summed in one or two pieces, and each sum is multiplied by its scale. With AVX2 each 16-bit
 * half of a lane gets half of the columns of a piece, and its sum must fit (|x| <= 127). AVX-VNNI
 * adds in 32 bits; `narrow` sums fit in 16 bits and need one instruction fewer:
 *
 *     format   codes   offset   piece, AVX2   largest |sum|             AVX-VNNI
 *     Q2_K     0 .. 3     -        16          8 *  3 * 127 =  3,048    16 narrow
 *     Q3_K     0 .. 7     4        16          8 *  4 * 127 =  4,064    16 narrow
 *     Q4_K     0 .. 15    -        32         16 * 15 * 127 = 30,480    32 narrow, offset 8
 *     Q5_K     0 .. 31    -        16          8 * 31 * 127 = 31,496    32
 *     Q6_K     0 .. 63   32        16          8 * 32 * 127 = 32,512    16
 *     IQ4_XS   1 .. 241 128     gemm_wide_avx2.c                        32
 *     i8_256   0 .. 255 128     gemm_wide_avx2.c                        16
 *
 * Q4_K has no offset. With AVX-VNNI its sums start at -8 * (sum of x), and 8 * scale * (sum of x) is
 * added back to isum, with four vpdpwssd per superblock.
 *
 * GEMM unpacks a superblock of 16 rows once to slabs, for all tokens of a chunk. GEMV multiplies
 * the codes as they are unpacked, 8 rows at a time.
 */
#ifndef MOTE_KERNELS_X86_BODY_GEMM_256_H
#define MOTE_KERNELS_X86_BODY_GEMM_256_H

#include "kernels/x86/gemm_unpack_lanes.h"

enum { N_SUMS = 16 /* entries of kern_act.sum per superblock */ };

/* One superblock of 8 rows, unpacked. */
typedef struct slab_256 {
    __m256i q[SLAB_VECTORS];
    head_256 head;
} slab_256;

typedef struct format_256 {
    head_256_fn *head;
    codes_256_fn *codes;
    int block_bytes;
    int largest, offset; /* largest |code - offset| */
    int scale_cols;      /* columns per scale */
    int min_pairs;       /* pairs of minima: 0, 4 (one minimum per 32 values) or 8 (per 16) */
} format_256;

static const format_256 format_q2_k = {
    head_q2_k, codes_q2_k, sizeof(quant_q2_k), LARGEST_Q2_K, 0, 16, 8,
};
static const format_256 format_q3_k = {
    head_q3_k, codes_q3_k, sizeof(quant_q3_k), LARGEST_Q3_K, 4, 16, 0,
};
static const format_256 format_q4_k = {
    head_q4_k, codes_q4_k, sizeof(quant_q4_k), LARGEST_Q4_K, DOT_OFFSET_Q4_K, 32, 4,
};
static const format_256 format_q5_k = {
    head_q4_k, codes_q5_k, sizeof(quant_q5_k), LARGEST_Q5_K, 0, 32, 4,
};
static const format_256 format_q6_k = {
    head_q6_k, codes_q6_k, sizeof(quant_q6_k), LARGEST_Q6_K, 32, 16, 0,
};

/* Activations of consecutive tokens at one superblock. Strides are between tokens. */
typedef struct tile_x {
    const int8_t *q;      /* [256] */
    const int32_t *start; /* [16]: start values of the sums of the pieces */
    const int16_t *sum;   /* [2 * min_pairs]: sums that are multiplied by the minima */
    const float *d;
    size_t q_stride, start_stride, sum_stride, d_stride;
    size_t n; /* tokens */
} tile_x;

typedef void gemm_tiles_fn(const slab_256 *w, const tile_x *x, const tile_y *y);
typedef void unpack_fn(const uint8_t *block, size_t stride, slab_256 *out);
typedef __m256 gemv_fn(const uint8_t *block, size_t stride, const tile_x *x, __m256 acc);

/* ---- tiles: one superblock of a panel, up to three tokens ---- */

ALWAYS_INLINE int piece_cols(const format_256 *f)
{
    return dot_piece(f->scale_cols, f->largest);
}

/* sum[g][t] = sum of piece s. */
ALWAYS_INLINE void sum_piece(const format_256 *f, const slab_256 *w, const tile_x *x, int nt, int s,
                             __m256i sum[GROUPS][TILE])
{
    const int vectors = piece_cols(f) / 4;
    EACH(k, vectors)
    {
        const __m256i w0 = w[0].q[s * vectors + k], w1 = w[1].q[s * vectors + k];
        EACH(t, nt)
        {
            const __m256i codes = set1_at(x->q + t * x->q_stride + 4 * (s * vectors + k));
            if (k == 0 && f->offset == 0) {
                sum[0][t] = dot_first(w0, codes);
                sum[1][t] = dot_first(w1, codes);
                continue;
            }
            if (k == 0)
                sum[0][t] = sum[1][t] = set1_at(x->start + t * x->start_stride + s);
            sum[0][t] = dot_next(sum[0][t], w0, codes);
            sum[1][t] = dot_next(sum[1][t], w1, codes);
        }
    }
}

/* One chain step of 8 outputs. */
ALWAYS_INLINE __m256 chain_step(const format_256 *f, const head_256 *w, __m256 dx, __m256i isum,
                                __m256i msum, __m256 acc)
{
    acc = _mm256_fmadd_ps(_mm256_mul_ps(w->d, dx), _mm256_cvtepi32_ps(isum), acc);
    if (f->min_pairs > 0)
        acc = _mm256_fnmadd_ps(_mm256_mul_ps(w->dmin, dx), _mm256_cvtepi32_ps(msum), acc);
    return acc;
}

ALWAYS_INLINE __m256i sum_minima(const format_256 *f, const head_256 *w, const int16_t *sum)
{
    __m256i msum = _mm256_setzero_si256();
    EACH(p, f->min_pairs)
    {
        msum = dot_add_pairs(msum, w->min[p], set1_at(sum + 2 * p));
    }
    return msum;
}

/* Adds back an offset that the format does not have: only formats with minima lack one. */
ALWAYS_INLINE __m256i add_offset(const format_256 *f, const head_256 *w, const int16_t *sum,
                                 __m256i isum)
{
    if (f->offset == 0)
        return isum;
    EACH(p, f->min_pairs)
    {
        isum = dot_add_pairs(isum, w->added[p], set1_at(sum + 2 * p));
    }
    return isum;
}

/* One superblock, nt tokens. f and nt are compile-time constants after inlining. */
ALWAYS_INLINE void gemm_tile(const format_256 *f, const slab_256 *w, const tile_x *x, int nt,
                             const tile_y *out)
{
    __m256i isum[GROUPS][TILE], sum[GROUPS][TILE];
    EACH(t, nt)
    {
        isum[0][t] = isum[1][t] = _mm256_setzero_si256();
    }
    const int piece = piece_cols(f);
    for (int s = 0; s < SLAB_COLS / piece; s++) {
        sum_piece(f, w, x, nt, s, sum);
        EACH(t, nt)
        {
            EACH(g, GROUPS)
            {
                isum[g][t] =
                    dot_add_scaled(isum[g][t], sum[g][t],
                                   w[g].head.scale[s * piece / f->scale_cols], piece, f->largest);
            }
        }
    }
    EACH(t, nt)
    {
        const __m256 dx = _mm256_set1_ps(x->d[t * x->d_stride]);
        EACH(g, GROUPS)
        {
            const int16_t *sum_x = x->sum + t * x->sum_stride;
            const __m256i msum = sum_minima(f, &w[g].head, sum_x);
            isum[g][t] = add_offset(f, &w[g].head, sum_x, isum[g][t]);
            const __m256 acc = load_chains(out, (size_t)t, (size_t)g);
            store_chains(out, (size_t)t, (size_t)g,
                         chain_step(f, &w[g].head, dx, isum[g][t], msum, acc));
        }
    }
}

/* One superblock of a panel, all tokens of x. */
ALWAYS_INLINE void gemm_tiles(const format_256 *f, const slab_256 *w, tile_x x, tile_y y)
{
    for (size_t n; x.n > 0; x.n -= n) {
        n = next_tile(x.n);
        switch (n) {
        case 1: gemm_tile(f, w, &x, 1, &y); break;
        case 2: gemm_tile(f, w, &x, 2, &y); break;
        default: gemm_tile(f, w, &x, TILE, &y); break;
        }
        x.q += n * x.q_stride;
        x.start += n * x.start_stride;
        x.sum += n * x.sum_stride;
        x.d += n * x.d_stride;
        y.y += n * y.stride;
    }
}

/* ---- unpacking to a slab, or GEMV ---- */

/* Stores the codes of 16 columns, from column `at` on, in a slab. */
ALWAYS_INLINE void store_codes(void *to, int at, const __m256i q[4])
{
    slab_256 *slab = to;
    EACH(i, 4)
    {
        slab->q[at / 4 + i] = q[i];
    }
}

typedef struct gemv_sum {
    const format_256 *format;
    head_256 head;
    const tile_x *x;
    __m256i isum;
} gemv_sum;

ALWAYS_INLINE void gemv_codes(void *to, int at, const __m256i q[4])
{
    gemv_sum *s = to;
    const format_256 *f = s->format;
    const int piece = piece_cols(f);
    const bool starts = f->offset != 0 && at % piece == 0;
    __m256i sum = starts ? set1_at(s->x->start + at / piece) : _mm256_setzero_si256();
    EACH(i, 4)
    {
        const __m256i codes = set1_at(s->x->q + at + 4 * i);
        sum = i == 0 && !starts ? dot_first(q[i], codes) : dot_next(sum, q[i], codes);
    }
    s->isum = dot_add_scaled(s->isum, sum, s->head.scale[at / f->scale_cols], 16, f->largest);
}

/* One superblock of 8 rows, one token: one chain step. */
ALWAYS_INLINE __m256 gemv_superblock(const format_256 *f, const uint8_t *block, size_t stride,
                                     const tile_x *x, __m256 acc)
{
    gemv_sum s = {.format = f, .x = x, .isum = _mm256_setzero_si256()};
    f->head(block, stride, &s.head);
    f->codes(block, stride, gemv_codes, &s);
    const __m256i msum = sum_minima(f, &s.head, x->sum);
    s.isum = add_offset(f, &s.head, x->sum, s.isum);
    return chain_step(f, &s.head, _mm256_set1_ps(x->d[0]), s.isum, msum, acc);
}

/* ---- activations ---- */

/* A chunk of tokens; values derived from the activations, per token and superblock. */
typedef struct chunk {
    size_t t0, n;
    int32_t *start; /* [16] */
    int16_t *sum;   /* [8]: sums of 32 codes, for four pairs of minima */
} chunk;

enum { PREPARED_BYTES = 16 * sizeof(int32_t) + 8 * sizeof(int16_t) };

static void chunk_prepare_sums(const int16_t *sum, int16_t sums_of_32[8])
{
    const __m256i sums = _mm256_loadu_si256((const __m256i *)sum);
    const __m256i pairs = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(pairs, pairs), 0x08);
    _mm_storeu_si128((__m128i *)sums_of_32, _mm256_castsi256_si128(packed));
}

static void chunk_prepare(const format_256 *f, const kern_act *x, chunk *c, unsigned char *room)
{
    const size_t blocks = x->cols / SLAB_COLS;
    c->start = (int32_t *)room;
    c->sum = (int16_t *)(room + c->n * blocks * 16 * sizeof(int32_t));
    for (size_t i = 0; i < c->n * blocks; i++) {
        const size_t from = c->t0 * blocks + i;
        if (f->offset != 0)
            dot_starts_256(x->q + from * SLAB_COLS, x->sum + from * N_SUMS, f->offset,
                           piece_cols(f), c->start + i * 16);
        if (f->min_pairs == 4)
            chunk_prepare_sums(x->sum + from * N_SUMS, c->sum + i * 8);
    }
}

/* The activations of the chunk at superblock b. */
static tile_x activations_at(const format_256 *f, const kern_act *x, const chunk *c, size_t b)
{
    const size_t blocks = x->cols / SLAB_COLS;
    const size_t from = c->t0 * blocks + b;
    const bool raw = f->min_pairs == 8;
    const size_t n_sums = raw ? N_SUMS : N_SUMS / 2;
    return (tile_x){.q = x->q + from * SLAB_COLS,
                    .start = c->start + b * 16,
                    .sum = raw ? x->sum + from * n_sums : c->sum + b * n_sums,
                    .d = x->d + from,
                    .q_stride = x->cols,
                    .start_stride = blocks * 16,
                    .sum_stride = blocks * n_sums,
                    .d_stride = blocks,
                    .n = c->n};
}

/* ---- panels ---- */

typedef struct workspace {
    slab_256 slab[GROUPS];
    uint8_t stage[LANES * 288]; /* one block of each of the last rows, at most 276 bytes each */
    unsigned char buffer[];     /* up to KERN_SCRATCH_BYTES: prepared activations */
} workspace;

/* The functions of a format, specialised by inlining. */
typedef struct kernel_256 {
    const format_256 *format;
    unpack_fn *unpack;
    gemm_tiles_fn *multiply;
    gemv_fn *gemv_sum;
} kernel_256;

/* Rows r0 .. r0+15 (fewer at the end), all tokens of a chunk. */
static void gemm_panel_256(const kern_gemm_args *a, const kernel_256 *p, const chunk *c, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)p->format->block_bytes;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    const uint8_t *next = w + PANEL * a->row_bytes;
    for (size_t b = 0; b < a->x->cols / SLAB_COLS; b++, w += bytes) {
        for (size_t g = 0; g < GROUPS; g++) {
            const uint8_t *block = w + g * LANES * a->row_bytes;
            const size_t left = rows > g * LANES ? rows - g * LANES : 0;
            if (left >= LANES)
                p->unpack(block, a->row_bytes, &ws->slab[g]);
            else
                p->unpack(stage_rows(block, a->row_bytes, left, bytes, ws->stage), bytes,
                          &ws->slab[g]);
        }
        prefetch_bytes(next, PANEL * bytes);
        next += PANEL * bytes;
        const tile_x x = activations_at(p->format, a->x, c, b);
        const tile_y y = {a->y + c->t0 * a->y_stride + r0, a->y_stride, rows, b == 0};
        p->multiply(ws->slab, &x, &y);
    }
}

/* GEMV: rows r0 .. r0+7 (fewer at the end). */
static void gemv_rows_256(const kern_gemm_args *a, const kernel_256 *p, const chunk *c, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)p->format->block_bytes;
    const size_t blocks = a->x->cols / SLAB_COLS;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    const uint8_t *next = w + LANES * a->row_bytes;
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < blocks; b++, w += bytes, next += LANES * bytes) {
        const tile_x x = activations_at(p->format, a->x, c, b);
        prefetch_bytes(next, LANES * bytes);
        if (rows >= LANES)
            acc = p->gemv_sum(w, a->row_bytes, &x, acc);
        else
            acc = p->gemv_sum(stage_rows(w, a->row_bytes, rows, bytes, ws->stage), bytes, &x, acc);
    }
    _mm256_maskstore_ps(a->y + r0, row_mask(rows, 0), acc);
}

static void gemm_256(const kern_gemm_args *a, const kernel_256 *p)
{
    workspace *ws = a->scratch;
    const size_t blocks = a->x->cols / SLAB_COLS;
    const size_t at_once =
        chunk_tokens(a->x->cols, blocks * PREPARED_BYTES, KERN_SCRATCH_BYTES - sizeof(workspace));
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        chunk c = {.t0 = t0, .n = a->x->n - t0 < at_once ? a->x->n - t0 : at_once};
        chunk_prepare(p->format, a->x, &c, ws->buffer);
        if (a->x->n == 1) {
            for (size_t r0 = 0; r0 < a->rows; r0 += LANES)
                gemv_rows_256(a, p, &c, r0);
        } else {
            for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
                gemm_panel_256(a, p, &c, r0);
        }
    }
}

/* The functions of a format. */
#define GEMM_PANEL(f)                                                                              \
    static void unpack_##f(const uint8_t *block, size_t stride, slab_256 *out)                     \
    {                                                                                              \
        format_##f.head(block, stride, &out->head);                                                \
        format_##f.codes(block, stride, store_codes, out);                                         \
    }                                                                                              \
    static void multiply_##f(const slab_256 *w, const tile_x *x, const tile_y *y)                  \
    {                                                                                              \
        gemm_tiles(&format_##f, w, *x, *y);                                                        \
    }                                                                                              \
    static __m256 one_token_##f(const uint8_t *block, size_t stride, const tile_x *x, __m256 acc)  \
    {                                                                                              \
        return gemv_superblock(&format_##f, block, stride, x, acc);                                \
    }                                                                                              \
    static void gemm_panels_##f(const kern_gemm_args *a)                                           \
    {                                                                                              \
        gemm_256(a, &(kernel_256){&format_##f, unpack_##f, multiply_##f, one_token_##f});          \
    }

/* The kernel of a format at a level. */
#define GEMM(f, level)                                                                             \
    GEMM_PANEL(f)                                                                                  \
    void k_gemm_##f##_##level(const kern_gemm_args *a)                                             \
    {                                                                                              \
        gemm_panels_##f(a);                                                                        \
    }

#endif
