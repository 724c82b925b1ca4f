/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_avx512.c - the functions of quant/unpack.c for formats with code books, AVX-512.
 *
 * 64 values at a time: a gather reads the entries of the code book, and the 64 sign bits are a mask.
 * One token spends most of its time in unpacking, so this decides its speed.
 */
#include "kernels/book_signs.h"
#include "kernels/gemm_unpacked.h"

#include "quant/grids.h"
#include "quant/half.h"
#include "quant/unpack.h"

#include <immintrin.h>

enum { PARTS = QUANT_SUPERBLOCK / 64 };

/* Stores 64 values. */
BOOK_INLINE void store_signed(int8_t *to, __m512i bytes, uint64_t signs)
{
    const __m512i zero = _mm512_setzero_si512();
    _mm512_storeu_si512(to, _mm512_mask_sub_epi8(bytes, (__mmask64)signs, zero, bytes));
}

BOOK_INLINE __m512i gather_8(const uint64_t *grid, __m512i index)
{
    return _mm512_i64gather_epi64(index, (const long long *)grid, 8);
}

BOOK_INLINE __m512i gather_16(const uint32_t *grid, __m512i index)
{
    return _mm512_i32gather_epi32(index, (const int *)grid, 4);
}

/* Eight bytes of indices, as 64-bit lanes. */
BOOK_INLINE __m512i index_8(uint64_t bytes)
{
    return _mm512_cvtepu8_epi64(_mm_cvtsi64_si128((long long)bytes));
}

BOOK_INLINE __m512i index_16(const uint8_t *bytes)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)bytes));
}

/* The top four bits of two dwords are the scales of two groups of 32. */
BOOK_INLINE void set_scales_32(int8_t scale[4], uint64_t two)
{
    memset(scale, (int)(2 * (two >> 28 & 15) + 1), 2);
    memset(scale + 2, (int)(2 * (two >> 60) + 1), 2);
}

/* Nibbles of scales. */
BOOK_INLINE void set_scales_16(int8_t scale[16], const uint8_t nibbles[8])
{
    const __m128i v = _mm_loadl_epi64((const __m128i *)nibbles), mask = _mm_set1_epi8(15);
    const __m128i four =
        _mm_unpacklo_epi8(_mm_and_si128(v, mask), _mm_and_si128(_mm_srli_epi16(v, 4), mask));
    const __m128i odd = _mm_add_epi8(_mm_add_epi8(four, four), _mm_set1_epi8(1));
    _mm_storeu_si128((__m128i *)scale, odd);
}

bool k_unpack_iq2_xxs_avx512(const void *block, void *to)
{
    const quant_iq2_xxs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    for (int p = 0; p < PARTS; p++) {
        const uint64_t first = load_u64(b->qs + 16 * p), second = load_u64(b->qs + 16 * p + 8);
        const uint64_t index = (uint32_t)first | second << 32;
        const uint64_t signs = first >> 32 | (second >> 32 << 32);
        set_scales_32(out->scale + 4 * p, signs);
        store_signed(out->q + 64 * p, gather_8(quant_grid_iq2_xxs, index_8(index)),
                     even_signs(spread_sevens(signs)));
    }
    return true;
}

bool k_unpack_iq2_xs_avx512(const void *block, void *to)
{
    const quant_iq2_xs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    set_scales_16(out->scale, b->scales);
    for (int p = 0; p < PARTS; p++) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(b->qs + 8 * p));
        const __m128i sevens = _mm_cvtepi16_epi8(_mm_srli_epi16(v, 9));
        const __m512i index = _mm512_cvtepu16_epi64(_mm_and_si128(v, _mm_set1_epi16(511)));
        store_signed(out->q + 64 * p, gather_8(quant_grid_iq2_xs, index),
                     even_signs((uint64_t)_mm_cvtsi128_si64(sevens)));
    }
    return true;
}

bool k_unpack_iq2_s_avx512(const void *block, void *to)
{
    const quant_iq2_s *b = block;
    quant_i8_256 *out = to;
    const __m512i shift = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
    out->d = half_f16_to_f32(b->d) * 0.125f;
    set_scales_16(out->scale, b->scales);
    for (int p = 0; p < PARTS; p++) {
        const __m512i high =
            _mm512_and_si512(_mm512_srlv_epi64(_mm512_set1_epi64(load_u16(b->qh + 2 * p)), shift),
                             _mm512_set1_epi64(3));
        const __m512i index =
            _mm512_or_si512(index_8(load_u64(b->qs + 8 * p)), _mm512_slli_epi64(high, 8));
        store_signed(out->q + 64 * p, gather_8(quant_grid_iq2_s, index),
                     load_u64(b->signs + 8 * p));
    }
    return true;
}

