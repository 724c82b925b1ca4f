/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_rows_32_avx512.h - GEMV (one token) with formats of 32-value blocks, along the weight rows.
 *
 * Every block ends with a step of the float chain of its row. Four rows advance together, four
 * blocks at a time. The codes of a row's four blocks are two vectors: quarter c has the first or the
 * last 16 codes of block c. Two vpdpbusd leave four partial sums per block. The vectors of four rows
 * are then added across lanes together: lane 4c + r has the sum of block c of row r. So the four
 * lanes of a quarter are one step of four chains. d and m arrive in the same lanes.
 *
 * Codes are unsigned, q + offset, as in gemm_32_avx512.c. A sum starts at -offset * (sum of its
 * activations).
 *
 * Weights are prefetched in the order of memory into the L2 cache, which can have more lines in
 * flight than the L1 cache.
 */
#ifndef MOTE_KERNELS_X86_GEMM_ROWS_32_AVX512_H
#define MOTE_KERNELS_X86_GEMM_ROWS_32_AVX512_H

#include "kernels/x86/gemm_unpack_32_avx512.h"

enum {
    ROWS = 4,
    STEP = 4,         /* blocks */
    ROWS_FAR = 16384, /* bytes from the start of four rows to the line that is prefetched */
};

typedef struct rows_format {
    int block_bytes;
    int offset; /* of the codes */
    bool has_m;
    /* Codes of the four blocks of a row. */
    void (*codes)(const uint8_t *block, __m512i q[2]);
} rows_format;

/* Activations, four blocks at a time; `steps` = blocks of a row / 4, rounded up. */
typedef struct rows_x {
    int8_t *q;      /* [steps][2][64], in the order of the codes */
    int32_t *start; /* [steps][16] */
    float *d;       /* [steps][4][4]: d of each block, four times */
    float *sum;     /* likewise: sum of the codes */
} rows_x;

/* ---- codes ---- */

/* 16 bytes of each of four blocks. */
ALWAYS_INLINE __m512i load_four(const uint8_t *p, size_t bytes)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + bytes)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 2 * bytes)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(p + 3 * bytes)), 3);
}

ALWAYS_INLINE void four_nibbles(const uint8_t *p, size_t bytes, __m512i q[2])
{
    const __m512i v = load_four(p, bytes), low = _mm512_set1_epi8(15);
    q[0] = _mm512_and_si512(v, low);
    q[1] = _mm512_and_si512(_mm512_srli_epi16(v, 4), low);
}

/* Bits 0 .. 15 of the words at p, one per block, become bit 4 of the codes. */
ALWAYS_INLINE __m512i fifth_bits(const uint8_t *p, size_t bytes, __m512i q)
{
    uint64_t mask = 0;
    EACH(c, STEP)
    {
        uint16_t word;
        memcpy(&word, p + (size_t)c * bytes, sizeof word);
        mask |= (uint64_t)word << 16 * c;
    }
    return _mm512_mask_add_epi8(q, (__mmask64)mask, q, _mm512_set1_epi8(16));
}

ALWAYS_INLINE void row_codes_q4_0(const uint8_t *block, __m512i q[2])
{
    four_nibbles(block + offsetof(quant_q4_0, qs), sizeof(quant_q4_0), q);
}

ALWAYS_INLINE void row_codes_q4_1(const uint8_t *block, __m512i q[2])
{
    four_nibbles(block + offsetof(quant_q4_1, qs), sizeof(quant_q4_1), q);
}

ALWAYS_INLINE void row_codes_q5_0(const uint8_t *block, __m512i q[2])
{
    const uint8_t *fifth = block + offsetof(quant_q5_0, qh);
    four_nibbles(block + offsetof(quant_q5_0, qs), sizeof(quant_q5_0), q);
    q[0] = fifth_bits(fifth, sizeof(quant_q5_0), q[0]);
    q[1] = fifth_bits(fifth + 2, sizeof(quant_q5_0), q[1]);
}

ALWAYS_INLINE void row_codes_q5_1(const uint8_t *block, __m512i q[2])
{
    const uint8_t *fifth = block + offsetof(quant_q5_1, qh);
    four_nibbles(block + offsetof(quant_q5_1, qs), sizeof(quant_q5_1), q);
    q[0] = fifth_bits(fifth, sizeof(quant_q5_1), q[0]);
    q[1] = fifth_bits(fifth + 2, sizeof(quant_q5_1), q[1]);
}

