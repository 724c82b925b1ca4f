/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_avx512.h - common parts of the integer GEMM kernels for AVX-512 VNNI.
 *
 * A panel is 32 weight rows in two groups of 16. A slab is 256 columns of a group, repacked: each
 * 32-bit lane of a vector is a row and holds four consecutive unsigned codes:
 *
 *     q[k] = { row 0: codes 4k .. 4k+3, row 1: codes 4k .. 4k+3, ... }
 *
 * vpdpbusd multiplies such a vector by four codes of one token, broadcast, and adds within the
 * lane. So no horizontal sum is needed, and a vector holds the float chains of 16 outputs. The
 * slabs of a panel fit in the L1 cache; all tokens use them, six per tile. Between slabs the
 * accumulators of a panel are stored in scratch memory, [tokens][32], not in y: rows of y are often
 * a multiple of 4 KiB apart, so they would map to the same cache sets.
 *
 * Codes are unsigned because vpdpbusd takes one unsigned operand. If a code is q + offset, the
 * integer sum starts at -offset * (sum of the activations) instead of 0. This is exact and free:
 * the start value is a broadcast load.
 */
#ifndef MOTE_KERNELS_X86_GEMM_PANEL_AVX512_H
#define MOTE_KERNELS_X86_GEMM_PANEL_AVX512_H

#include "kernels/variants.h"
#include "quant/blocks.h"

#include <immintrin.h>
#include <string.h>

enum {
    LANES = 16, /* rows per group: 32-bit lanes of a vector */
    GROUPS = 2, /* per panel: two weight vectors share one broadcast */
    PANEL = GROUPS * LANES,
    TILE = 6,  /* tokens per tile: 2 x 6 sums and 2 x 6 group sums fill the registers */
    MANY = 24, /* from this many tokens on the kernel is compute-bound */
    SLAB_COLS = 256,
    SLAB_VECTORS = SLAB_COLS / 4,
    MAX_BLOCK_BYTES = 288 /* of a superblock; a multiple of 4 */
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Unrolled loop over the registers of a tile. Not unrolled, its arrays would be in memory. */
#ifdef __clang__
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#endif

/* Loads 16 bytes of each of 16 rows, transposed: out[i] has dword i of every row. */
ALWAYS_INLINE void load_columns(const uint8_t *p, size_t stride, __m512i out[4])
{
    /* Prevents the compiler from keeping 16 row addresses live over several calls, which would
     * spill registers. Address arithmetic with four pointers and a stride is free. */
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

/* The f16 in the low (shift 0) or high (shift 16) half of each lane, as f32. */
ALWAYS_INLINE __m512 widen_f16(__m512i lanes, int shift)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(lanes, (unsigned)shift)));
}

/* Lookup table of IQ4_NL and IQ4_XS for vpshufb: the values plus 128. */
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

/* Mask of the lanes of group g that are rows of the matrix; `rows` rows remain. */
static inline __mmask16 row_mask(size_t rows, size_t g)
{
    if (rows >= (g + 1) * LANES)
        return 0xFFFF;
    return rows <= g * LANES ? 0 : (__mmask16)((1u << (rows - g * LANES)) - 1);
}

/* Tokens of the next tile if n < MANY tokens remain: tiles get nearly equal sizes. Avoids a
 * division, which would take a quarter of the time of a small tile. */
static inline size_t next_tile(size_t n)
{
    if (n <= TILE)
        return n;
    if (n <= 2 * TILE)
        return (n + 1) / 2;
    return n <= 3 * TILE ? (n + 2) / 3 : TILE;
}

/* Copies the finished accumulators of a panel to y. `rows` rows of the matrix remain. */
static inline void panel_store(const float *chains, size_t n, float *y, size_t y_stride,
                               size_t rows)
{
    const __mmask16 first = row_mask(rows, 0), second = row_mask(rows, 1);
    for (size_t t = 0; t < n; t++, chains += PANEL, y += y_stride) {
        _mm512_mask_storeu_ps(y, first, _mm512_load_ps(chains));
        _mm512_mask_storeu_ps(y + LANES, second, _mm512_load_ps(chains + LANES));
    }
}

/* Copies the last rows of the matrix, fewer than 16, to `stage` and zeroes the other rows. So
 * unpacking needs no special case and does not read past the last row. */
static inline const uint8_t *stage_rows(const uint8_t *p, size_t stride, size_t rows, size_t bytes,
                                        uint8_t *stage)
{
    memset(stage, 0, LANES * bytes);
    for (size_t r = 0; r < rows; r++)
        memcpy(stage + r * bytes, p + r * stride, bytes);
    return stage;
}

/* Software prefetch spread over other work, a few cache lines at a time. Prefetching all lines at
 * once would fill the line fill buffers and stall the loads; prefetching none would leave memory
 * idle. Addresses past the end of the weights are allowed: a prefetch never faults. */
typedef struct prefetch_ahead {
    const char *line, *due;
    size_t step; /* bytes per call of prefetch_next_lines */
} prefetch_ahead;

static inline prefetch_ahead prefetch_from(const uint8_t *p)
{
    return (prefetch_ahead){(const char *)p, (const char *)p, 0};
}

ALWAYS_INLINE void prefetch_next_lines(prefetch_ahead *a)
{
    for (a->due += a->step; a->line < a->due; a->line += 64)
        _mm_prefetch(a->line, _MM_HINT_T1);
}

/* The output rows of a panel, for prefetch. Rows of y are pages apart, so the hardware prefetcher
 * does not find them; the cache misses took 10 to 20 % of the time of a GEMM with many tokens. So
 * the lines are prefetched during the last slab. */
typedef struct output_rows {
    float *y; /* next token, first row of the panel; NULL before the last slab */
    size_t stride;
} output_rows;

/* Prefetches the output lines of the next n tokens. */
ALWAYS_INLINE void prefetch_outputs(output_rows *o, size_t n)
{
    if (o->y == NULL)
        return;
    for (size_t t = 0; t < n; t++, o->y += o->stride) {
        __builtin_prefetch(o->y, 1, 3);
        __builtin_prefetch(o->y + LANES, 1, 3);
    }
}

/* Number of tiles for n tokens. */
static inline size_t tile_count(size_t n)
{
    return (n + TILE - 1) / TILE;
}

#endif
