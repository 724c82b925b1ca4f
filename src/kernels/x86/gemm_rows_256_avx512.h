/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_rows_256_avx512.h - one or two tokens with superblock formats, along the weight rows.
 *
 * With so few tokens a product is bound by memory. So superblocks are read in the order of memory,
 * whatever row they belong to, and prefetched twice: far ahead into the L2 cache, which can have
 * more lines in flight than the L1 cache, and a little ahead into the L1 cache.
 *
 * The 256 codes of a superblock become four vectors of bytes, in the order of the file. vpdpbusd
 * multiplies them by activations, which are copied into that order once per call. A lane is a sum of
 * four products of one group. It fits in 16 signed bits, so vpackssdw packs the lanes of two
 * superblocks, and vpmaddwd or vpdpwssd multiplies them by their scales. Sums inside a superblock
 * are integers, so their order is free; only the total of a superblock is defined.
 *
 *     format   codes     offset   largest |sum of four| (activations |x| <= 127)
 *     Q2_K     0 .. 3       -      1,524
 *     Q3_K     0 .. 7       4      2,032
 *     Q4_K     0 .. 15      -      7,620
 *     Q5_K     0 .. 31      -     15,748
 *     Q6_K     0 .. 63     32     16,256
 *     IQ4_XS   1 .. 241   128     64,516: too large; vpmulld multiplies 32-bit lanes
 *     i8_256   0 .. 255   128     65,024: likewise
 *
 * A sum starts at -offset * (sum of its activations), which is loaded instead of a zero.
 *
 * 16 superblocks are a batch. Their scales and minima are unpacked together, one superblock per
 * lane, and their totals are reduced together. A batch crosses the ends of rows: the arrays that are
 * read a batch at a time are extended by 15 superblocks, which are the first ones again. The steps of
 * the float chains follow one by one.
 */
#ifndef MOTE_KERNELS_X86_GEMM_ROWS_256_AVX512_H
#define MOTE_KERNELS_X86_GEMM_ROWS_256_AVX512_H

#include "kernels/x86/gemm_unpack_256_avx512.h"

#include <stddef.h>

enum {
    BATCH = 16, /* superblocks */
    PAIRS = BATCH / 2,
    MAX_TOKENS = 2,   /* with more, panels are faster */
    ROWS_FAR = 16384, /* bytes ahead of the superblocks: prefetched into L2 */
    ROWS_NEAR = 1024, /* into L1 */
};

/* Scales and minima of a batch, one superblock per lane. */
typedef struct batch_heads {
    __m512 d, dmin;
    __m512i scale[4]; /* bytes: groups 4i .. 4i+3 */
    __m512i min[4];   /* likewise */
} batch_heads;

/* scale[i][p]: 16-bit scales of groups 4i .. 4i+3 of superblock 2p, then of superblock 2p+1. */
typedef struct batch_scales {
    _Alignas(64) int16_t scale[4][PAIRS][8];
} batch_scales;

typedef struct rows_format {
    size_t block_bytes;
    int offset;       /* of the codes */
    int scales, mins; /* vectors of scales and minima in batch_heads */
    int min_columns;  /* columns that share a minimum: 16 or 32 */
    bool wide;        /* sums do not fit in 16 bits */
    void (*heads)(const uint8_t *block, batch_heads *out);
    void (*codes)(const uint8_t *block, __m512i q[4]);
    int columns[4][4]; /* quarter c of vector k has the columns 16 * columns[k][c] and following */
    int table[4];      /* vector k takes its scales from batch_scales.scale[table[k]] */
    const uint8_t (*spread)[64]; /* [4]: indices that spread these scales over the quarters */
} rows_format;

/* Activations in the order of the codes. */
typedef struct rows_x {
    size_t blocks;  /* superblocks of a row */
    size_t n;       /* blocks + 15 */
    int8_t *q;      /* [blocks][256] */
    int32_t *start; /* [blocks][64]; if the codes have an offset */
    int16_t *sum;   /* [mins][n][4]: sums of min_columns activations */
    float *d;       /* [n] */
} rows_x;

