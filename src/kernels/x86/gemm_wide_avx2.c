/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_wide_avx2.c - GEMM and GEMV with 8-bit codes: Q8_0, IQ4_NL, IQ4_XS, quant_i8_256. AVX2.
 *
 * vpmaddubsw would saturate with codes up to 255, so slabs hold 16-bit codes for vpmaddwd. Shifts
 * split the four 8-bit codes of a lane into two vectors, even and odd codes. Activations are
 * widened once, in the same order. 32 columns are sixteen vectors: eight of even and eight of odd
 * codes. Superblocks multiply the scale into the codes, and a superblock is one sum: |scale * value|
 * is at most 32 * 127 in IQ4_XS, 128 * 128 in quant_i8_256.
 *
 * GEMV uses 8-bit codes: |code| * (x with the sign of the code), at most 2 * 128 * 127 = 32,512 per
 * pair, then vpmaddwd with the scale, or with 1. No sum exceeds 256 * 127 * 16,384 = 532,676,608.
 */
#include "kernels/x86/dot_avx2.h"

#include "kernels/x86/body_rows_256.h"

#include "quant/unpack.h"

#include <stddef.h>

enum {
    PIECE = 32,                /* columns per block, or per scale of IQ4_XS */
    PIECE_VECTORS = PIECE / 2, /* vectors of 16-bit codes */
    SLAB_PIECES = SLAB_COLS / PIECE,
    ROW_BYTES = 288 /* per row of a slab: at least 8 * sizeof(quant_q8_0), sizeof(quant_i8_256) */
};

/* 256 columns of 8 rows, unpacked. */
typedef struct slab_wide {
    __m256i q[SLAB_PIECES][PIECE_VECTORS];
    __m256 d[SLAB_PIECES]; /* one per block; IQ4_XS has one */
} slab_wide;

/* Signed 8-bit codes of 32 columns: q[k] has columns 4k .. 4k+3. */
typedef struct piece_8 {
    __m256i q[8];
    __m256i scale[2]; /* of each half: { scale, scale }; 1 if the format has no scales */
} piece_8;

/* Unpack d, or piece i, of a block of 8 rows. */
typedef __m256 block_d_fn(const uint8_t *block, size_t stride);
typedef void block_piece_fn(const uint8_t *block, size_t stride, int i, piece_8 *out);

typedef struct format_wide {
    block_d_fn *d;
    block_piece_fn *piece;
    int block_bytes;
    int pieces; /* pieces per block */
} format_wide;

/* ---- blocks ---- */

/* The f16 at the start of a block, of 8 rows. */
ALWAYS_INLINE __m256 load_first_f16(const uint8_t *block, size_t stride)
{
    __m256i head[4];
    load_columns(block, stride, head);
    return widen_f16(head[0], 0);
}

ALWAYS_INLINE void piece_q8_0(const uint8_t *block, size_t stride, int i, piece_8 *out)
{
    (void)i;
    load_columns(block + offsetof(quant_q8_0, qs), stride, out->q);
    load_columns(block + offsetof(quant_q8_0, qs) + 16, stride, out->q + 4);
    out->scale[0] = out->scale[1] = _mm256_set1_epi16(1);
}

ALWAYS_INLINE void piece_iq4_nl(const uint8_t *block, size_t stride, int i, piece_8 *out)
{
    (void)i;
    iq4_lookup(block + offsetof(quant_iq4_nl, qs), stride, out->q);
    out->scale[0] = out->scale[1] = _mm256_set1_epi16(1);
}

ALWAYS_INLINE void piece_iq4_xs(const uint8_t *block, size_t stride, int i, piece_8 *out)
{
    __m256i head[4]; /* d, scales_h, scales_l, then codes */
    load_columns(block, stride, head);
    const __m256i four = bits(_mm256_srl_epi32(head[1], _mm_cvtsi32_si128(4 * i)), 0, 15);
    const __m256i two = bits(_mm256_srl_epi32(head[0], _mm_cvtsi32_si128(16 + 2 * i)), 0, 3);
    const __m256i six = _mm256_or_si256(four, _mm256_slli_epi32(two, 4));
    const __m256i both = _mm256_or_si256(six, _mm256_slli_epi32(six, 16));
    out->scale[0] = out->scale[1] = _mm256_sub_epi16(both, _mm256_set1_epi16(32));
    iq4_lookup(block + offsetof(quant_iq4_xs, qs) + 16 * (size_t)i, stride, out->q);
}

ALWAYS_INLINE __m256 d_i8_256(const uint8_t *block, size_t stride)
{
    __m256i last[4];
    load_columns(block + sizeof(quant_i8_256) - 16, stride, last); /* ends with d */
    return _mm256_castsi256_ps(last[3]);
}

