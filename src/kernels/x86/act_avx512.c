/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act_avx512.c - quantises activations to 8 bits, blocks of 256.
 *
 * Blocks of 32 have no AVX-512 variant: they are two vectors, and AVX2 is as fast. The operands of
 * minimum and maximum are ordered so that a NaN gives the result of the reference.
 */
#include "kernels/variants.h"

#include "quant/blocks.h"

#include <immintrin.h>

enum { WIDTH = 16 }; /* floats per vector */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* max |x| over a superblock. */
ALWAYS_INLINE float act_amax(const float *x)
{
    __m512 amax = _mm512_setzero_ps();
    for (int i = 0; i < QUANT_SUPERBLOCK; i += WIDTH)
        amax = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x + i)), amax);
    return _mm512_reduce_max_ps(amax);
}

/* Sixteen codes. The conversion rounds to nearest even. */
ALWAYS_INLINE __m128i act_codes(const float *x, __m512 inv)
{
    __m512 value = _mm512_mul_ps(_mm512_loadu_ps(x), inv);
    value = _mm512_min_ps(value, _mm512_set1_ps(127.0f));
    value = _mm512_max_ps(value, _mm512_set1_ps(-127.0f));
    return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(value));
}

/* 64 codes of 64 values. */
ALWAYS_INLINE __m512i act_codes_64(const float *x, __m512 inv)
{
    __m512i codes = _mm512_castsi128_si512(act_codes(x, inv));
    codes = _mm512_inserti32x4(codes, act_codes(x + WIDTH, inv), 1);
    codes = _mm512_inserti32x4(codes, act_codes(x + 2 * WIDTH, inv), 2);
    return _mm512_inserti32x4(codes, act_codes(x + 3 * WIDTH, inv), 3);
}

/* Sums of 16 codes each, of four vectors of 64 codes. */
ALWAYS_INLINE void act_sums_of_16(const __m512i codes[4], int16_t *sum)
{
    __m512i four[4]; /* sums of four codes */
    for (int i = 0; i < 4; i++)
        four[i] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(1), codes[i]);
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(four[0], four[1]),
                                        _mm512_unpackhi_epi32(four[0], four[1]));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(four[2], four[3]),
                                        _mm512_unpackhi_epi32(four[2], four[3]));
    /* Quarter i: groups i, 4 + i, 8 + i, 12 + i. */
    const __m512i by_quarter =
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i sums = _mm512_permutexvar_epi32(order, by_quarter);
    _mm256_storeu_si256((__m256i *)sum, _mm512_cvtepi32_epi16(sums));
}

void k_act_256_avx512(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    for (size_t b = 0; b < cols / QUANT_SUPERBLOCK; b++, x += QUANT_SUPERBLOCK) {
        const float amax = act_amax(x);
        const __m512 inv = _mm512_set1_ps(127.0f / amax);
        const __mmask16 keep = amax > 0.0f ? 0xFFFF : 0;
        __m512i codes[4];
        for (int i = 0; i < 4; i++) {
            codes[i] = _mm512_maskz_mov_epi32(keep, act_codes_64(x + 64 * i, inv));
            _mm512_storeu_si512(q + b * QUANT_SUPERBLOCK + 64 * (size_t)i, codes[i]);
        }
        d[b] = amax / 127.0f;
        act_sums_of_16(codes, sum + b * (QUANT_SUPERBLOCK / 16));
    }
}