/* ---- codes: four vectors of bytes ---- */

/* Codes that two instructions use. Without the barrier gcc loads them twice, and most of these
 * loads cross a cache line. */
ALWAYS_INLINE __m512i load_codes(const void *p)
{
    __m512i v = _mm512_loadu_si512(p);
    __asm__("" : "+v"(v));
    return v;
}

ALWAYS_INLINE __m512i load_twice(const uint8_t *p)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)p));
}

/* Shift counts: one for the low half of a vector, one for the high half. */
ALWAYS_INLINE __m512i halves(short low, short high)
{
    return _mm512_inserti64x4(_mm512_set1_epi16(low), _mm256_set1_epi16(high), 1);
}

ALWAYS_INLINE __m512i right(__m512i v, short low, short high)
{
    return _mm512_srlv_epi16(v, halves(low, high));
}

ALWAYS_INLINE __m512i left(__m512i v, short low, short high)
{
    return _mm512_sllv_epi16(v, halves(low, high));
}

ALWAYS_INLINE __m512i and_bytes(__m512i v, char mask)
{
    return _mm512_and_si512(v, _mm512_set1_epi8(mask));
}

/* (v & mask) | codes, by byte */
ALWAYS_INLINE __m512i or_bits(__m512i v, char mask, __m512i codes)
{
    return _mm512_ternarylogic_epi32(v, _mm512_set1_epi8(mask), codes, 0xEA);
}

/* 64 bytes of nibbles: the low ones, the high ones. */
ALWAYS_INLINE void nibbles(const uint8_t *p, __m512i q[2])
{
    const __m512i v = load_codes(p);
    q[0] = and_bytes(v, 15);
    q[1] = and_bytes(_mm512_srli_epi16(v, 4), 15);
}

ALWAYS_INLINE void row_codes_q2_k(const uint8_t *block, __m512i q[4])
{
    EACH(h, 2)
    {
        const __m512i v = load_twice(block + offsetof(quant_q2_k, qs) + 32 * h);
        q[2 * h] = and_bytes(right(v, 0, 2), 3);
        q[2 * h + 1] = and_bytes(right(v, 4, 6), 3);
    }
}

ALWAYS_INLINE void row_codes_q3_k(const uint8_t *block, __m512i q[4])
{
    const __m512i third = load_twice(block + offsetof(quant_q3_k, hmask));
    EACH(h, 2)
    {
        const __m512i v = load_twice(block + offsetof(quant_q3_k, qs) + 32 * h);
        q[2 * h] = and_bytes(right(v, 0, 2), 3);
        q[2 * h + 1] = and_bytes(right(v, 4, 6), 3);
    }
    q[0] = or_bits(left(third, 2, 1), 4, q[0]);
    q[1] = or_bits(right(third, 0, 1), 4, q[1]);
    q[2] = or_bits(right(third, 2, 3), 4, q[2]);
    q[3] = or_bits(right(third, 4, 5), 4, q[3]);
}

ALWAYS_INLINE void row_codes_q4_k(const uint8_t *block, __m512i q[4])
{
    nibbles(block + offsetof(quant_q4_k, qs), q);
    nibbles(block + offsetof(quant_q4_k, qs) + 64, q + 2);
}

ALWAYS_INLINE void row_codes_q5_k(const uint8_t *block, __m512i q[4])
{
    const __m512i fifth = load_twice(block + offsetof(quant_q5_k, qh));
    nibbles(block + offsetof(quant_q5_k, qs), q);
    nibbles(block + offsetof(quant_q5_k, qs) + 64, q + 2);
    q[0] = or_bits(left(fifth, 4, 2), 16, q[0]);
    q[1] = or_bits(left(fifth, 3, 1), 16, q[1]);
    q[2] = or_bits(right(fifth, 0, 2), 16, q[2]);
    q[3] = or_bits(right(fifth, 1, 3), 16, q[3]);
}