ALWAYS_INLINE void row_codes_q8_0(const uint8_t *block, __m512i q[2])
{
    const uint8_t *qs = block + offsetof(quant_q8_0, qs);
    EACH(half, 2)
    {
        q[half] = _mm512_xor_si512(load_four(qs + 16 * half, sizeof(quant_q8_0)),
                                   _mm512_set1_epi8((char)0x80));
    }
}

ALWAYS_INLINE void row_codes_iq4_nl(const uint8_t *block, __m512i q[2])
{
    const __m512i values = iq4_values_unsigned();
    four_nibbles(block + offsetof(quant_iq4_nl, qs), sizeof(quant_iq4_nl), q);
    q[0] = _mm512_shuffle_epi8(values, q[0]);
    q[1] = _mm512_shuffle_epi8(values, q[1]);
}

static const rows_format rows_q4_0 = {sizeof(quant_q4_0), 8, false, row_codes_q4_0};
static const rows_format rows_q4_1 = {sizeof(quant_q4_1), 0, true, row_codes_q4_1};
static const rows_format rows_q5_0 = {sizeof(quant_q5_0), 16, false, row_codes_q5_0};
static const rows_format rows_q5_1 = {sizeof(quant_q5_1), 0, true, row_codes_q5_1};
static const rows_format rows_q8_0 = {sizeof(quant_q8_0), 128, false, row_codes_q8_0};
static const rows_format rows_iq4_nl = {sizeof(quant_iq4_nl), 128, false, row_codes_iq4_nl};

/* ---- four rows by four blocks ---- */

/* Lane 4c + r: dword 0 of quarter c of v[r]. */
ALWAYS_INLINE __m512i first_dwords(const __m512i v[ROWS])
{
    return _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(v[0], v[1]),
                                 _mm512_unpacklo_epi32(v[2], v[3]));
}

/* Lane 4c + r: the sum of the lanes of quarter c of v[r]. */
ALWAYS_INLINE __m512i add_lanes(const __m512i v[ROWS])
{
    const __m512i a =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]), _mm512_unpackhi_epi32(v[0], v[1]));
    const __m512i b =
        _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]), _mm512_unpackhi_epi32(v[2], v[3]));
    return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Factors of four chain steps: acc = fma(d, isum, acc), acc = fma(m, sum of x, acc). */
typedef struct row_steps {
    _Alignas(64) float d[STEP][ROWS], isum[STEP][ROWS], m[STEP][ROWS];
} row_steps;

/* Step s of the rows at row[]. */
ALWAYS_INLINE void rows_multiply(const rows_format *f, const uint8_t *const row[ROWS],
                                 const rows_x *x, size_t s, row_steps *out)
{
    const size_t bytes = (size_t)f->block_bytes;
    __m512i sum[ROWS], head[ROWS];
    EACH(r, ROWS)
    {
        __m512i q[2];
        f->codes(row[r], q);
        sum[r] = _mm512_load_si512(x->start + 16 * s);
        sum[r] = _mm512_dpbusd_epi32(sum[r], q[0], _mm512_load_si512(x->q + 128 * s));
        sum[r] = _mm512_dpbusd_epi32(sum[r], q[1], _mm512_load_si512(x->q + 128 * s + 64));
        head[r] = load_four(row[r], bytes);
    }
    const __m512 dx = _mm512_load_ps(x->d + 16 * s);
    const __m512i dm = first_dwords(head);
    _mm512_store_ps(out->isum[0], _mm512_cvtepi32_ps(add_lanes(sum)));
    _mm512_store_ps(out->d[0], _mm512_mul_ps(widen_f16(dm, 0), dx));
    if (f->has_m)
        _mm512_store_ps(out->m[0], _mm512_mul_ps(widen_f16(dm, 16), dx));
}

ALWAYS_INLINE __m128 rows_chain(const rows_format *f, const row_steps *w, const float *sum, int n,
                                __m128 acc)
{
    EACH(c, n)
    {
        acc = _mm_fmadd_ps(_mm_load_ps(w->d[c]), _mm_load_ps(w->isum[c]), acc);
        if (f->has_m)
            acc = _mm_fmadd_ps(_mm_load_ps(w->m[c]), _mm_load_ps(sum + 4 * c), acc);
    }
    return acc;
}

/* The last blocks of four rows, n < 4 of them, copied: nothing is read past them. */
ALWAYS_INLINE __m128 rows_last_blocks(const rows_format *f, const uint8_t *const row[ROWS],
                                      const rows_x *x, size_t s, size_t n, __m128 acc)
{
    const size_t bytes = (size_t)f->block_bytes;
    uint8_t stage[ROWS][STEP * sizeof(quant_q8_0)] = {0};
    const uint8_t *staged[ROWS];
    for (size_t r = 0; r < ROWS; r++) {
        memcpy(stage[r], row[r], n * bytes);
        staged[r] = stage[r];
    }
    row_steps w;
    rows_multiply(f, staged, x, s, &w);
    return rows_chain(f, &w, x->sum + 16 * s, (int)n, acc);
}

