/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_avx2.h - common parts of the integer GEMM kernels for AVX2 and AVX-VNNI.
 *
 * The layout is that of AVX-512 (gemm_panel_avx512.h): each lane of a vector is a row and holds
 * four consecutive codes, and the codes of a token are broadcast. So no horizontal sum is needed. A
 * panel is 16 rows in two groups of 8.
 *
 * A dot_*.h has the products of codes: with AVX2, or with AVX-VNNI.
 */
#ifndef MOTE_KERNELS_X86_GEMM_PANEL_AVX2_H
#define MOTE_KERNELS_X86_GEMM_PANEL_AVX2_H

#include "kernels/variants.h"
#include "quant/blocks.h"

#include <immintrin.h>
#include <string.h>

enum {
    LANES = 8,  /* rows per group: 32-bit lanes of a vector */
    GROUPS = 2, /* per panel: two weight vectors share one broadcast */
    PANEL = GROUPS * LANES,
    TILE = 3, /* tokens per tile: 2 x 3 sums of two kinds, 2 weights, 2 temporaries */
    SLAB_COLS = 256,
    SLAB_VECTORS = SLAB_COLS / 4,
    L2_BUDGET = 320 << 10, /* activations that stay in L2 while all panels use them */
    MIN_CHUNK = 64         /* minimum tokens per chunk, so that unpacking pays off */
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Unrolled loop over the registers of a tile. Not unrolled, its arrays would be in memory. */
#ifdef __clang__
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#endif

/* Loads 16 bytes of each of 8 rows, transposed: out[i] has dword i of every row. */
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

/* v shifted left by `left` bits (right if negative), and masked. */
ALWAYS_INLINE __m256i shift_and_mask(__m256i v, int left, int mask)
{
    const __m256i moved = left >= 0 ? _mm256_slli_epi32(v, left) : _mm256_srli_epi32(v, -left);
    return _mm256_and_si256(moved, _mm256_set1_epi32(mask));
}

/* The f16 in the low (shift 0) or high (shift 16) half of each lane, as f32. */
ALWAYS_INLINE __m256 widen_f16(__m256i lanes, int shift)
{
    const __m256i low = bits(lanes, shift, 0xFFFF);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

/* Lookup table of IQ4_NL and IQ4_XS for vpshufb. */
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

/* Bytes a and b of each lane as two unsigned 16-bit numbers. */
ALWAYS_INLINE __m256i bytes_to_pair(__m256i v, int a, int b)
{
    const int one = a | 0x80 << 8 | b << 16 | (int)0x80000000;
    return _mm256_shuffle_epi8(v, _mm256_setr_epi32(one, one + 0x040004, one + 0x080008,
                                                    one + 0x0C000C, one, one + 0x040004,
                                                    one + 0x080008, one + 0x0C000C));
}

/* IQ4 values of 16 bytes of nibbles. The low nibbles are the first sixteen columns. */
ALWAYS_INLINE void iq4_lookup(const uint8_t *qs, size_t stride, __m256i q[8])
{
    const __m256i values = iq4_values();
    __m256i v[4];
    load_columns(qs, stride, v);
    EACH(k, 4)
    {
        q[k] = _mm256_shuffle_epi8(values, bits(v[k], 0, 0x0F0F0F0F));
        q[k + 4] = _mm256_shuffle_epi8(values, bits(v[k], 4, 0x0F0F0F0F));
    }
}

/* ---- outputs ---- */

/* Accumulators of a panel: they are in y between slabs. */
typedef struct tile_y {
    float *y;
    size_t stride; /* between tokens */
    size_t rows;   /* rows of the matrix that remain, from the first of the panel on */
    bool first;    /* first slab: accumulators start at 0 */
} tile_y;

/* Mask of the lanes of group g that are rows of the matrix. */
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

/* Tokens of the next tile if n remain: 3, but 2 + 2 instead of 3 + 1. */
static inline size_t next_tile(size_t n)
{
    if (n == TILE + 1)
        return 2;
    return n < TILE ? n : TILE;
}

/* Copies the last rows of the matrix, fewer than 8, to `stage` and zeroes the other rows. So
 * unpacking needs no special case and does not read past the last row. */
static inline const uint8_t *stage_rows(const uint8_t *p, size_t stride, size_t rows, size_t bytes,
                                        uint8_t *stage)
{
    memset(stage, 0, LANES * bytes);
    for (size_t r = 0; r < rows; r++)
        memcpy(stage + r * bytes, p + r * stride, bytes);
    return stage;
}

/* Prefetches `bytes` bytes at p to the L1 cache, and those 16 KiB after to the L2 cache, which keeps
 * more reads in flight. Past the end of the matrix are the rows of the next task. */
static inline void prefetch_bytes(const uint8_t *p, size_t bytes)
{
    enum { FAR = 16 << 10 };
    for (size_t i = 0; i < bytes; i += 64) {
        _mm_prefetch((const char *)(p + i), _MM_HINT_T0);
        _mm_prefetch((const char *)(p + FAR + i), _MM_HINT_T1);
    }
}

/* Tokens per chunk: as many as stay in the L2 cache while all panels use them. A token needs
 * `prepared` bytes of scratch. */
static inline size_t chunk_tokens(size_t cols, size_t prepared, size_t room)
{
    const size_t cached = L2_BUDGET / (cols + prepared);
    const size_t wanted = cached > MIN_CHUNK ? cached : MIN_CHUNK;
    return prepared == 0 || wanted < room / prepared ? wanted : room / prepared;
}

#endif