ALWAYS_INLINE void row_codes_q6_k(const uint8_t *block, __m512i q[4])
{
    EACH(h, 2)
    {
        const __m512i high = load_twice(block + offsetof(quant_q6_k, qh) + 32 * h);
        nibbles(block + offsetof(quant_q6_k, ql) + 64 * h, q + 2 * h);
        q[2 * h] = or_bits(left(high, 4, 2), 48, q[2 * h]);
        q[2 * h + 1] = or_bits(right(high, 0, 2), 48, q[2 * h + 1]);
    }
}

ALWAYS_INLINE void row_codes_iq4_xs(const uint8_t *block, __m512i q[4])
{
    const __m512i values = iq4_values_unsigned();
    nibbles(block + offsetof(quant_iq4_xs, qs), q);
    nibbles(block + offsetof(quant_iq4_xs, qs) + 64, q + 2);
    EACH(k, 4)
    {
        q[k] = _mm512_shuffle_epi8(values, q[k]);
    }
}

ALWAYS_INLINE void row_codes_i8_256(const uint8_t *block, __m512i q[4])
{
    EACH(k, 4)
    {
        q[k] = _mm512_xor_si512(_mm512_loadu_si512(block + 64 * k), _mm512_set1_epi8((char)0x80));
    }
}

/* ---- scales and minima: bytes, one superblock per lane ---- */

ALWAYS_INLINE void row_heads_q2_k(const uint8_t *block, batch_heads *out)
{
    __m512i last[4], scales[4];
    load_columns(block + sizeof(quant_q2_k) - 16, sizeof(quant_q2_k), last); /* ends with d, dmin */
    out->d = widen_f16(last[3], 0);
    out->dmin = widen_f16(last[3], 16);
    load_columns(block, sizeof(quant_q2_k), scales); /* nibbles: scale, min */
    EACH(i, 4)
    {
        out->scale[i] = and_bytes(scales[i], 15);
        out->min[i] = and_bytes(_mm512_srli_epi16(scales[i], 4), 15);
    }
}

ALWAYS_INLINE void row_heads_q3_k(const uint8_t *block, batch_heads *out)
{
    head_q3_k_bytes(block, sizeof(quant_q3_k), &out->d, out->scale);
}

/* Q4_K, Q5_K */
ALWAYS_INLINE void row_heads_q4_k_at(const uint8_t *block, size_t stride, batch_heads *out)
{
    __m512i h[4];
    load_columns(block, stride, h);
    out->d = widen_f16(h[0], 0);
    out->dmin = widen_f16(h[0], 16);
    out->scale[0] = and_bytes(h[1], 63);
    out->min[0] = and_bytes(h[2], 63);
    out->scale[1] = or_bits(_mm512_srli_epi32(h[1], 2), 48, and_bytes(h[3], 15));
    out->min[1] =
        or_bits(_mm512_srli_epi32(h[2], 2), 48, and_bytes(_mm512_srli_epi32(h[3], 4), 15));
}

ALWAYS_INLINE void row_heads_q4_k(const uint8_t *block, batch_heads *out)
{
    row_heads_q4_k_at(block, sizeof(quant_q4_k), out);
}

ALWAYS_INLINE void row_heads_q5_k(const uint8_t *block, batch_heads *out)
{
    row_heads_q4_k_at(block, sizeof(quant_q5_k), out);
}

ALWAYS_INLINE void row_heads_q6_k(const uint8_t *block, batch_heads *out)
{
    __m512i last[4];
    load_columns(block + sizeof(quant_q6_k) - 16, sizeof(quant_q6_k), last); /* ends with d */
    out->d = widen_f16(last[3], 16);
    load_columns(block + offsetof(quant_q6_k, scales), sizeof(quant_q6_k), out->scale);
}