ALWAYS_INLINE void piece_i8_256(const uint8_t *block, size_t stride, int i, piece_8 *out)
{
    __m256i scales[4];
    load_columns(block + offsetof(quant_i8_256, scale), stride, scales);
    const __m256i four = scales[i / 2];
    EACH(half, 2)
    {
        /* The byte goes to the top of the lane, then to both halves. */
        const __m128i up = _mm_cvtsi32_si128(24 - 8 * (2 * (i % 2) + half));
        const __m256i high = _mm256_srai_epi32(_mm256_sll_epi32(four, up), 8);
        out->scale[half] = _mm256_blend_epi16(_mm256_srli_epi32(high, 16), high, 0xAA);
    }
    load_columns(block + 32 * (size_t)i, stride, out->q);
    load_columns(block + 32 * (size_t)i + 16, stride, out->q + 4);
}

static const format_wide format_q8_0 = {load_first_f16, piece_q8_0, sizeof(quant_q8_0), 1};
static const format_wide format_iq4_nl = {load_first_f16, piece_iq4_nl, sizeof(quant_iq4_nl), 1};
static const format_wide format_iq4_xs = {load_first_f16, piece_iq4_xs, sizeof(quant_iq4_xs),
                                          SLAB_PIECES};
static const format_wide format_i8_256 = {d_i8_256, piece_i8_256, sizeof(quant_i8_256),
                                          SLAB_PIECES};

/* ---- tiles ---- */

/* Activations of consecutive tokens from one block on. Strides are between tokens. */
typedef struct tile_x {
    const int16_t *q; /* 16-bit codes, even and odd separated: see the file header */
    const float *d;
    size_t q_stride, d_stride;
    size_t n; /* tokens */
} tile_x;

typedef void gemm_tiles_fn(const slab_wide *w, size_t n_blocks, const tile_x *x, const tile_y *y);
typedef void unpack_fn(const uint8_t *block, size_t stride, size_t n_blocks, slab_wide *out);
typedef __m256 gemv_fn(const uint8_t *block, size_t stride, const int8_t *x, float dx, __m256 acc);

/* a + b in 32 bits, not reordered (see add16_in_order). */
ALWAYS_INLINE __m256i add32_in_order(__m256i a, __m256i b)
{
    __m256i sum = _mm256_add_epi32(a, b);
    __asm__("" : "+x"(sum));
    return sum;
}

/* sum[g][t] += products of piece i. */
ALWAYS_INLINE void sum_piece(const slab_wide *w, const tile_x *x, int nt, size_t i,
                             __m256i sum[GROUPS][TILE])
{
    EACH(k, PIECE_VECTORS)
    {
        const __m256i w0 = w[0].q[i][k], w1 = w[1].q[i][k];
        EACH(t, nt)
        {
            const __m256i codes = set1_at(x->q + t * x->q_stride + i * PIECE + 2 * k);
            sum[0][t] = add32_in_order(sum[0][t], _mm256_madd_epi16(w0, codes));
            sum[1][t] = add32_in_order(sum[1][t], _mm256_madd_epi16(w1, codes));
        }
    }
}

