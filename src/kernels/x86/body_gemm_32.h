/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body_gemm_32.h - GEMM and GEMV with formats of 32-value blocks, AVX2 and AVX-VNNI.
 *
 * Include a dot_*.h first. Every block ends with a step of the float chains. Its codes are summed in
 * one or two pieces. With AVX2 each 16-bit half of a lane gets half of the columns of a piece, and
 * its sum must fit (|x| <= 127). AVX-VNNI adds in 32 bits, so a block is one piece:
 *
 *     format   codes   offset   piece, AVX2   largest |sum|
 *     Q4_0     0 .. 15    8        32         16 *  8 * 127 = 16,256
 *     Q4_1     0 .. 15    -        32         16 * 15 * 127 = 30,480
 *     Q5_0     0 .. 31   16        32         16 * 16 * 127 = 32,512
 *     Q5_1     0 .. 31    -        16          8 * 31 * 127 = 31,496
 *     Q8_0     0 .. 255 128     gemm_wide_avx2.c
 *     IQ4_NL   1 .. 241 128     gemm_wide_avx2.c
 */
#ifndef MOTE_KERNELS_X86_BODY_GEMM_32_H
#define MOTE_KERNELS_X86_BODY_GEMM_32_H

#include <stddef.h>

enum {
    SLAB_BLOCKS = SLAB_COLS / QUANT_BLOCK,
    BLOCK_VECTORS = QUANT_BLOCK / 4,
    ROW_BYTES = SLAB_BLOCKS * sizeof(quant_q8_0) /* per row of a slab, largest format */
};

/* One block of 8 rows, unpacked: q[k] has columns 4k .. 4k+3. */
typedef struct block_32 {
    __m256i q[BLOCK_VECTORS];
    __m256 d, m;
} block_32;

typedef void unpack_32_fn(const uint8_t *block, size_t stride, block_32 *out);

typedef struct format_32 {
    unpack_32_fn *unpack;
    int block_bytes;
    int largest, offset; /* largest |code - offset| */
    bool has_m;
} format_32;

/* ---- blocks ---- */

/* 32 nibbles of each row. The low nibbles are the first sixteen columns. */
ALWAYS_INLINE void unpack_nibbles(const uint8_t *qs, size_t stride, __m256i q[BLOCK_VECTORS])
{
    __m256i v[4];
    load_columns(qs, stride, v);
    EACH(i, 4)
    {
        q[i] = bits(v[i], 0, 0x0F0F0F0F);
        q[i + 4] = bits(v[i], 4, 0x0F0F0F0F);
    }
}

/* Bits 4k .. 4k+3 of each lane become bit 4 of the four bytes of vector k: a shuffle copies the
 * byte that holds the bit to every byte, and a mask selects the bit. */
ALWAYS_INLINE void add_fifth_bits(__m256i fifth, __m256i q[BLOCK_VECTORS])
{
    const __m256i low = _mm256_set1_epi32(0x08040201), high = _mm256_slli_epi32(low, 4);
    EACH(k, BLOCK_VECTORS)
    {
        const int byte = k / 2 * 0x01010101;
        const __m256i from =
            _mm256_setr_epi32(byte, byte + 0x04040404, byte + 0x08080808, byte + 0x0C0C0C0C, byte,
                              byte + 0x04040404, byte + 0x08080808, byte + 0x0C0C0C0C);
        const __m256i bit = k % 2 == 0 ? low : high;
        const __m256i here = _mm256_and_si256(_mm256_shuffle_epi8(fifth, from), bit);
        const __m256i is_set = _mm256_cmpeq_epi8(here, bit);
        q[k] = _mm256_or_si256(q[k], _mm256_and_si256(is_set, _mm256_set1_epi8(16)));
    }
}

ALWAYS_INLINE void unpack_q4_0(const uint8_t *block, size_t stride, block_32 *out)
{
    __m256i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    unpack_nibbles(block + offsetof(quant_q4_0, qs), stride, out->q);
}

