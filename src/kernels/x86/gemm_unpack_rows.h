/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpack_rows.h - unpacks one superblock for the row kernels (body_rows_256.h).
 *
 * Include a dot_*.h first. The 256 codes of a superblock become eight vectors of bytes. A lane is
 * four codes of one group. Vectors with lanes of the same groups are added to one sum, so
 * they follow each other: `sums` sums of 8 / sums vectors. The bound of a lane is that of 16 bits in
 * dot_pair: with AVX-VNNI four codes of each vector of the sum, with AVX2 two.
 *
 *     format   sums   codes of a lane, AVX-VNNI    groups of the lanes of a sum
 *     Q4_K      2     16 * 15 * 127 = 30,480       0 2 4 6 | 0 2 4 6, 1 3 5 7 | 1 3 5 7
 *     Q5_K      4      8 * 31 * 127 = 31,496       0 0 2 2 | 0 0 2 2, 1 1 3 3 | 1 1 3 3, then 4 more
 *     Q6_K      4      8 * 32 * 127 = 32,512       0 0 2 2 | 1 1 3 3, 4 4 6 6 | 5 5 7 7, then 8 more
 *     IQ4_XS    1     32 bits (dot_lanes)          0 2 4 6 | 1 3 5 7
 */
#ifndef MOTE_KERNELS_X86_GEMM_UNPACK_ROWS_H
#define MOTE_KERNELS_X86_GEMM_UNPACK_ROWS_H

#include "kernels/x86/gemm_rows_avx2.h"

#include <stddef.h>

/* Heads of a batch. */
typedef struct rows_heads {
    float d[ROWS_BATCH], dmin[ROWS_BATCH];
    uint8_t scale[ROWS_BATCH][16];
    int32_t min[4][ROWS_BATCH]; /* pairs of 16-bit minima */
} rows_heads;

typedef void rows_heads_fn(const uint8_t *block, rows_heads *out);
typedef void rows_codes_fn(const uint8_t *block, __m256i q[8]);
/* The scales of the sums, from rows_heads.scale: one call of dot_pair_scales per two sums. */
typedef void rows_scales_fn(const uint8_t scale[16], dot_pair_scale out[2]);
/* The dword of the superblock in lane `lane` of vector k: columns 4i .. 4i + 3. */
typedef int rows_source_fn(int k, int lane);

