/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_avx512.h - what the integer products of AVX-512 share.
 *
 * A panel is 32 weight rows, two groups of 16. A slab is 256 columns of a group,
 * unpacked from the file's layout so that the lane of a vector is a row and each
 * lane holds four neighbouring codes, unsigned:
 *
 *     q[k] = { row 0: codes 4k .. 4k+3, row 1: codes 4k .. 4k+3, ... }
 *
 * vpdpbusd then multiplies a vector of weights with four codes of one token,
 * broadcast, and adds up inside the lane: no sum across lanes is ever needed, and
 * the float chains of 16 outputs advance together. Two slabs fit the first-level
 * cache, all tokens are multiplied against them, six at a time. Between slabs the
 * chains of a panel rest in working memory, [tokens][32]: the rows of y are often a
 * multiple of 4 KiB apart, and lines so far apart push each other out of a cache.
 *
 * Codes are unsigned because vpdpbusd wants one unsigned side. A format whose
 * codes stand for q - offset starts the sum at -offset * (sum of the activations)
 * instead of 0, which is exact and costs nothing: that start is a broadcast load.
 */
#ifndef MOTE_KERNELS_X86_GEMM_PANEL_AVX512_H
#define MOTE_KERNELS_X86_GEMM_PANEL_AVX512_H

#include "kernels/variants.h"
#include "quant/blocks.h"

#include <immintrin.h>
#include <string.h>

enum {
    LANES = 16, /* rows of a group: 32-bit lanes of a vector */
    GROUPS = 2, /* of a panel: two vectors of weights share a broadcast of codes */
    PANEL = GROUPS * LANES,
    TILE = 6,  /* tokens at once: 2 x 6 sums and 2 x 6 group sums fill the registers */
    MANY = 24, /* tokens with which arithmetic takes longer than reading the weights */
    SLAB_COLS = 256,
    SLAB_VECTORS = SLAB_COLS / 4
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* A loop over the registers of a tile: left rolled, its arrays would live in memory. */
#ifdef __clang__
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#endif

/* 16 bytes of each of 16 rows, as four vectors: out[i] has dword i of every row. */
ALWAYS_INLINE void load_columns(const uint8_t *p, size_t stride, __m512i out[4])
{
    /* Keeps the compiler from holding 16 row addresses over several calls: it has not
     * so many registers, and sums of four pointers and three strides cost nothing. */
    __asm__("" : "+r"(stride));
    const uint8_t *p4 = p + 4 * stride, *p8 = p + 8 * stride, *p12 = p4 + 8 * stride;
    __m512i a[4]; /* a[i]: rows i, 4 + i, 8 + i, 12 + i in the four quarters */
    EACH(i, 4)
    {
        const size_t at = (size_t)i * stride;
        a[i] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(p + at)));
        a[i] = _mm512_inserti32x4(a[i], _mm_loadu_si128((const __m128i *)(p4 + at)), 1);
        a[i] = _mm512_inserti32x4(a[i], _mm_loadu_si128((const __m128i *)(p8 + at)), 2);
        a[i] = _mm512_inserti32x4(a[i], _mm_loadu_si128((const __m128i *)(p12 + at)), 3);
    }
    const __m512i lo01 = _mm512_unpacklo_epi32(a[0], a[1]),
                  hi01 = _mm512_unpackhi_epi32(a[0], a[1]);
    const __m512i lo23 = _mm512_unpacklo_epi32(a[2], a[3]),
                  hi23 = _mm512_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm512_unpacklo_epi64(lo01, lo23);
    out[1] = _mm512_unpackhi_epi64(lo01, lo23);
    out[2] = _mm512_unpacklo_epi64(hi01, hi23);
    out[3] = _mm512_unpackhi_epi64(hi01, hi23);
}

/* The f16 in the low (shift 0) or high (shift 16) half of each lane, widened. */
ALWAYS_INLINE __m512 f16_of(__m512i lanes, int shift)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(lanes, (unsigned)shift)));
}

