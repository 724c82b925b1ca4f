/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vec_avx512.h - the vector layer with AVX-512: sixteen floats per register.
 *
 * The kernels in ../vec are written once with these functions and compiled for AVX-512 and, with
 * vec_avx2.h, for AVX2. Every operation is the IEEE operation of the reference.
 */
#ifndef MOTE_KERNELS_X86_VEC_AVX512_H
#define MOTE_KERNELS_X86_VEC_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

typedef __m512 vf;

enum {
    VF_WIDTH = 16,
    /* chain_tile: 6 x 4 accumulators, 4 vectors and a broadcast use 29 of 32 registers. */
    TILE_ROWS = 6,
    TILE_VECTORS = 4,
    /* chain_pair (decode): 16 accumulators. */
    PAIR_VECTORS = 8
};

/* Hides from the compiler where a value comes from: it stays in a register. */
#define VF_OPAQUE(x) __asm__("" : "+v"(x))

/* Mask of the first n lanes, 0 <= n <= 16. */
static inline __mmask16 vf_mask_first(size_t n)
{
    return (__mmask16)((1u << n) - 1u);
}

static inline vf vf_zero(void)
{
    return _mm512_setzero_ps();
}

static inline vf vf_set(float x)
{
    return _mm512_set1_ps(x);
}

static inline vf vf_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

