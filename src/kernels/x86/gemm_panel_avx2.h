/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_avx2.h - what the integer products of AVX2 share.
 *
 * As with AVX-512 (gemm_panel_avx512.h) the lanes of a vector are rows, each lane
 * holds four neighbouring codes, and the codes of a token are broadcast, so that
 * no sum across lanes is ever needed. A panel is 16 rows, two groups of 8.
 *
 * There is no vpdpbusd. vpmaddubsw multiplies unsigned weights with signed
 * activations and adds pairs into 16 bits, saturating: 2 * 127 * 63 = 16,002 at
 * most here, so it never does. The 16-bit results of a piece of a group are added
 * up, and vpmaddwd with { scale, scale } turns the two halves of a lane into one
 * 32-bit term. vpaddw wraps, so only the finished sum of a piece must fit 16 bits.
 * Codes that stand for q - offset start the piece at -offset * (the activations of
 * each half): exact, and the start is a broadcast load.
 */
#ifndef MOTE_KERNELS_X86_GEMM_PANEL_AVX2_H
#define MOTE_KERNELS_X86_GEMM_PANEL_AVX2_H

#include "kernels/variants.h"
#include "quant/blocks.h"

#include <immintrin.h>
#include <string.h>

enum {
    LANES = 8,  /* rows of a group: 32-bit lanes of a vector */
    GROUPS = 2, /* of a panel: two vectors of weights share a broadcast of codes */
    PANEL = GROUPS * LANES,
    TILE = 3, /* tokens at once: 2 x 3 sums of two kinds, 2 weights, 2 to work with */
    SLAB_COLS = 256,
    SLAB_VECTORS = SLAB_COLS / 4,
    L2_BUDGET = 320 << 10, /* of activations that all panels of a call share */
    MIN_CHUNK = 64         /* tokens that make unpacking a slab worth it */
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* A loop over the registers of a tile: left rolled, its arrays would live in memory. */
#ifdef __clang__
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#endif

/* 16 bytes of each of 8 rows, as four vectors: out[i] has dword i of every row. */
ALWAYS_INLINE void load_columns(const uint8_t *p, size_t stride, __m256i out[4])
{
    const uint8_t *p4 = p + 4 * stride;
    __m256i a[4]; /* a[i]: rows i and 4 + i in the two halves */
    EACH(i, 4)
    {
        const size_t at = (size_t)i * stride;
        a[i] = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(p + at)));
        a[i] = _mm256_inserti128_si256(a[i], _mm_loadu_si128((const __m128i *)(p4 + at)), 1);
    }
    const __m256i lo01 = _mm256_unpacklo_epi32(a[0], a[1]),
                  hi01 = _mm256_unpackhi_epi32(a[0], a[1]);
    const __m256i lo23 = _mm256_unpacklo_epi32(a[2], a[3]),
                  hi23 = _mm256_unpackhi_epi32(a[2], a[3]);
    out[0] = _mm256_unpacklo_epi64(lo01, lo23);
    out[1] = _mm256_unpackhi_epi64(lo01, lo23);
    out[2] = _mm256_unpacklo_epi64(hi01, hi23);
    out[3] = _mm256_unpackhi_epi64(hi01, hi23);
}

ALWAYS_INLINE __m256i bits(__m256i v, int shift, int mask)
{
    return _mm256_and_si256(_mm256_srli_epi32(v, shift), _mm256_set1_epi32(mask));
}

/* The bytes of v, shifted left by `left` bits (right if negative), under a mask. */
ALWAYS_INLINE __m256i moved_bits(__m256i v, int left, int mask)
{
    const __m256i moved = left >= 0 ? _mm256_slli_epi32(v, left) : _mm256_srli_epi32(v, -left);
    return _mm256_and_si256(moved, _mm256_set1_epi32(mask));
}

/* The f16 in the low (shift 0) or high (shift 16) half of each lane, widened. */
ALWAYS_INLINE __m256 f16_of(__m256i lanes, int shift)
{
    const __m256i low = bits(lanes, shift, 0xFFFF);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

/* What the codes of IQ4_NL and IQ4_XS stand for, for a byte shuffle. */
ALWAYS_INLINE __m256i iq4_values(void)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)quant_iq4_values));
}

ALWAYS_INLINE __m256i set1_at(const void *dword)
{
    int32_t value;
    memcpy(&value, dword, sizeof value);
    return _mm256_set1_epi32(value);
}

/* a + b in 16 bits, now and in a register: left alone, gcc puts off the additions of a
 * piece and spills its products. */
ALWAYS_INLINE __m256i add_now(__m256i a, __m256i b)
{
    __m256i sum = _mm256_add_epi16(a, b);
    __asm__("" : "+x"(sum));
    return sum;
}

/* ---- outputs ---- */

/* Where the chains of a panel rest. */
typedef struct tile_y {
    float *y;
    size_t stride; /* between tokens */
    size_t rows;   /* of the matrix, from the first of the panel on */
    bool first;    /* the chains begin here */
} tile_y;

/* The lanes of group g that are rows of the matrix. */
static inline __m256i row_mask(size_t rows, size_t g)
{
    static const int32_t window[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};
    const size_t left = rows > g * LANES ? rows - g * LANES : 0;
    return _mm256_loadu_si256((const __m256i *)(window + LANES - (left < LANES ? left : LANES)));
}

ALWAYS_INLINE __m256 load_chains(const tile_y *out, size_t t, size_t g)
{
    const float *y = out->y + t * out->stride + g * LANES;
    if (out->first)
        return _mm256_setzero_ps();
    if (out->rows >= PANEL)
        return _mm256_loadu_ps(y);
    return _mm256_maskload_ps(y, row_mask(out->rows, g));
}

ALWAYS_INLINE void store_chains(const tile_y *out, size_t t, size_t g, __m256 acc)
{
    float *y = out->y + t * out->stride + g * LANES;
    if (out->rows >= PANEL)
        _mm256_storeu_ps(y, acc);
    else
        _mm256_maskstore_ps(y, row_mask(out->rows, g), acc);
}

/* ---- rows ---- */

/* Tokens of the next tile when n are left: threes, but two twos rather than a three and
 * a one. */
static inline size_t next_tile(size_t n)
{
    if (n == TILE + 1)
        return 2;
    return n < TILE ? n : TILE;
}

/* A group with fewer than 8 rows left is copied beside zeros, so that unpacking
 * needs no tails and reads nothing beyond the last row. */
static inline const uint8_t *stage_rows(const uint8_t *p, size_t stride, size_t rows, size_t bytes,
                                        uint8_t *stage)
{
    memset(stage, 0, LANES * bytes);
    for (size_t r = 0; r < rows; r++)
        memcpy(stage + r * bytes, p + r * stride, bytes);
    return stage;
}

static inline void prefetch_bytes(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_prefetch((const char *)(p + i), _MM_HINT_T0);
}

/* Asks for the bytes that the panel after this one has in the same columns. */
static inline void prefetch_panel(const uint8_t *p, size_t stride, size_t bytes)
{
    for (size_t r = PANEL; r < 2 * PANEL; r++)
        prefetch_bytes(p + r * stride, bytes);
}

/* Tokens whose activations stay in the second-level cache while panel after panel
 * passes over them; `prepared` bytes of a token need room in the working memory. */
static inline size_t chunk_tokens(size_t cols, size_t prepared, size_t room)
{
    const size_t cached = L2_BUDGET / (cols + prepared);
    const size_t wanted = cached > MIN_CHUNK ? cached : MIN_CHUNK;
    return prepared == 0 || wanted < room / prepared ? wanted : room / prepared;
}

#endif