ALWAYS_INLINE void row_heads_iq4_xs(const uint8_t *block, batch_heads *out)
{
    __m512i h[4];
    load_columns(block, sizeof(quant_iq4_xs), h); /* d, scales_h, scales_l, then codes */
    out->d = widen_f16(h[0], 0);
    /* Bytes: groups 0, 2, 4, 6 and groups 1, 3, 5, 7. Each takes four bits from scales_l and two
     * from scales_h. */
    __m512i scale[2] = {and_bytes(h[1], 15), and_bytes(_mm512_srli_epi32(h[1], 4), 15)};
    EACH(i, 8)
    {
        const int from = 16 + 2 * i, to = 8 * (i / 2) + 4;
        scale[i % 2] = mask_or(shift_bits(h[0], to - from), 3 << to, scale[i % 2]);
    }
    const __m512i a = _mm512_unpacklo_epi8(scale[0], scale[1]), /* superblocks 0, 1 of a quarter */
        b = _mm512_unpackhi_epi8(scale[0], scale[1]);           /* 2, 3 */
    const __m512 low = _mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), 0x88),
                 high = _mm512_shuffle_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), 0xDD);
    out->scale[0] = _mm512_sub_epi8(_mm512_castps_si512(low), _mm512_set1_epi8(32));
    out->scale[1] = _mm512_sub_epi8(_mm512_castps_si512(high), _mm512_set1_epi8(32));
}

ALWAYS_INLINE void row_heads_i8_256(const uint8_t *block, batch_heads *out)
{
    head_i8_256_bytes(block, sizeof(quant_i8_256), &out->d, out->scale);
}

/* ---- formats ---- */

/* Indices of vpshufb for packed sums: four words of the first superblock, four of the second. */
#define WORD_4(w)                                                                                  \
    2 * (w), 2 * (w) + 1, 2 * (w), 2 * (w) + 1, 2 * (w), 2 * (w) + 1, 2 * (w), 2 * (w) + 1
#define QUARTER(w) WORD_4(w), WORD_4((w) + 4)
#define QUARTERS(a, b, c, d)                                                                       \
    {                                                                                              \
        QUARTER(a), QUARTER(b), QUARTER(c), QUARTER(d)                                             \
    }
static const _Alignas(64) uint8_t spread_16[4][64] = {QUARTERS(0, 1, 2, 3), QUARTERS(0, 1, 2, 3),
                                                      QUARTERS(0, 1, 2, 3), QUARTERS(0, 1, 2, 3)};
static const _Alignas(64) uint8_t spread_32[4][64] = {QUARTERS(0, 0, 2, 2), QUARTERS(1, 1, 3, 3),
                                                      QUARTERS(0, 0, 2, 2), QUARTERS(1, 1, 3, 3)};

#define COLUMNS_IN_ORDER                                                                           \
    {                                                                                              \
        {0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11},                                                \
        {                                                                                          \
            12, 13, 14, 15                                                                         \
        }                                                                                          \
    }
#define COLUMNS_Q4_K                                                                               \
    {                                                                                              \
        {0, 1, 4, 5}, {2, 3, 6, 7}, {8, 9, 12, 13},                                                \
        {                                                                                          \
            10, 11, 14, 15                                                                         \
        }                                                                                          \
    }
#define COLUMNS_IQ4_XS                                                                             \
    {                                                                                              \
        {0, 2, 4, 6}, {1, 3, 5, 7}, {8, 10, 12, 14},                                               \
        {                                                                                          \
            9, 11, 13, 15                                                                          \
        }                                                                                          \
    }