bool k_unpack_iq3_xxs_avx512(const void *block, void *to)
{
    const quant_iq3_xxs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.25f;
    for (int p = 0; p < PARTS; p++) {
        const uint64_t signs = load_u64(b->signs + 8 * p);
        set_scales_32(out->scale + 4 * p, signs);
        store_signed(out->q + 64 * p, gather_16(quant_grid_iq3_xxs, index_16(b->qs + 16 * p)),
                     even_signs(spread_sevens(signs)));
    }
    return true;
}

bool k_unpack_iq3_s_avx512(const void *block, void *to)
{
    const quant_iq3_s *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d);
    for (int p = 0; p < PARTS; p++) {
        const __m512i low = index_16(b->qs + 16 * p);
        const __m512i index = _mm512_mask_or_epi32(low, (__mmask16)load_u16(b->qh + 2 * p), low,
                                                   _mm512_set1_epi32(256));
        memset(out->scale + 4 * p, 2 * (b->scales[p] & 15) + 1, 2);
        memset(out->scale + 4 * p + 2, 2 * (b->scales[p] >> 4) + 1, 2);
        store_signed(out->q + 64 * p, gather_16(quant_grid_iq3_s, index),
                     load_u64(b->signs + 8 * p));
    }
    return true;
}

/* Entries are 128 + 8 v; lanes in `minus` subtract 1, the others add it. */
BOOK_INLINE void store_shifted(int8_t *to, __m512i entries, __mmask8 minus)
{
    const __m512i shift =
        _mm512_mask_blend_epi64(minus, _mm512_set1_epi8((char)0x81), _mm512_set1_epi8(0x7F));
    _mm512_storeu_si512(to, _mm512_add_epi8(entries, shift));
}

bool k_unpack_iq1_s_avx512(const void *block, void *to)
{
    const quant_iq1_s *b = block;
    quant_i8_256 *out = to;
    const __m512i shift = _mm512_setr_epi64(0, 3, 6, 9, 16, 19, 22, 25);
    out->d = half_f16_to_f32(b->d) * 0.125f;
    for (int p = 0; p < PARTS; p++) {
        const uint32_t two = load_u32(b->qh + 2 * p);
        const __m512i high = _mm512_and_si512(_mm512_srlv_epi64(_mm512_set1_epi64(two), shift),
                                              _mm512_set1_epi64(7));
        const __m512i index =
            _mm512_or_si512(index_8(load_u64(b->qs + 8 * p)), _mm512_slli_epi64(high, 8));
        memset(out->scale + 4 * p, (int)(2 * (two >> 12 & 7) + 1), 2);
        memset(out->scale + 4 * p + 2, (int)(2 * (two >> 28 & 7) + 1), 2);
        store_shifted(out->q + 64 * p, gather_8(quant_grid_iq1, index),
                      (__mmask8)((two >> 15 & 1) * 0x0F | (two >> 31) * 0xF0));
    }
    return true;
}

bool k_unpack_iq1_m_avx512(const void *block, void *to)
{
    const quant_iq1_m *b = block;
    quant_i8_256 *out = to;
    const __m512i shift = _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28);
    uint32_t d = 0;
    for (int p = 0; p < PARTS; p++) {
        const uint32_t word = load_u16(b->scales + 2 * p);
        const __m512i nibble = _mm512_srlv_epi64(_mm512_set1_epi64(load_u32(b->qh + 4 * p)), shift);
        const __m512i high = _mm512_and_si512(nibble, _mm512_set1_epi64(7));
        const __m512i index =
            _mm512_or_si512(index_8(load_u64(b->qs + 8 * p)), _mm512_slli_epi64(high, 8));
        d |= word >> 12 << (4 * p);
        for (int k = 0; k < 4; k++)
            out->scale[4 * p + k] = (int8_t)(2 * (word >> (3 * k) & 7) + 1);
        store_shifted(out->q + 64 * p, gather_8(quant_grid_iq1, index),
                      _mm512_test_epi64_mask(nibble, _mm512_set1_epi64(8)));
    }
    out->d = half_f16_to_f32((uint16_t)d) * 0.125f;
    return true;
}

bool k_unpack_mxfp4_avx512(const void *block, void *to)
{
    const quant_mxfp4 *b = block;
    quant_q8_0 *out = to;
    const __m128i values = _mm_loadu_si128((const __m128i *)quant_fp4_values);
    const __m128i v = _mm_loadu_si128((const __m128i *)b->qs), mask = _mm_set1_epi8(15);
    /* The f16 of 2^(e - 128): an exponent, or one bit of a subnormal number. */
    out->d = (uint16_t)(b->e >= 114 ? (b->e - 113) << 10 : 1 << (b->e >= 104 ? b->e - 104 : 0));
    _mm_storeu_si128((__m128i *)out->qs, _mm_shuffle_epi8(values, _mm_and_si128(v, mask)));
    _mm_storeu_si128((__m128i *)(out->qs + 16),
                     _mm_shuffle_epi8(values, _mm_and_si128(_mm_srli_epi16(v, 4), mask)));
    return b->e >= 104 && b->e <= 143;
}
