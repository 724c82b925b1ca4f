/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act_avx2.c - quantises activations to 8 bits.
 *
 * vmaxps and vminps return their second operand if one operand is NaN, like the comparisons of the
 * reference. The conversion rounds to nearest even.
 */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx2.h"
#include "quant/blocks.h"

enum { SUM_256 = 16 }; /* values per entry of `sum`, for blocks of 256 */

static float act_amax(const float *x, size_t n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 amax = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += VF_WIDTH)
        amax = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)), amax);
    return vf_reduce_max(amax);
}

/* Eight codes, 32 bits each. */
static inline __m256i act_codes(const float *x, __m256 inv)
{
    __m256 value = _mm256_mul_ps(_mm256_loadu_ps(x), inv);
    value = _mm256_min_ps(value, _mm256_set1_ps(127.0f));
    value = _mm256_max_ps(value, _mm256_set1_ps(-127.0f));
    return _mm256_cvtps_epi32(value);
}

/* Stores and returns 32 codes. The pack instructions work within 128-bit halves: they give dwords 0
 * 2 4 6 | 1 3 5 7, and the last permutation restores the order. */
static inline __m256i act_quantise_32(const float *x, __m256 inv, int8_t *q)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i low = _mm256_packs_epi32(act_codes(x, inv), act_codes(x + 8, inv));
    const __m256i high = _mm256_packs_epi32(act_codes(x + 16, inv), act_codes(x + 24, inv));
    const __m256i codes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    _mm256_storeu_si256((__m256i *)q, codes);
    return codes;
}

/* The sum of the 16 codes of each 128-bit half, in all 32-bit lanes of that half. */
static inline __m256i act_sums_of_16(__m256i codes)
{
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes);
    __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    sums = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4E));
    return _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0xB1));
}

/* One block of n values, n a multiple of 32. `sum` has an entry per `group` values. */
static inline float act_quantise_block(const float *x, size_t n, size_t group, int8_t *q,
                                       int16_t *sum)
{
    const float amax = act_amax(x, n);
    if (!(amax > 0.0f)) {
        for (size_t i = 0; i < n; i++)
            q[i] = 0;
        for (size_t i = 0; i < n / group; i++)
            sum[i] = 0;
        return amax / 127.0f;
    }
    const __m256 inv = _mm256_set1_ps(127.0f / amax);
    for (size_t i = 0; i < n; i += QUANT_BLOCK) {
        const __m256i sums = act_sums_of_16(act_quantise_32(x + i, inv, q + i));
        const int first = _mm256_extract_epi32(sums, 0), second = _mm256_extract_epi32(sums, 4);
        if (group == QUANT_BLOCK) {
            sum[i / group] = (int16_t)(first + second);
        } else {
            sum[i / group] = (int16_t)first;
            sum[i / group + 1] = (int16_t)second;
        }
    }
    return amax / 127.0f;
}

void k_act_32_avx2(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    for (size_t b = 0; b < cols / QUANT_BLOCK; b++)
        d[b] = act_quantise_block(x + b * QUANT_BLOCK, QUANT_BLOCK, QUANT_BLOCK,
                                  q + b * QUANT_BLOCK, sum + b);
}

void k_act_256_avx2(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    for (size_t b = 0; b < cols / QUANT_SUPERBLOCK; b++)
        d[b] = act_quantise_block(x + b * QUANT_SUPERBLOCK, QUANT_SUPERBLOCK, SUM_256,
                                  q + b * QUANT_SUPERBLOCK, sum + b * QUANT_SUPERBLOCK / SUM_256);
}