static const rows_format rows_q2_k = {
    .block_bytes = sizeof(quant_q2_k),
    .scales = 4,
    .mins = 4,
    .min_columns = 16,
    .heads = row_heads_q2_k,
    .codes = row_codes_q2_k,
    .columns = COLUMNS_IN_ORDER,
    .table = {0, 1, 2, 3},
    .spread = spread_16,
};
static const rows_format rows_q3_k = {
    .block_bytes = sizeof(quant_q3_k),
    .offset = 4,
    .scales = 4,
    .heads = row_heads_q3_k,
    .codes = row_codes_q3_k,
    .columns = COLUMNS_IN_ORDER,
    .table = {0, 1, 2, 3},
    .spread = spread_16,
};
static const rows_format rows_q4_k = {
    .block_bytes = sizeof(quant_q4_k),
    .scales = 2,
    .mins = 2,
    .min_columns = 32,
    .heads = row_heads_q4_k,
    .codes = row_codes_q4_k,
    .columns = COLUMNS_Q4_K,
    .table = {0, 0, 1, 1},
    .spread = spread_32,
};
static const rows_format rows_q5_k = {
    .block_bytes = sizeof(quant_q5_k),
    .scales = 2,
    .mins = 2,
    .min_columns = 32,
    .heads = row_heads_q5_k,
    .codes = row_codes_q5_k,
    .columns = COLUMNS_Q4_K,
    .table = {0, 0, 1, 1},
    .spread = spread_32,
};
static const rows_format rows_q6_k = {
    .block_bytes = sizeof(quant_q6_k),
    .offset = 32,
    .scales = 4,
    .heads = row_heads_q6_k,
    .codes = row_codes_q6_k,
    .columns = COLUMNS_IN_ORDER,
    .table = {0, 1, 2, 3},
    .spread = spread_16,
};
static const rows_format rows_iq4_xs = {
    .block_bytes = sizeof(quant_iq4_xs),
    .offset = 128,
    .scales = 2,
    .wide = true,
    .heads = row_heads_iq4_xs,
    .codes = row_codes_iq4_xs,
    .columns = COLUMNS_IQ4_XS,
    .table = {0, 0, 1, 1},
    .spread = spread_16,
};
static const rows_format rows_i8_256 = {
    .block_bytes = sizeof(quant_i8_256),
    .offset = 128,
    .scales = 4,
    .wide = true,
    .heads = row_heads_i8_256,
    .codes = row_codes_i8_256,
    .columns = COLUMNS_IN_ORDER,
    .table = {0, 1, 2, 3},
    .spread = spread_16,
};

/* ---- totals of superblocks ---- */

ALWAYS_INLINE __m256i half_of(__m512i v, int half)
{
    return half ? _mm512_extracti64x4_epi64(v, 1) : _mm512_castsi512_si256(v);
}

ALWAYS_INLINE void widen_scales(const rows_format *f, const batch_heads *h, batch_scales *out)
{
    EACH(i, f->scales)
    {
        EACH(half, 2)
        {
            _mm512_store_si512(out->scale[i][4 * half],
                               _mm512_cvtepi8_epi16(half_of(h->scale[i], half)));
        }
    }
}

/* The scales of vector k of two superblocks, in the order of their packed sums. */
ALWAYS_INLINE __m512i scales_of_pair(const rows_format *f, const batch_scales *s, int pair, int k)
{
    const __m128i eight = _mm_load_si128((const __m128i *)s->scale[f->table[k]][pair]);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(eight), _mm512_load_si512(f->spread[k]));
}

/* Sums of four products in every lane: the codes of a superblock by superblock `at` of a row of x. */
ALWAYS_INLINE void sums_of_four(const rows_format *f, const __m512i q[4], const rows_x *x,
                                size_t at, __m512i sum[4])
{
    EACH(k, 4)
    {
        sum[k] = f->offset == 0 ? _mm512_setzero_si512()
                                : _mm512_load_si512(x->start + at * 64 + 16 * k);
        sum[k] =
            _mm512_dpbusd_epi32(sum[k], q[k], _mm512_load_si512(x->q + at * SLAB_COLS + 64 * k));
    }
}

/* Even 64-bit lanes: parts of the total of a superblock; odd ones: of the next. */
ALWAYS_INLINE __m512i pair_total(const __m512i a[4], const __m512i b[4], const __m512i scale[4])
{
    __m512i total = _mm512_setzero_si512();
    EACH(k, 4)
    {
        total = _mm512_dpwssd_epi32(total, _mm512_packs_epi32(a[k], b[k]), scale[k]);
    }
    return total;
}