ALWAYS_INLINE void unpack_q4_1(const uint8_t *block, size_t stride, block_32 *out)
{
    __m256i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    out->m = widen_f16(head[0], 16);
    unpack_nibbles(block + offsetof(quant_q4_1, qs), stride, out->q);
}

ALWAYS_INLINE void unpack_q5_0(const uint8_t *block, size_t stride, block_32 *out)
{
    __m256i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    unpack_nibbles(block + offsetof(quant_q5_0, qs), stride, out->q);
    add_fifth_bits(_mm256_or_si256(_mm256_srli_epi32(head[0], 16), _mm256_slli_epi32(head[1], 16)),
                   out->q);
}

ALWAYS_INLINE void unpack_q5_1(const uint8_t *block, size_t stride, block_32 *out)
{
    __m256i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    out->m = widen_f16(head[0], 16);
    unpack_nibbles(block + offsetof(quant_q5_1, qs), stride, out->q);
    add_fifth_bits(head[1], out->q);
}

static const format_32 format_q4_0 = {unpack_q4_0, sizeof(quant_q4_0), 8, 8, false};
static const format_32 format_q4_1 = {unpack_q4_1, sizeof(quant_q4_1), 15, 0, true};
static const format_32 format_q5_0 = {unpack_q5_0, sizeof(quant_q5_0), 16, 16, false};
static const format_32 format_q5_1 = {unpack_q5_1, sizeof(quant_q5_1), 31, 0, true};

/* ---- tiles ---- */

/* Activations of consecutive tokens from one block on. Strides are between tokens. */
typedef struct tile_x {
    const int8_t *q;
    const int32_t *start; /* per block, start value of its sum */
    const int16_t *sum;   /* per block, the sum of the codes; multiplied by m */
    const float *d;
    size_t q_stride, block_stride;
    size_t n; /* tokens */
} tile_x;

typedef void slab_fn(const uint8_t *block, size_t stride, size_t n_blocks, block_32 *out);
typedef void gemm_tiles_fn(block_32 *const w[GROUPS], size_t n_blocks, const tile_x *x,
                           const tile_y *y);
typedef __m256 gemv_fn(const uint8_t *block, size_t stride, const tile_x *x, __m256 acc);

/* sum + w * codes at step k of a block. At the end of each piece adds the sum to *isum. */
ALWAYS_INLINE __m256i sum_step(const format_32 *f, int k, __m256i w, __m256i codes,
                               const int32_t *start, __m256i sum, __m256i *isum)
{
    const int vectors = dot_piece(QUANT_BLOCK, f->largest) / 4;
    if (k % vectors != 0)
        sum = dot_next(sum, w, codes);
    else
        sum = f->offset == 0 ? dot_first(w, codes) : dot_next(set1_at(start), w, codes);
    if (k % vectors == vectors - 1)
        *isum = dot_add(k < vectors ? _mm256_setzero_si256() : *isum, sum);
    return sum;
}

/* One chain step of 8 outputs. */
ALWAYS_INLINE __m256 chain_step(const format_32 *f, const block_32 *w, __m256i isum, float dx,
                                int16_t xsum, __m256 acc)
{
    const __m256 scale = _mm256_set1_ps(dx);
    acc = _mm256_fmadd_ps(_mm256_mul_ps(w->d, scale), _mm256_cvtepi32_ps(isum), acc);
    if (f->has_m)
        acc = _mm256_fmadd_ps(_mm256_mul_ps(w->m, scale), _mm256_set1_ps((float)xsum), acc);
    return acc;
}