/* The slabs of a panel, nt tokens. f and nt are compile-time constants after inlining. */
ALWAYS_INLINE void gemm_tile(const format_wide *f, const slab_wide *w, size_t n_blocks,
                             const tile_x *x, int nt, const tile_y *out)
{
    __m256 acc[GROUPS][TILE];
    EACH(t, nt)
    {
        acc[0][t] = load_chains(out, (size_t)t, 0);
        acc[1][t] = load_chains(out, (size_t)t, 1);
    }
    for (size_t b = 0; b < n_blocks; b++) {
        __m256i sum[GROUPS][TILE];
        EACH(t, nt)
        {
            sum[0][t] = sum[1][t] = _mm256_setzero_si256();
        }
        for (size_t i = 0; i < (size_t)f->pieces; i++)
            sum_piece(w, x, nt, b * (size_t)f->pieces + i, sum);
        EACH(t, nt)
        {
            const __m256 dx = _mm256_set1_ps(x->d[t * x->d_stride + b]);
            EACH(g, GROUPS)
            {
                acc[g][t] = _mm256_fmadd_ps(_mm256_mul_ps(w[g].d[b], dx),
                                            _mm256_cvtepi32_ps(sum[g][t]), acc[g][t]);
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
ALWAYS_INLINE void gemm_tiles(const format_wide *f, const slab_wide *w, size_t n_blocks, tile_x x,
                              tile_y y)
{
    for (size_t n; x.n > 0; x.n -= n) {
        n = next_tile(x.n);
        switch (n) {
        case 1: gemm_tile(f, w, n_blocks, &x, 1, &y); break;
        case 2: gemm_tile(f, w, n_blocks, &x, 2, &y); break;
        default: gemm_tile(f, w, n_blocks, &x, TILE, &y); break;
        }
        x.q += n * x.q_stride;
        x.d += n * x.d_stride;
        y.y += n * y.stride;
    }
}

/* ---- unpacking to a slab, or GEMV ---- */

ALWAYS_INLINE __m256i even_codes(__m256i v)
{
    return _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8);
}

ALWAYS_INLINE __m256i odd_codes(__m256i v)
{
    return _mm256_srai_epi16(v, 8);
}

/* Unpacks n_blocks blocks of 8 rows. */
ALWAYS_INLINE void unpack(const format_wide *f, const uint8_t *block, size_t stride,
                          size_t n_blocks, slab_wide *out)
{
    for (size_t b = 0; b < n_blocks; b++, block += f->block_bytes) {
        out->d[b] = f->d(block, stride);
        for (int i = 0; i < f->pieces; i++) {
            piece_8 p;
            f->piece(block, stride, i, &p);
            __m256i *q = out->q[b * (size_t)f->pieces + (size_t)i];
            EACH(k, 8)
            {
                q[k] = _mm256_mullo_epi16(even_codes(p.q[k]), p.scale[k / 4]);
                q[k + 8] = _mm256_mullo_epi16(odd_codes(p.q[k]), p.scale[k / 4]);
            }
        }
    }
}

/* One block of 8 rows, one token: one chain step. */
ALWAYS_INLINE __m256 gemv_block(const format_wide *f, const uint8_t *block, size_t stride,
                                const int8_t *x, float dx, __m256 acc)
{
    __m256i isum = _mm256_setzero_si256();
    EACH(i, f->pieces)
    {
        piece_8 p;
        f->piece(block, stride, i, &p);
        EACH(k, 8)
        {
            const __m256i codes = _mm256_sign_epi8(set1_at(x + PIECE * i + 4 * k), p.q[k]);
            const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(p.q[k]), codes);
            isum = add32_in_order(isum, _mm256_madd_epi16(pairs, p.scale[k / 4]));
        }
    }
    const __m256 d = _mm256_mul_ps(f->d(block, stride), _mm256_set1_ps(dx));
    return _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(isum), acc);
}

/* ---- panels ---- */

typedef struct workspace {
    slab_wide slab[GROUPS];
    uint8_t stage[LANES * ROW_BYTES]; /* blocks of a slab, of the last rows */
    unsigned char buffer[];           /* up to KERN_SCRATCH_BYTES: 16-bit activations */
} workspace;

/* The functions of a format, specialised by inlining. */
typedef struct kernel_wide {
    const format_wide *format;
    unpack_fn *unpack;
    gemm_tiles_fn *multiply;
    gemv_fn *one_token;
} kernel_wide;

/* Widens n codes, n a multiple of 32: of each 32, even codes first, then odd codes. */
static void widen_codes(const int8_t *q, size_t n, int16_t *out)
{
    for (size_t i = 0; i < n; i += PIECE) {
        const __m256i codes = _mm256_loadu_si256((const __m256i *)(q + i));
        _mm256_storeu_si256((__m256i *)(out + i), even_codes(codes));
        _mm256_storeu_si256((__m256i *)(out + i + 16), odd_codes(codes));
    }
}

/* Unpacks the blocks of all groups of a panel. `rows` rows of the matrix remain. */
static void unpack_slab(const kernel_wide *p, const uint8_t *w, size_t stride, size_t rows,
                        size_t n_blocks, workspace *ws)
{
    const size_t bytes = n_blocks * (size_t)p->format->block_bytes;
    for (size_t g = 0; g < GROUPS; g++) {
        const uint8_t *block = w + g * LANES * stride;
        const size_t left = rows > g * LANES ? rows - g * LANES : 0;
        if (left >= LANES)
            p->unpack(block, stride, n_blocks, &ws->slab[g]);
        else
            p->unpack(stage_rows(block, stride, left, bytes, ws->stage), bytes, n_blocks,
                      &ws->slab[g]);
    }
}

/* Rows r0 .. r0+15 (fewer at the end), tokens t0 .. t0+n-1, with 16-bit activations x16. */
static void gemm_panel_wide_avx2(const kern_gemm_args *a, const kernel_wide *p, size_t r0,
                                 size_t t0, size_t n, const int16_t *x16)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)p->format->block_bytes;
    const size_t block_cols = (size_t)(PIECE * p->format->pieces), blocks = a->x->cols / block_cols;
    const size_t slab_blocks = SLAB_COLS / block_cols;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    const uint8_t *next = w + PANEL * a->row_bytes;
    for (size_t b = 0; b < blocks; b += slab_blocks, w += slab_blocks * bytes) {
        const size_t n_blocks = blocks - b < slab_blocks ? blocks - b : slab_blocks;
        unpack_slab(p, w, a->row_bytes, rows, n_blocks, ws);
        prefetch_bytes(next, PANEL * n_blocks * bytes);
        next += PANEL * n_blocks * bytes;
        const tile_x x = {x16 + b * block_cols, a->x->d + t0 * blocks + b, a->x->cols, blocks, n};
        const tile_y y = {a->y + t0 * a->y_stride + r0, a->y_stride, rows, b == 0};
        p->multiply(ws->slab, n_blocks, &x, &y);
    }
}