ALWAYS_INLINE __m512i pair_total_wide(const __m512i a[4], const __m512i b[4],
                                      const __m512i scale[4])
{
    __m512i total_a = _mm512_setzero_si512(), total_b = total_a;
    EACH(k, 4)
    {
        const __m512i scale_a = _mm512_srai_epi32(_mm512_unpacklo_epi16(scale[k], scale[k]), 16),
                      scale_b = _mm512_srai_epi32(_mm512_unpackhi_epi16(scale[k], scale[k]), 16);
        total_a = _mm512_add_epi32(total_a, _mm512_mullo_epi32(a[k], scale_a));
        total_b = _mm512_add_epi32(total_b, _mm512_mullo_epi32(b[k], scale_b));
    }
    return _mm512_add_epi32(_mm512_unpacklo_epi64(total_a, total_b),
                            _mm512_unpackhi_epi64(total_a, total_b));
}

/* a and b: two vectors of pairs. Lane i of every quarter: a part of total i of the four. */
ALWAYS_INLINE __m512i add_pairs(__m512i a, __m512i b)
{
    const __m512 x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(x, y, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(x, y, 0xDD)));
}

/* Quarter i: the sum of the four quarters of v[i]. */
ALWAYS_INLINE __m512i add_quarters(const __m512i v[4])
{
    const __m512i a = _mm512_add_epi32(_mm512_shuffle_i32x4(v[0], v[1], 0x44),
                                       _mm512_shuffle_i32x4(v[0], v[1], 0xEE));
    const __m512i b = _mm512_add_epi32(_mm512_shuffle_i32x4(v[2], v[3], 0x44),
                                       _mm512_shuffle_i32x4(v[2], v[3], 0xEE));
    return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xDD));
}

/* The lines that follow those of a pair in the batch. Past the end of the weights the prefetch has
 * no effect. */
ALWAYS_INLINE void prefetch_pair(const rows_format *f, const uint8_t *batch, int pair)
{
    const int bytes = 2 * (int)f->block_bytes;
    const int first = pair * bytes / 64, end = (pair + 1) * bytes / 64;
    EACH(i, end - first)
    {
        const char *line = (const char *)batch + 64 * (first + i);
        _mm_prefetch(line + ROWS_FAR, _MM_HINT_T1);
        _mm_prefetch(line + ROWS_NEAR, _MM_HINT_T0);
    }
}

/* total[t], lane i: the total of superblock i of a batch and token t. `at`: the first superblock's
 * place in its row. */
ALWAYS_INLINE void batch_totals(const rows_format *f, int T, const uint8_t *batch,
                                const batch_scales *s, const rows_x *x, size_t at, __m512i *total)
{
    __m512i pair[MAX_TOKENS], four[MAX_TOKENS][4];
    EACH(p, PAIRS)
    {
        const uint8_t *block = batch + (size_t)(2 * p) * f->block_bytes;
        const size_t next = at + 1 < x->blocks ? at + 1 : 0;
        __m512i qa[4], qb[4], scale[4], a[4], b[4];
        prefetch_pair(f, batch, p);
        f->codes(block, qa);
        f->codes(block + f->block_bytes, qb);
        EACH(k, 4)
        {
            scale[k] = scales_of_pair(f, s, p, k);
        }
        EACH(t, T)
        {
            sums_of_four(f, qa, &x[t], at, a);
            sums_of_four(f, qb, &x[t], next, b);
            const __m512i sum = f->wide ? pair_total_wide(a, b, scale) : pair_total(a, b, scale);
            if (p % 2)
                four[t][p / 2] = add_pairs(pair[t], sum);
            pair[t] = sum;
        }
        at = next + 1 < x->blocks ? next + 1 : 0;
    }
    EACH(t, T)
    {
        total[t] = add_quarters(four[t]);
    }
}