/* 16 bytes in both halves. */
ALWAYS_INLINE __m256i load_twice(const void *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

ALWAYS_INLINE __m256i or_256(__m256i a, __m256i b)
{
    return _mm256_or_si256(a, b);
}

/* ---- Q4_K, Q5_K ---- */

/* Scales and minima of both formats; the layout is that of head_q4_k. */
ALWAYS_INLINE void rows_heads_k45(const uint8_t *block, size_t bytes, rows_heads *out)
{
    __m256i h[4];
    load_columns(block, bytes, h);
    _mm256_storeu_ps(out->d, widen_f16(h[0], 0));
    _mm256_storeu_ps(out->dmin, widen_f16(h[0], 16));
    const __m256i s0 = bits(h[1], 0, 0x3F3F3F3F);
    const __m256i s1 = or_256(bits(h[1], 2, 0x30303030), bits(h[3], 0, 0x0F0F0F0F));
    const __m256i m0 = bits(h[2], 0, 0x3F3F3F3F);
    const __m256i m1 = or_256(bits(h[2], 2, 0x30303030), bits(h[3], 4, 0x0F0F0F0F));
    /* Superblocks 0, 1 | 4, 5 and 2, 3 | 6, 7: eight bytes each. */
    const __m256i low = _mm256_unpacklo_epi32(s0, s1), high = _mm256_unpackhi_epi32(s0, s1);
    const __m256i pair[4] = {_mm256_unpacklo_epi64(low, low), _mm256_unpackhi_epi64(low, low),
                             _mm256_unpacklo_epi64(high, high), _mm256_unpackhi_epi64(high, high)};
    EACH(i, 4)
    {
        _mm_storeu_si128((__m128i *)out->scale[i], _mm256_castsi256_si128(pair[i]));
        _mm_storeu_si128((__m128i *)out->scale[4 + i], _mm256_extracti128_si256(pair[i], 1));
    }
    EACH(p, 4)
    {
        const __m256i two = bytes_to_pair(p < 2 ? m0 : m1, p % 2 * 2, p % 2 * 2 + 1);
        _mm256_storeu_si256((__m256i *)out->min[p], two);
    }
}

ALWAYS_INLINE void rows_heads_q4_k(const uint8_t *block, rows_heads *out)
{
    rows_heads_k45(block, sizeof(quant_q4_k), out);
}

/* 128 bytes of nibbles. A 4 x 4 transposition of dwords in both halves, so that a lane stays in one
 * group. Low nibbles are q[0] .. q[3], high nibbles q[4] .. q[7]. */
ALWAYS_INLINE void transpose_nibbles(const uint8_t *qs, __m256i q[8])
{
    const __m256i a = load_256(qs), b = load_256(qs + 32), c = load_256(qs + 64),
                  d = load_256(qs + 96);
    const __m256i ab0 = _mm256_unpacklo_epi32(a, b), ab1 = _mm256_unpackhi_epi32(a, b);
    const __m256i cd0 = _mm256_unpacklo_epi32(c, d), cd1 = _mm256_unpackhi_epi32(c, d);
    const __m256i v[4] = {_mm256_unpacklo_epi64(ab0, cd0), _mm256_unpackhi_epi64(ab0, cd0),
                          _mm256_unpacklo_epi64(ab1, cd1), _mm256_unpackhi_epi64(ab1, cd1)};
    EACH(i, 4)
    {
        q[i] = bits(v[i], 0, 0x0F0F0F0F);
        q[4 + i] = bits(v[i], 4, 0x0F0F0F0F);
    }
}

ALWAYS_INLINE void rows_codes_q4_k(const uint8_t *block, __m256i q[8])
{
    transpose_nibbles(block + offsetof(quant_q4_k, qs), q);
}

/* Lane l of vector k: group 2 (l % 4) + k / 4, dword k % 4, and 4 + k % 4 in the upper half. */
ALWAYS_INLINE int rows_source_q4_k(int k, int lane)
{
    return 8 * (2 * (lane % 4) + k / 4) + k % 4 + lane / 4 * 4;
}

ALWAYS_INLINE void rows_scales_q4_k(const uint8_t scale[16], dot_pair_scale out[2])
{
    dot_pair_scales(load_twice(scale), 0x06040200, 0x07050301, 0, false, &out[0]);
}

ALWAYS_INLINE void rows_heads_q5_k(const uint8_t *block, rows_heads *out)
{
    rows_heads_k45(block, sizeof(quant_q5_k), out);
}

/* Two quarters of a superblock are exchanged by qwords. Their fifth bits are two bits apart. */
ALWAYS_INLINE void rows_codes_q5_k(const uint8_t *block, __m256i q[8])
{
    const uint8_t *qs = block + offsetof(quant_q5_k, qs);
    const __m256i fifth = load_256(block + offsetof(quant_q5_k, qh));
    const __m256i next = _mm256_srli_epi16(fifth, 2);
    const __m256i h[2] = {_mm256_unpacklo_epi64(fifth, next), _mm256_unpackhi_epi64(fifth, next)};
    EACH(p, 2)
    {
        const __m256i a = load_256(qs + 64 * p), b = load_256(qs + 64 * p + 32);
        const __m256i v[2] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)};
        EACH(i, 2)
        {
            q[4 * p + i] =
                or_256(bits(v[i], 0, 0x0F0F0F0F), shift_and_mask(h[i], 4 - 4 * p, 0x10101010));
            q[4 * p + 2 + i] =
                or_256(bits(v[i], 4, 0x0F0F0F0F), shift_and_mask(h[i], 3 - 4 * p, 0x10101010));
        }
    }
}

/* Vectors 4p and 4p + 1: groups 4p and 4p + 2, by two lanes; 4p + 2 and 4p + 3: the groups after. */
ALWAYS_INLINE int rows_source_q5_k(int k, int lane)
{
    const int group = k / 4 * 4 + k % 4 / 2 + lane % 4 / 2 * 2;
    return 8 * group + k % 2 * 2 + lane % 2 + lane / 4 * 4;
}

ALWAYS_INLINE void rows_scales_q5_k(const uint8_t scale[16], dot_pair_scale out[2])
{
    const __m256i bytes = load_twice(scale);
    dot_pair_scales(bytes, 0x02020000, 0x03030101, 0, false, &out[0]);
    dot_pair_scales(bytes, 0x06060404, 0x07070505, 0, false, &out[1]);
}

/* ---- Q6_K ---- */

ALWAYS_INLINE void rows_heads_q6_k(const uint8_t *block, rows_heads *out)
{
    const size_t bytes = sizeof(quant_q6_k);
    _mm256_storeu_ps(out->d, load_8_halves(block, bytes, offsetof(quant_q6_k, d)));
    EACH(i, ROWS_BATCH)
    {
        memcpy(out->scale[i], block + (size_t)i * bytes + offsetof(quant_q6_k, scales), 16);
    }
}

/* In each half of 128 columns, ql[0..31] and ql[32..63] are exchanged by qwords. Their high bits are
 * two bits apart. */
