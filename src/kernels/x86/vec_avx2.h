/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vec_avx2.h - the vector layer with AVX2: eight floats per register.
 *
 * Same functions as vec_avx512.h, which documents them.
 */
#ifndef MOTE_KERNELS_X86_VEC_AVX2_H
#define MOTE_KERNELS_X86_VEC_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

typedef __m256 vf;

enum {
    VF_WIDTH = 8,
    /* chain_tile: 6 x 2 accumulators, 2 vectors and a broadcast use 15 of 16 registers. */
    TILE_ROWS = 6,
    TILE_VECTORS = 2,
    /* chain_pair (decode): 8 accumulators, enough for two FMA units with latency 4. */
    PAIR_VECTORS = 4
};

#define VF_OPAQUE(x) __asm__("" : "+v"(x))

/* Mask of the first n lanes, 0 <= n <= 8. */
static inline __m256i vf_mask_first(size_t n)
{
    static const int32_t window[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
    return _mm256_loadu_si256((const __m256i *)(window + 8 - n));
}

static inline vf vf_zero(void)
{
    return _mm256_setzero_ps();
}

static inline vf vf_set(float x)
{
    return _mm256_set1_ps(x);
}

static inline vf vf_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline vf vf_load_n(const float *p, size_t n)
{
    return _mm256_maskload_ps(p, vf_mask_first(n));
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

static inline vf vf_load_i8(const int8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}

static inline vf vf_load_i4_low(const uint8_t *p)
{
    const __m256i byte = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(byte, 28), 28));
}

static inline vf vf_load_i4_high(const uint8_t *p)
{
    const __m256i byte = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p));
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(byte, 4));
}

static inline void vf_store(float *p, vf x)
{
    _mm256_storeu_ps(p, x);
}

static inline void vf_store_n(float *p, size_t n, vf x)
{
    _mm256_maskstore_ps(p, vf_mask_first(n), x);
}

static inline void vf_store_bits(uint32_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm256_castps_si256(x));
}

static inline void vf_store_8_f16(uint16_t *p, const float *from)
{
    _mm_storeu_si128((__m128i *)p,
                     _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

static inline void vf_store_f16(uint16_t *p, vf x)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline vf vf_add(vf a, vf b)
{
    return _mm256_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm256_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm256_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm256_div_ps(a, b);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static inline vf vf_fnma(vf a, vf b, vf c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

static inline vf vf_abs(vf x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

static inline vf vf_negate(vf x)
{
    return _mm256_xor_ps(x, _mm256_set1_ps(-0.0f));
}

static inline vf vf_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

static inline vf vf_keep_first(vf x, size_t n, vf other)
{
    return _mm256_blendv_ps(other, x, _mm256_castsi256_ps(vf_mask_first(n)));
}

static inline vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

static inline vf vf_select_nan(vf x, vf other)
{
    return _mm256_blendv_ps(other, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

static inline vf vf_add_exponent(vf p, vf shifted)
{
    return _mm256_castsi256_ps(_mm256_add_epi32(
        _mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
}

static inline vf vf_zero_if_less(vf a, vf b, vf x)
{
    return _mm256_andnot_ps(_mm256_cmp_ps(a, b, _CMP_LT_OQ), x);
}

static inline vf vf_mul_exp2(vf p, vf n, vf shifted)
{
    (void)n;
    const __m256i exponent = _mm256_slli_epi32(_mm256_castps_si256(shifted), 23);
    const __m256i one = _mm256_set1_epi32(0x3F800000);
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_add_epi32(exponent, one)));
}

static inline __attribute__((always_inline)) vf vf_butterfly(vf x, const int h)
{
    const vf other = h == 1   ? _mm256_permute_ps(x, 0xB1)
                     : h == 2 ? _mm256_permute_ps(x, 0x4E)
                              : _mm256_permute2f128_ps(x, x, 0x01);
    const vf sum = _mm256_add_ps(x, other), difference = _mm256_sub_ps(other, x);
    return h == 1   ? _mm256_blend_ps(sum, difference, 0xAA)
           : h == 2 ? _mm256_blend_ps(sum, difference, 0xCC)
                    : _mm256_blend_ps(sum, difference, 0xF0);
}

/* The sixteen accumulators of a "lanes" sum. */
typedef struct vlanes {
    vf part[2];
} vlanes;

static inline float vlanes_total(const vlanes *sums)
{
    const __m256 eight = _mm256_add_ps(sums->part[0], sums->part[1]);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

static inline __attribute__((always_inline)) vf vf_reduce_each(vf v[8], vf (*op)(vf, vf))
{
    for (int i = 0; i < 4; i++)
        v[i] = op(_mm256_permute2f128_ps(v[i], v[i + 4], 0x20),
                  _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
    for (int i = 0; i < 2; i++)
        v[i] = op(_mm256_shuffle_ps(v[i], v[i + 2], 0x44), _mm256_shuffle_ps(v[i], v[i + 2], 0xEE));
    v[0] = op(_mm256_shuffle_ps(v[0], v[1], 0x88), _mm256_shuffle_ps(v[0], v[1], 0xDD));
    return _mm256_permute_ps(v[0], 0xD8);
}

static inline vf vlanes_fold_to_vector(const vlanes *sums)
{
    return _mm256_add_ps(sums->part[0], sums->part[1]);
}

static inline float vf_reduce_max(vf x)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

static inline vf vf_sub_doubles(double a, const double *b)
{
    const __m256d from = _mm256_set1_pd(a);
    const __m128 lo = _mm256_cvtpd_ps(_mm256_sub_pd(from, _mm256_loadu_pd(b)));
    const __m128 hi = _mm256_cvtpd_ps(_mm256_sub_pd(from, _mm256_loadu_pd(b + 4)));
    return _mm256_insertf128_ps(_mm256_castps128_ps256(lo), hi, 1);
}

static inline void vf_transpose_4x4(const float *const row[4], size_t i, float *out, size_t stride)
{
    __m128 a = _mm_loadu_ps(row[0] + i), b = _mm_loadu_ps(row[1] + i);
    __m128 c = _mm_loadu_ps(row[2] + i), d = _mm_loadu_ps(row[3] + i);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(out, a);
    _mm_storeu_ps(out + stride, b);
    _mm_storeu_ps(out + 2 * stride, c);
    _mm_storeu_ps(out + 3 * stride, d);
}

#endif