/* Four rows of `blocks` blocks each. */
ALWAYS_INLINE __m128 four_rows(const rows_format *f, const uint8_t *row[ROWS], size_t blocks,
                               const rows_x *x)
{
    const size_t bytes = (size_t)f->block_bytes;
    const char *ahead = (const char *)row[0] + ROWS_FAR;
    __m128 acc = _mm_setzero_ps();
    for (size_t s = 0; s < blocks / STEP; s++) {
        EACH(i, (ROWS * STEP * f->block_bytes + 63) / 64)
        {
            _mm_prefetch(ahead + 64 * i, _MM_HINT_T1);
        }
        ahead += ROWS * STEP * bytes;
        row_steps w;
        rows_multiply(f, row, x, s, &w);
        acc = rows_chain(f, &w, x->sum + 16 * s, STEP, acc);
        EACH(r, ROWS)
        {
            row[r] += STEP * bytes;
        }
    }
    if (blocks % STEP != 0)
        acc = rows_last_blocks(f, row, x, blocks / STEP, blocks % STEP, acc);
    return acc;
}

/* ---- activations ---- */

/* Blocks past the end are zero. */
ALWAYS_INLINE void rows_prepare_step(const rows_format *f, const kern_act *a, size_t s,
                                     const rows_x *x)
{
    const size_t blocks = a->cols / QUANT_BLOCK;
    for (size_t c = 0; c < STEP; c++) {
        const size_t b = s * STEP + c;
        const bool there = b < blocks;
        __m128i half[2] = {_mm_setzero_si128(), _mm_setzero_si128()};
        if (there) {
            half[0] = _mm_loadu_si128((const __m128i *)(a->q + b * QUANT_BLOCK));
            half[1] = _mm_loadu_si128((const __m128i *)(a->q + b * QUANT_BLOCK + 16));
        }
        _mm_store_si128((__m128i *)(x->q + 128 * s + 16 * c), half[0]);
        _mm_store_si128((__m128i *)(x->q + 128 * s + 64 + 16 * c), half[1]);
        const __m128i offset = _mm_set1_epi8((char)f->offset);
        __m128i sum = _mm_dpbusd_epi32(_mm_setzero_si128(), offset, half[0]);
        sum = _mm_dpbusd_epi32(sum, offset, half[1]);
        _mm_store_si128((__m128i *)(x->start + 16 * s + 4 * c),
                        _mm_sub_epi32(_mm_setzero_si128(), sum));
        _mm_store_ps(x->d + 16 * s + 4 * c, _mm_set1_ps(there ? a->d[b] : 0));
        if (f->has_m)
            _mm_store_ps(x->sum + 16 * s + 4 * c, _mm_set1_ps(there ? (float)a->sum[b] : 0));
    }
}

ALWAYS_INLINE rows_x rows_prepare(const rows_format *f, const kern_act *a, unsigned char *buffer)
{
    const size_t steps = (a->cols / QUANT_BLOCK + STEP - 1) / STEP;
    rows_x x = {.q = (int8_t *)buffer};
    x.start = (int32_t *)(x.q + steps * 128);
    x.d = (float *)(x.start + steps * 16);
    x.sum = x.d + steps * 16;
    for (size_t s = 0; s < steps; s++)
        rows_prepare_step(f, a, s, &x);
    return x;
}

/* One token. The weight rows have no gaps. */
ALWAYS_INLINE void gemv_along_rows(const rows_format *f, const kern_gemm_args *a)
{
    const rows_x x = rows_prepare(f, a->x, a->scratch);
    const size_t blocks = a->x->cols / QUANT_BLOCK;
    for (size_t r0 = 0; r0 < a->rows; r0 += ROWS) {
        const size_t left = a->rows - r0;
        const uint8_t *row[ROWS]; /* rows past the end repeat the last */
        for (size_t r = 0; r < ROWS; r++)
            row[r] = (const uint8_t *)a->w + (r0 + (r < left ? r : left - 1)) * a->row_bytes;
        const __m128 y = four_rows(f, row, blocks, &x);
        _mm_mask_storeu_ps(a->y + r0, left < ROWS ? (__mmask8)((1 << left) - 1) : 15, y);
    }
}

#endif