/* The slabs of a panel, nt tokens. f and nt are compile-time constants after inlining. */
ALWAYS_INLINE void gemm_tile(const format_32 *f, block_32 *const w[GROUPS], size_t n_blocks,
                             const tile_x *x, int nt, const tile_y *out)
{
    __m256 acc[GROUPS][TILE];
    __m256i sum[GROUPS][TILE], isum[GROUPS][TILE];
    EACH(t, nt)
    {
        acc[0][t] = load_chains(out, (size_t)t, 0);
        acc[1][t] = load_chains(out, (size_t)t, 1);
    }
    for (size_t b = 0; b < n_blocks; b++) {
        EACH(k, BLOCK_VECTORS)
        {
            EACH(t, nt)
            {
                const __m256i codes = set1_at(x->q + t * x->q_stride + b * QUANT_BLOCK + 4 * k);
                const int32_t *start = x->start + t * x->block_stride + b;
                EACH(g, GROUPS)
                {
                    sum[g][t] = sum_step(f, k, w[g][b].q[k], codes, start, sum[g][t], &isum[g][t]);
                }
            }
        }
        EACH(t, nt)
        {
            const size_t at = t * x->block_stride + b;
            EACH(g, GROUPS)
            {
                acc[g][t] = chain_step(f, &w[g][b], isum[g][t], x->d[at], x->sum[at], acc[g][t]);
            }
        }
    }
    EACH(t, nt)
    {
        store_chains(out, (size_t)t, 0, acc[0][t]);
        store_chains(out, (size_t)t, 1, acc[1][t]);
    }
}

/* The slabs of a panel, all tokens of x. */
ALWAYS_INLINE void gemm_tiles(const format_32 *f, block_32 *const w[GROUPS], size_t n_blocks,
                              tile_x x, tile_y y)
{
    for (size_t n; x.n > 0; x.n -= n) {
        n = next_tile(x.n);
        switch (n) {
        case 1: gemm_tile(f, w, n_blocks, &x, 1, &y); break;
        case 2: gemm_tile(f, w, n_blocks, &x, 2, &y); break;
        default: gemm_tile(f, w, n_blocks, &x, TILE, &y); break;
        }
        x.q += n * x.q_stride;
        x.start += n * x.block_stride;
        x.sum += n * x.block_stride;
        x.d += n * x.block_stride;
        y.y += n * y.stride;
    }
}

/* One block of 8 rows, one token: one chain step. */
ALWAYS_INLINE __m256 gemv_block(const format_32 *f, const uint8_t *block, size_t stride,
                                const tile_x *x, __m256 acc)
{
    block_32 w;
    f->unpack(block, stride, &w);
    __m256i sum = _mm256_setzero_si256(), isum = sum;
    EACH(k, BLOCK_VECTORS)
    {
        sum = sum_step(f, k, w.q[k], set1_at(x->q + 4 * k), x->start, sum, &isum);
    }
    return chain_step(f, &w, isum, x->d[0], x->sum[0], acc);
}

/* ---- panels ---- */

typedef struct workspace {
    block_32 slab[GROUPS][SLAB_BLOCKS];
    uint8_t stage[LANES * ROW_BYTES]; /* blocks of a slab, of the last rows */
    int32_t start[];                  /* of a chunk of tokens: [n][cols / 32] */
} workspace;

/* The functions of a format, specialised by inlining. */
typedef struct kernel_32 {
    const format_32 *format;
    slab_fn *unpack;
    gemm_tiles_fn *multiply;
    gemv_fn *one_token;
} kernel_32;

/* The activations of tokens t0 .. t0+n-1 from block b on. */
static tile_x activations_at(const kern_act *x, const workspace *ws, size_t t0, size_t n, size_t b)
{
    const size_t blocks = x->cols / QUANT_BLOCK, from = t0 * blocks + b;
    return (tile_x){.q = x->q + from * QUANT_BLOCK,
                    .start = ws->start + b,
                    .sum = x->sum + from,
                    .d = x->d + from,
                    .q_stride = x->cols,
                    .block_stride = blocks,
                    .n = n};
}

/* Unpacks the blocks of all groups of a panel. `rows` rows of the matrix remain. */
static void unpack_slab(const kernel_32 *p, const uint8_t *w, size_t stride, size_t rows,
                        size_t n_blocks, workspace *ws)
{
    const size_t bytes = n_blocks * (size_t)p->format->block_bytes;
    for (size_t g = 0; g < GROUPS; g++) {
        const uint8_t *block = w + g * LANES * stride;
        const size_t left = rows > g * LANES ? rows - g * LANES : 0;
        if (left >= LANES)
            p->unpack(block, stride, n_blocks, ws->slab[g]);
        else
            p->unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes, n_blocks,
                      ws->slab[g]);
    }
}