/* GEMV: rows r0 .. r0+7 (fewer at the end). */
static void gemv_rows_wide_avx2(const kern_gemm_args *a, const kernel_wide *p, size_t r0)
{
    workspace *ws = a->scratch;
    const size_t rows = a->rows - r0, bytes = (size_t)p->format->block_bytes;
    const size_t block_cols = (size_t)(PIECE * p->format->pieces), blocks = a->x->cols / block_cols;
    const uint8_t *w = (const uint8_t *)a->w + r0 * a->row_bytes;
    const uint8_t *next = w + LANES * a->row_bytes;
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < blocks; b++, w += bytes, next += LANES * bytes) {
        const int8_t *x = a->x->q + b * block_cols;
        prefetch_bytes(next, LANES * bytes);
        if (rows >= LANES)
            acc = p->one_token(w, a->row_bytes, x, a->x->d[b], acc);
        else
            acc = p->one_token(stage_rows(w, a->row_bytes, rows, bytes, ws->stage), bytes, x,
                               a->x->d[b], acc);
    }
    _mm256_maskstore_ps(a->y + r0, row_mask(rows, 0), acc);
}

static void gemm_wide_avx2(const kern_gemm_args *a, const kernel_wide *p)
{
    workspace *ws = a->scratch;
    const size_t cols = a->x->cols;
    if (a->x->n == 1) {
        for (size_t r0 = 0; r0 < a->rows; r0 += LANES)
            gemv_rows_wide_avx2(a, p, r0);
        return;
    }
    int16_t *x16 = (int16_t *)ws->buffer;
    const size_t at_once =
        chunk_tokens(cols, cols * sizeof *x16, KERN_SCRATCH_BYTES - sizeof(workspace));
    for (size_t t0 = 0; t0 < a->x->n; t0 += at_once) {
        const size_t n = a->x->n - t0 < at_once ? a->x->n - t0 : at_once;
        widen_codes(a->x->q + t0 * cols, n * cols, x16);
        for (size_t r0 = 0; r0 < a->rows; r0 += PANEL)
            gemm_panel_wide_avx2(a, p, r0, t0, n, x16);
    }
}

/* The functions of a format. */
#define GEMM_PANEL(f)                                                                              \
    static void unpack_##f(const uint8_t *block, size_t stride, size_t n_blocks, slab_wide *out)   \
    {                                                                                              \
        unpack(&format_##f, block, stride, n_blocks, out);                                         \
    }                                                                                              \
    static void multiply_##f(const slab_wide *w, size_t n_blocks, const tile_x *x,                 \
                             const tile_y *y)                                                      \
    {                                                                                              \
        gemm_tiles(&format_##f, w, n_blocks, *x, *y);                                              \
    }                                                                                              \
    static __m256 one_token_##f(const uint8_t *block, size_t stride, const int8_t *x, float dx,    \
                                __m256 acc)                                                        \
    {                                                                                              \
        return gemv_block(&format_##f, block, stride, x, dx, acc);                                 \
    }                                                                                              \
    static void gemm_panels_##f(const kern_gemm_args *a)                                           \
    {                                                                                              \
        gemm_wide_avx2(a, &(kernel_wide){&format_##f, unpack_##f, multiply_##f, one_token_##f});   \
    }

#define GEMM(f)                                                                                    \
    GEMM_PANEL(f)                                                                                  \
    void k_gemm_##f##_avx2(const kern_gemm_args *a)                                                \
    {                                                                                              \
        gemm_panels_##f(a);                                                                        \
    }

GEMM(q8_0)
GEMM(iq4_nl)
GEMM(i8_256)
GEMM_ROWS(iq4_xs, avx2)