/* Loads n <= VF_WIDTH values. The other lanes are +0; their memory is not read. */
static inline vf vf_load_n(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(vf_mask_first(n), p);
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline vf vf_load_i8(const int8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}

/* The low nibbles of VF_WIDTH bytes, signed. */
static inline vf vf_load_i4_low(const uint8_t *p)
{
    const vf value = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    const __m512i byte = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm512_permutexvar_ps(byte, value); /* reads the low four bits of an index */
}

/* The high nibbles of VF_WIDTH bytes, signed. */
static inline vf vf_load_i4_high(const uint8_t *p)
{
    const vf value = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    const __m512i byte = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm512_permutexvar_ps(_mm512_srli_epi32(byte, 4), value);
}

static inline void vf_store(float *p, vf x)
{
    _mm512_storeu_ps(p, x);
}

static inline void vf_store_n(float *p, size_t n, vf x)
{
    _mm512_mask_storeu_ps(p, vf_mask_first(n), x);
}

/* The bits of the floats. */
static inline void vf_store_bits(uint32_t *p, vf x)
{
    _mm512_storeu_si512(p, _mm512_castps_si512(x));
}

/* Rounds eight floats. */
static inline void vf_store_8_f16(uint16_t *p, const float *from)
{
    _mm_storeu_si128((__m128i *)p,
                     _mm256_cvtps_ph(_mm256_loadu_ps(from), _MM_FROUND_TO_NEAREST_INT));
}

static inline void vf_store_f16(uint16_t *p, vf x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline vf vf_add(vf a, vf b)
{
    return _mm512_add_ps(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return _mm512_sub_ps(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return _mm512_mul_ps(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return _mm512_div_ps(a, b);
}

/* a * b + c, rounded once */
static inline vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* -(a * b) + c, rounded once */
static inline vf vf_fnma(vf a, vf b, vf c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

static inline vf vf_abs(vf x)
{
    return _mm512_andnot_ps(_mm512_set1_ps(-0.0f), x);
}

static inline vf vf_negate(vf x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

/* a > b ? a : b in each lane: b if they are equal or one is a NaN. */
static inline vf vf_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

/* x in the first n lanes, `other` in the others. */
static inline vf vf_keep_first(vf x, size_t n, vf other)
{
    return _mm512_mask_blend_ps(vf_mask_first(n), other, x);
}

/* a < b ? yes : no in each lane; `no` if one is a NaN. */
static inline vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes);
}

/* x where x is a NaN, `other` elsewhere. */
static inline vf vf_select_nan(vf x, vf other)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), other, x);
}

/* p * 2^n by integer addition to the exponent; n is in the low bits of `shifted`. */
static inline vf vf_add_exponent(vf p, vf shifted)
{
    return _mm512_castsi512_ps(_mm512_add_epi32(
        _mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
}

/* x, but +0 where a < b. */
static inline vf vf_zero_if_less(vf a, vf b, vf x)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ), x);
}

/* p * 2^n for an integer n, -126 <= n <= 0, and a normal result. A NaN in p stays a NaN. `shifted`
 * has n in its low bits. */
static inline vf vf_mul_exp2(vf p, vf n, vf shifted)
{
    (void)shifted;
    return _mm512_scalef_ps(p, n);
}

/* A step of a Hadamard transform inside a vector: lanes l and l + h become their sum and their
 * difference. h is a constant power of two below VF_WIDTH. */
static inline __attribute__((always_inline)) vf vf_butterfly(vf x, const int h)
{
    const __mmask16 second = h == 1 ? 0xAAAA : h == 2 ? 0xCCCC : h == 4 ? 0xF0F0 : 0xFF00;
    const vf other = h == 1   ? _mm512_permute_ps(x, 0xB1)
                     : h == 2 ? _mm512_permute_ps(x, 0x4E)
                     : h == 4 ? _mm512_shuffle_f32x4(x, x, 0xB1)
                              : _mm512_shuffle_f32x4(x, x, 0x4E);
    return _mm512_mask_sub_ps(_mm512_add_ps(x, other), second, other, x);
}

/* The sixteen accumulators of a "lanes" sum. */
typedef struct vlanes {
    vf part[1];
} vlanes;

/* Horizontal sum: lane[l] += lane[l + s] for s = 8, 4, 2, 1. */
static inline float vlanes_total(const vlanes *sums)
{
    const __m512 x = sums->part[0];
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

/* Horizontal reduction of each vector; lane i of the result is that of v[i]: lane[l] = op(lane[l],
 * lane[l + s]) for s = 8, 4, 2, 1. Each step reduces two vectors at once, so 16 reductions cost as
 * much as 4 separate ones. Overwrites v. */
static inline __attribute__((always_inline)) vf vf_reduce_each(vf v[16], vf (*op)(vf, vf))
{
    const __m512i order = _mm512_set_epi32(15, 13, 14, 12, 7, 5, 6, 4, 11, 9, 10, 8, 3, 1, 2, 0);
    for (int i = 0; i < 8; i++)
        v[i] = op(_mm512_shuffle_f32x4(v[i], v[i + 8], 0x44),
                  _mm512_shuffle_f32x4(v[i], v[i + 8], 0xEE));
    for (int i = 0; i < 4; i++)
        v[i] = op(_mm512_shuffle_f32x4(v[i], v[i + 4], 0x88),
                  _mm512_shuffle_f32x4(v[i], v[i + 4], 0xDD));
    for (int i = 0; i < 2; i++)
        v[i] = op(_mm512_shuffle_ps(v[i], v[i + 2], 0x44), _mm512_shuffle_ps(v[i], v[i + 2], 0xEE));
    v[0] = op(_mm512_shuffle_ps(v[0], v[1], 0x88), _mm512_shuffle_ps(v[0], v[1], 0xDD));
    return _mm512_permutexvar_ps(order, v[0]);
}

/* Folds the accumulators to one vector: the first step of vlanes_total if there are two
 * registers. */
static inline vf vlanes_fold_to_vector(const vlanes *sums)
{
    return sums->part[0];
}

/* Maximum of the lanes. The sign of a zero is unspecified. */
static inline float vf_reduce_max(vf x)
{
    return _mm512_reduce_max_ps(x);
}

/* (float)(a - b[i]) for VF_WIDTH doubles. */
static inline vf vf_sub_doubles(double a, const double *b)
{
    const __m512d from = _mm512_set1_pd(a);
    const __m256 lo = _mm512_cvtpd_ps(_mm512_sub_pd(from, _mm512_loadu_pd(b)));
    const __m256 hi = _mm512_cvtpd_ps(_mm512_sub_pd(from, _mm512_loadu_pd(b + 8)));
    return _mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1);
}

/* out[c * stride + r] = row[r][i + c] for r, c < 4. */
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