ALWAYS_INLINE void rows_codes_q6_k(const uint8_t *block, __m256i q[8])
{
    EACH(half, 2)
    {
        const __m256i a = load_256(block + 64 * half), b = load_256(block + 64 * half + 32);
        const __m256i high = load_256(block + offsetof(quant_q6_k, qh) + 32 * half);
        const __m256i next = _mm256_srli_epi16(high, 2);
        const __m256i v[2] = {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)};
        const __m256i h[2] = {_mm256_unpacklo_epi64(high, next), _mm256_unpackhi_epi64(high, next)};
        EACH(i, 2)
        {
            q[4 * half + i] =
                or_256(bits(v[i], 0, 0x0F0F0F0F), shift_and_mask(h[i], 4, 0x30303030));
            q[4 * half + 2 + i] =
                or_256(bits(v[i], 4, 0x0F0F0F0F), shift_and_mask(h[i], 0, 0x30303030));
        }
    }
}

/* Vectors of a half: columns 0 .. 63 in two, then 64 .. 127 in two. A lane has columns of 0 .. 31 or
 * of 32 .. 63. */
ALWAYS_INLINE int rows_source_q6_k(int k, int lane)
{
    return k / 4 * 32 + k % 4 / 2 * 16 + lane % 4 / 2 * 8 + k % 2 * 2 + lane % 2 + lane / 4 * 4;
}

ALWAYS_INLINE void rows_scales_q6_k(const uint8_t scale[16], dot_pair_scale out[2])
{
    const __m256i bytes = load_twice(scale);
    dot_pair_scales(bytes, 0x02020000, 0x06060404, 1, true, &out[0]);
    dot_pair_scales(bytes, 0x0A0A0808, 0x0E0E0C0C, 1, true, &out[1]);
}

/* ---- IQ4_XS ---- */

/* Four fields of `width` bits, from bit 0 on, to the four bytes of a lane. */
ALWAYS_INLINE __m256i fields_to_bytes(__m256i v, int width)
{
    const int mask = (1 << width) - 1;
    __m256i out = _mm256_and_si256(v, _mm256_set1_epi32(mask));
    EACH(i, 3)
    {
        const __m256i field = _mm256_and_si256(v, _mm256_set1_epi32(mask << width * (i + 1)));
        out = or_256(out, _mm256_slli_epi32(field, (8 - width) * (i + 1)));
    }
    return out;
}

ALWAYS_INLINE void rows_heads_iq4_xs(const uint8_t *block, rows_heads *out)
{
    __m256i h[4], v[2]; /* d and scales_h, scales_l, then codes */
    load_columns(block, sizeof(quant_iq4_xs), h);
    _mm256_storeu_ps(out->d, widen_f16(h[0], 0));
    EACH(i, 2)
    {
        const __m256i four = fields_to_bytes(_mm256_srli_epi32(h[1], 16 * i), 4);
        const __m256i two = fields_to_bytes(_mm256_srli_epi32(h[0], 16 + 8 * i), 2);
        v[i] = _mm256_sub_epi8(or_256(four, _mm256_slli_epi32(two, 4)), _mm256_set1_epi8(32));
    }
    const __m256i low = _mm256_unpacklo_epi32(v[0], v[1]), high = _mm256_unpackhi_epi32(v[0], v[1]);
    EACH(i, 2)
    {
        const __m256i two = i == 0 ? low : high; /* superblocks 2i, 2i + 1 | 4 + 2i, 5 + 2i */
        _mm_storel_epi64((__m128i *)out->scale[2 * i], _mm256_castsi256_si128(two));
        _mm_storeh_pd((double *)(void *)out->scale[2 * i + 1],
                      _mm_castsi128_pd(_mm256_castsi256_si128(two)));
        const __m128i upper = _mm256_extracti128_si256(two, 1);
        _mm_storel_epi64((__m128i *)out->scale[4 + 2 * i], upper);
        _mm_storeh_pd((double *)(void *)out->scale[5 + 2 * i], _mm_castsi128_pd(upper));
    }
}

/* A 4 x 4 transposition of dwords in both halves, as Q4_K. */
ALWAYS_INLINE void rows_codes_iq4_xs(const uint8_t *block, __m256i q[8])
{
    const __m256i values = _mm256_add_epi8(iq4_values(), _mm256_set1_epi8((char)DOT_WIDE_OFFSET));
    transpose_nibbles(block + offsetof(quant_iq4_xs, qs), q);
    EACH(k, 8)
    {
        q[k] = _mm256_shuffle_epi8(values, q[k]);
    }
}

ALWAYS_INLINE int rows_source_iq4_xs(int k, int lane)
{
    return 8 * (2 * (lane % 4) + lane / 4) + k;
}

ALWAYS_INLINE void rows_scales_iq4_xs(const uint8_t scale[16], dot_pair_scale out[2])
{
    const __m256i bytes = _mm256_broadcastq_epi64(_mm_loadl_epi64((const __m128i *)scale));
    dot_lane_scales(bytes, 0x06040200, 1, &out[0]);
}

#endif