/* Lane i: the minima of superblock i times the sums of their activations. */
ALWAYS_INLINE __m512i batch_minima(const rows_format *f, const batch_heads *h, const rows_x *x,
                                   size_t at)
{
    __m512i total[2]; /* superblocks 0 .. 7, 8 .. 15; two lanes each */
    EACH(half, 2)
    {
        total[half] = _mm512_setzero_si512();
        EACH(i, f->mins)
        {
            const int16_t *sum = x->sum + ((size_t)i * x->n + at + (size_t)(8 * half)) * 4;
            total[half] =
                _mm512_dpwssd_epi32(total[half], _mm512_cvtepu8_epi16(half_of(h->min[i], half)),
                                    _mm512_loadu_si512(sum));
        }
    }
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(order, add_pairs(total[0], total[1]));
}

/* ---- chains ---- */

/* The factors of the chain steps of a batch: acc = fma(d, isum, acc), acc = fma(-dmin, msum, acc). */
typedef struct batch_steps {
    float d[BATCH], isum[BATCH], dmin[BATCH], msum[BATCH];
} batch_steps;

/* The row that is being summed. */
typedef struct row_chain {
    float *y;          /* of this row */
    size_t at, blocks; /* next superblock of the row; superblocks of a row */
    float acc;
} row_chain;

ALWAYS_INLINE void batch_multiply(const rows_format *f, int T, const uint8_t *batch,
                                  const rows_x *x, size_t at, batch_steps *out)
{
    batch_heads h;
    batch_scales s;
    __m512i total[MAX_TOKENS];
    f->heads(batch, &h);
    widen_scales(f, &h, &s);
    EACH(t, T)
    {
        const __m512 d = _mm512_loadu_ps(x[t].d + at);
        if (f->mins > 0) {
            _mm512_storeu_ps(out[t].dmin, _mm512_mul_ps(h.dmin, d));
            _mm512_storeu_ps(out[t].msum, _mm512_cvtepi32_ps(batch_minima(f, &h, &x[t], at)));
        }
        _mm512_storeu_ps(out[t].d, _mm512_mul_ps(h.d, d));
    }
    batch_totals(f, T, batch, &s, x, at, total);
    EACH(t, T)
    {
        _mm512_storeu_ps(out[t].isum, _mm512_cvtepi32_ps(total[t]));
    }
}

/* Adds the first n superblocks of a batch to the chains of their rows. */
ALWAYS_INLINE void chain_steps(const rows_format *f, const batch_steps *s, size_t n, row_chain *c)
{
    /* Without the barrier gcc replaces these loads by shuffles of the vectors that were stored. */
    __asm__("" : : "r"(s) : "memory");
    __m128 acc = _mm_set_ss(c->acc);
    for (size_t i = 0; i < n; i++) {
        acc = _mm_fmadd_ss(_mm_load_ss(s->d + i), _mm_load_ss(s->isum + i), acc);
        if (f->mins > 0)
            acc = _mm_fnmadd_ss(_mm_load_ss(s->dmin + i), _mm_load_ss(s->msum + i), acc);
        if (++c->at == c->blocks) {
            _mm_store_ss(c->y++, acc);
            acc = _mm_setzero_ps();
            c->at = 0;
        }
    }
    c->acc = _mm_cvtss_f32(acc);
}

/* ---- activations ---- */

ALWAYS_INLINE void rows_copy_codes(const rows_format *f, const int8_t *q, int8_t *to)
{
    EACH(i, 16)
    {
        memcpy(to + 16 * i, q + 16 * f->columns[i / 4][i % 4], 16);
    }
}

/* -offset * (sum of the activations of a lane) */
ALWAYS_INLINE void rows_start(const rows_format *f, const int8_t *q, int32_t *start)
{
    EACH(k, 4)
    {
        const __m512i sum =
            _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8((char)f->offset),
                                _mm512_load_si512(q + 64 * k));
        _mm512_store_si512(start + 16 * k, _mm512_sub_epi32(_mm512_setzero_si512(), sum));
    }
}