/* What the codes of IQ4_NL and IQ4_XS stand for, plus 128, for a byte shuffle. */
ALWAYS_INLINE __m512i iq4_values_unsigned(void)
{
    const __m128i values = _mm_loadu_si128((const __m128i *)quant_iq4_values);
    return _mm512_xor_si512(_mm512_broadcast_i32x4(values), _mm512_set1_epi8((char)0x80));
}

ALWAYS_INLINE __m512i set1_at(const void *dword)
{
    int32_t value;
    memcpy(&value, dword, sizeof value);
    return _mm512_set1_epi32(value);
}

/* Lanes of group g that are rows of the matrix, when `rows` rows are left. */
static inline __mmask16 row_mask(size_t rows, size_t g)
{
    if (rows >= (g + 1) * LANES)
        return 0xFFFF;
    return rows <= g * LANES ? 0 : (__mmask16)((1u << (rows - g * LANES)) - 1);
}

/* Tokens of the next tile when n < MANY are left, so that tiles have nearly equal
 * size. No division: it would take a quarter of the time of a small tile. */
static inline size_t next_tile(size_t n)
{
    if (n <= TILE)
        return n;
    if (n <= 2 * TILE)
        return (n + 1) / 2;
    return n <= 3 * TILE ? (n + 2) / 3 : TILE;
}

/* The finished chains of a panel, of which `rows` rows are left, to y. */
static inline void store_chains(const float *chains, size_t n, float *y, size_t y_stride,
                                size_t rows)
{
    const __mmask16 first = row_mask(rows, 0), second = row_mask(rows, 1);
    for (size_t t = 0; t < n; t++, chains += PANEL, y += y_stride) {
        _mm512_mask_storeu_ps(y, first, _mm512_load_ps(chains));
        _mm512_mask_storeu_ps(y + LANES, second, _mm512_load_ps(chains + LANES));
    }
}

/* A group with fewer than 16 rows left is copied beside zeros, so that unpacking
 * needs no tails and reads nothing beyond the last row. */
static inline const uint8_t *stage_rows(const uint8_t *p, size_t stride, size_t rows, size_t bytes,
                                        uint8_t *stage)
{
    memset(stage, 0, LANES * bytes);
    for (size_t r = 0; r < rows; r++)
        memcpy(stage + r * bytes, p + r * stride, bytes);
    return stage;
}

/* Lines that are needed soon and are asked for a few at a time, among other work. All
 * at once they would fill the buffers of the loads, and everything would wait for
 * memory; while none is asked for, memory waits. Addresses past the end of the
 * weights are allowed: a hint reads nothing. */
typedef struct prefetch_ahead {
    const char *line, *due;
    size_t step; /* bytes that become due each time */
} prefetch_ahead;

static inline prefetch_ahead prefetch_for(const uint8_t *p)
{
    return (prefetch_ahead){(const char *)p, (const char *)p, 0};
}

ALWAYS_INLINE void prefetch_some(prefetch_ahead *a)
{
    for (a->due += a->step; a->line < a->due; a->line += 64)
        _mm_prefetch(a->line, _MM_HINT_T0);
}

/* Where the chains of a panel go in the end. Rows of y lie pages apart: no processor guesses
 * them, and waiting for each took a tenth to a fifth of the time of a product with many tokens.
 * So they are asked for while the last columns are multiplied. */
typedef struct outputs {
    float *y; /* of the next token and the first row; NULL before the last columns */
    size_t stride;
} outputs;

/* The next n tokens. */
ALWAYS_INLINE void ask_outputs(outputs *o, size_t n)
{
    if (o->y == NULL)
        return;
    for (size_t t = 0; t < n; t++, o->y += o->stride) {
        __builtin_prefetch(o->y, 1, 3);
        __builtin_prefetch(o->y + LANES, 1, 3);
    }
}

/* Tiles that n tokens make. */
static inline size_t tiles_of(size_t n)
{
    return (n + TILE - 1) / TILE;
}

#endif