/* Rows r0 .. r0+15 (fewer at the end), tokens t0 .. t0+n-1. */
static void gemm_panel_32(const kern_gemm_args *a, const kernel_32 *p, size_t r0, size_t t0,
                          size_t n)
{
    workspace *ws = a->scratch;
    block_32 *const slab[GROUPS] = {ws->slab[0], ws->slab[1]};
    const size_t rows = a->rows - r0, bytes = (size_t)p->format->block_bytes;
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    const uint8_t *next = w + PANEL * a->row_bytes;
    for (size_t b = 0; b < blocks; b += SLAB_BLOCKS, w += SLAB_BLOCKS * bytes) {
        const size_t n_blocks = blocks - b < SLAB_BLOCKS ? blocks - b : SLAB_BLOCKS;
        unpack_slab(p, w, a->row_bytes, rows, n_blocks, ws);
        prefetch_bytes(next, PANEL * n_blocks * bytes);
        next += PANEL * n_blocks * bytes;
        const tile_x x = activations_at(a->x, ws, t0, n, b);
        const tile_y y = {a->y + t0 * a->y_stride + r0, a->y_stride, rows, b == 0};
        p->multiply(slab, n_blocks, &x, &y);
    }
}

/* GEMV: rows r0 .. r0+7 (fewer at the end). */
static void gemv_rows_32(const kern_gemm_args *a, const kernel_32 *p, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)p->format->block_bytes;
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    const uint8_t *next = w + LANES * a->row_bytes;
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < blocks; b++, w += bytes, next += LANES * bytes) {
        const tile_x x = activations_at(a->x, ws, 0, 1, b);
        prefetch_bytes(next, LANES * bytes);
        if (rows >= LANES)
            acc = p->one_token(w, a->row_bytes, &x, acc);
        else
            acc = p->one_token(stage_rows(w, a->row_bytes, rows, bytes, ws->stage), bytes, &x, acc);
    }
    _mm256_maskstore_ps(a->y + r0, row_mask(rows, 0), acc);
}

static void gemm_32(const kern_gemm_args *a, const kernel_32 *p)
{
    workspace *ws = a->scratch;
    const size_t cols = a->x->cols, blocks = cols / QUANT_BLOCK;
    const size_t at_once =
        chunk_tokens(cols, blocks * sizeof(int32_t), KERN_SCRATCH_BYTES - sizeof(workspace));
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        const size_t n = a->x->n - t0 < at_once ? a->x->n - t0 : at_once;
        if (p->format->offset != 0)
            dot_starts_32(a->x->q + t0 * cols, a->x->sum + t0 * blocks, n * blocks,
                          p->format->offset, ws->start);
        if (a->x->n == 1) {
            for (size_t r0 = 0; r0 < a->rows; r0 += LANES)
                gemv_rows_32(a, p, r0);
        } else {
            for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
                gemm_panel_32(a, p, r0, t0, n);
        }
    }
}

/* The kernel of a format at a level. */
#define GEMM(f, level)                                                                             \
    static void slab_##f(const uint8_t *block, size_t stride, size_t n_blocks, block_32 *out)      \
    {                                                                                              \
        for (size_t b = 0; b < n_blocks; b++)                                                      \
            format_##f.unpack(block + b * (size_t)format_##f.block_bytes, stride, out + b);        \
    }                                                                                              \
    static void multiply_##f(block_32 *const w[GROUPS], size_t n_blocks, const tile_x *x,          \
                             const tile_y *y)                                                      \
    {                                                                                              \
        gemm_tiles(&format_##f, w, n_blocks, *x, *y);                                              \
    }                                                                                              \
    static __m256 one_token_##f(const uint8_t *block, size_t stride, const tile_x *x, __m256 acc)  \
    {                                                                                              \
        return gemv_block(&format_##f, block, stride, x, acc);                                     \
    }                                                                                              \
    void k_gemm_##f##_##level(const kern_gemm_args *a)                                             \
    {                                                                                              \
        gemm_32(a, &(kernel_32){&format_##f, slab_##f, multiply_##f, one_token_##f});              \
    }

#endif