/* `sum` has the sums of 16 columns. */
ALWAYS_INLINE void rows_sums(const rows_format *f, const int16_t *sum, const rows_x *x, size_t b)
{
    int16_t sums[16];
    __m256i v = _mm256_loadu_si256((const __m256i *)sum);
    if (f->min_columns == 32) {
        v = _mm256_madd_epi16(v, _mm256_set1_epi16(1));
        v = _mm256_castsi128_si256(_mm256_cvtepi32_epi16(v));
    }
    _mm256_storeu_si256((__m256i *)sums, v);
    EACH(i, f->mins)
    {
        memcpy(x->sum + ((size_t)i * x->n + b) * 4, sums + 4 * i, 4 * sizeof *sums);
    }
}

/* Scratch bytes of the activations of a token. */
ALWAYS_INLINE size_t rows_token_bytes(size_t cols)
{
    const size_t blocks = cols / SLAB_COLS, n = blocks + BATCH - 1;
    const size_t bytes =
        blocks * (SLAB_COLS + 64 * sizeof(int32_t)) + n * (16 * sizeof(int16_t) + sizeof(float));
    return (bytes + 63) / 64 * 64;
}

/* Can gemm_along_rows take this call? One token always fits; two tokens of very long rows do not. */
ALWAYS_INLINE bool rows_fit(const kern_act *x)
{
    return x->n <= MAX_TOKENS &&
           BATCH * MAX_BLOCK_BYTES + x->n * rows_token_bytes(x->cols) <= KERN_SCRATCH_BYTES;
}

/* Token t. `buffer` is advanced past its activations. */
ALWAYS_INLINE rows_x rows_prepare(const rows_format *f, const kern_act *a, size_t t,
                                  unsigned char **buffer)
{
    const size_t blocks = a->cols / SLAB_COLS, n = blocks + BATCH - 1, first = t * blocks;
    rows_x x = {.blocks = blocks, .n = n, .q = (int8_t *)*buffer};
    x.start = (int32_t *)(x.q + blocks * SLAB_COLS);
    x.sum = (int16_t *)(x.start + blocks * 64);
    x.d = (float *)(x.sum + n * 16);
    *buffer += rows_token_bytes(a->cols);
    for (size_t b = 0; b < blocks; b++) {
        int8_t *q = x.q + b * SLAB_COLS;
        rows_copy_codes(f, a->q + (first + b) * SLAB_COLS, q);
        if (f->offset != 0)
            rows_start(f, q, x.start + b * 64);
    }
    for (size_t b = 0, from = 0; b < n; b++) {
        if (f->mins > 0)
            rows_sums(f, a->sum + (first + from) * 16, &x, b);
        x.d[b] = a->d[first + from];
        from = from + 1 < blocks ? from + 1 : 0;
    }
    return x;
}

/* T tokens. The weight rows have no gaps. */
ALWAYS_INLINE void gemm_along_rows(const rows_format *f, int T, const kern_gemm_args *a)
{
    unsigned char *stage = a->scratch, *buffer = stage + BATCH * MAX_BLOCK_BYTES;
    rows_x x[MAX_TOKENS];
    row_chain c[MAX_TOKENS];
    EACH(t, T)
    {
        x[t] = rows_prepare(f, a->x, (size_t)t, &buffer);
        c[t] = (row_chain){.y = a->y + (size_t)t * a->y_stride, .blocks = x[0].blocks};
    }
    const uint8_t *batch = a->w;
    size_t left = a->rows * x[0].blocks;
    batch_steps steps[MAX_TOKENS];
    for (; left >= BATCH; left -= BATCH, batch += BATCH * f->block_bytes) {
        batch_multiply(f, T, batch, x, c[0].at, steps);
        EACH(t, T)
        {
            chain_steps(f, &steps[t], BATCH, &c[t]);
        }
    }
    if (left == 0)
        return;
    /* The last superblocks are staged, so that nothing is read past them. */
    memset(stage, 0, BATCH * f->block_bytes);
    memcpy(stage, batch, left * f->block_bytes);
    batch_multiply(f, T, stage, x, c[0].at, steps);
    EACH(t, T)
    {
        chain_steps(f, &steps[t], left, &c[t]);
    }
}

#endif
