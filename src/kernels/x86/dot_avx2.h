/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dot_avx2.h - products of 8-bit codes with AVX2.
 *
 * vpmaddubsw multiplies unsigned weights by signed activations and adds pairs to 16 bits with
 * saturation. A pair is at most 2 * 127 * 63 = 16,002, so it never saturates. The results of a
 * piece of a row are added in 16 bits, and vpmaddwd with { scale, scale } turns the two halves of a
 * lane into one 32-bit term. vpaddw wraps, so only the final sum of a half must fit in 16 bits. If a
 * code is q + offset, the sum starts at -offset * (sum of the activations of each half). This is
 * exact, and the start value is a broadcast load.
 */
#ifndef MOTE_KERNELS_X86_DOT_AVX2_H
#define MOTE_KERNELS_X86_DOT_AVX2_H

#include "kernels/x86/gemm_panel_avx2.h"

enum { DOT_OFFSET_Q4_K = 0 /* subtracted from codes, and added back to isum */ };

/* Columns that are summed before they are multiplied by their scale: as many as fit. `largest` is
 * the largest |code - offset|. */
ALWAYS_INLINE int dot_piece(int scale_cols, int largest)
{
    return scale_cols == 32 && 16 * largest * 127 <= INT16_MAX ? 32 : 16;
}

/* The products of four columns of each lane. */
ALWAYS_INLINE __m256i dot_first(__m256i w, __m256i x)
{
    return _mm256_maddubs_epi16(w, x);
}

/* sum + products. Not reordered: gcc would delay the additions of a piece and spill the products. */
ALWAYS_INLINE __m256i dot_next(__m256i sum, __m256i w, __m256i x)
{
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x));
    __asm__("" : "+x"(sum));
    return sum;
}

/* isum + scale * sum. `cols` columns are in the sum. */
ALWAYS_INLINE __m256i dot_add_scaled(__m256i isum, __m256i sum, __m256i scale, int cols,
                                     int largest)
{
    (void)cols;
    (void)largest;
    return _mm256_add_epi32(isum, _mm256_madd_epi16(sum, scale));
}

/* isum + two products of 16-bit numbers in each lane. */
ALWAYS_INLINE __m256i dot_add_pairs(__m256i isum, __m256i a, __m256i b)
{
    return _mm256_add_epi32(isum, _mm256_madd_epi16(a, b));
}

/* isum + sum. */
ALWAYS_INLINE __m256i dot_add(__m256i isum, __m256i sum)
{
    return _mm256_add_epi32(isum, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
}

/* Byte i of each lane as a scale. */
ALWAYS_INLINE __m256i dot_scale(__m256i v, int i)
{
    return bytes_to_pair(v, i, i);
}

/* The same, signed. */
ALWAYS_INLINE __m256i dot_scale_signed(__m256i v, int i, int cols, int largest)
{
    (void)cols;
    (void)largest;
    return _mm256_srai_epi16(_mm256_slli_epi16(bytes_to_pair(v, i, i), 8), 8);
}

/* Start values of the pieces of 256 columns: -offset * (sum of 16 codes), separately for the low
 * and the high half of every four columns. Pieces with an offset have 16 columns. */
ALWAYS_INLINE void dot_starts_256(const int8_t *q, const int16_t *sum, int offset, int piece,
                                  int32_t start[16])
{
    const __m256i factor = _mm256_set1_epi8((char)offset);
    (void)sum;
    (void)piece;
    for (int i = 0; i < 8; i++) {
        const __m256i codes = _mm256_loadu_si256((const __m256i *)(q + 32 * i));
        __m256i pairs = _mm256_maddubs_epi16(factor, codes);
        pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4E));
        pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xB1));
        pairs = _mm256_sub_epi16(_mm256_setzero_si256(), pairs);
        start[2 * i] = _mm256_extract_epi32(pairs, 0);
        start[2 * i + 1] = _mm256_extract_epi32(pairs, 4);
    }
}

/* The same for n blocks of 32 columns, one piece each. */
ALWAYS_INLINE void dot_starts_32(const int8_t *q, const int16_t *sum, size_t n, int offset,
                                 int32_t *start)
{
    (void)sum;
    for (size_t i = 0; i < n; i++) {
        const __m256i codes = _mm256_loadu_si256((const __m256i *)(q + i * QUANT_BLOCK));
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8((char)offset), codes);
        __m128i total =
            _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
        total = _mm_add_epi16(total, _mm_shuffle_epi32(total, 0x4E));
        total = _mm_add_epi16(total, _mm_shuffle_epi32(total, 0xB1));
        start[i] = _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), total));
    }
}

/* ---- row kernels: a lane is four codes of one group ---- */

/* Scales of two sums. */
typedef struct dot_pair_scale {
    __m256i low, high;
} dot_pair_scale;

/* Lane i of the lower half of the sums belongs to groups low[i] and high[i] (bytes of the arguments),
 * lane i of the upper half to the groups `step` after. `bytes` has one scale per group, in both
 * halves. */
ALWAYS_INLINE void dot_pair_scales(__m256i bytes, uint32_t low, uint32_t high, int step,
                                   bool is_signed, dot_pair_scale *out)
{
    const __m256i up = _mm256_setr_m128i(_mm_setzero_si128(), _mm_set1_epi8((char)step));
    const __m128i each = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    /* A signed scale goes to the upper byte, an unsigned one to the lower; 0x80 gives zero. */
    const __m256i none = _mm256_set1_epi16((short)(is_signed ? 0x0080 : 0x8000));
    const __m256i keep = _mm256_set1_epi16((short)(is_signed ? 0xFF00 : 0x00FF));
    const __m256i group[2] = {
        _mm256_broadcastsi128_si256(_mm_shuffle_epi8(_mm_cvtsi32_si128((int)low), each)),
        _mm256_broadcastsi128_si256(_mm_shuffle_epi8(_mm_cvtsi32_si128((int)high), each))};
    __m256i scale[2];
    EACH(i, 2)
    {
        const __m256i from =
            _mm256_or_si256(_mm256_and_si256(_mm256_add_epi8(group[i], up), keep), none);
        scale[i] = _mm256_shuffle_epi8(bytes, from);
        if (is_signed)
            scale[i] = _mm256_srai_epi16(scale[i], 8);
    }
    *out = (dot_pair_scale){scale[0], scale[1]};
}

/* scale * sum of two sums, as eight partial sums. */
ALWAYS_INLINE __m256i dot_pair(__m256i low, __m256i high, const dot_pair_scale *scale)
{
    return _mm256_add_epi32(_mm256_madd_epi16(low, scale->low),
                            _mm256_madd_epi16(high, scale->high));
}

/* -offset * x, summed over n vectors, as dot_next sums codes. */
ALWAYS_INLINE __m256i dot_start(const int8_t *x, int n, int offset)
{
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < n; i++)
        sum = _mm256_sub_epi16(
            sum, _mm256_maddubs_epi16(_mm256_set1_epi8((char)offset),
                                      _mm256_loadu_si256((const __m256i *)(x + 32 * i))));
    return sum;
}

/* ---- row kernels of signed 8-bit codes: a lane is one group in all eight vectors ---- */

enum { DOT_WIDE_OFFSET = 0 /* added to signed codes */ };

/* Signed scales of the lanes: lane i of the lower half belongs to group low[i], of the upper half to
 * the group `step` after. */
ALWAYS_INLINE void dot_lane_scales(__m256i bytes, uint32_t low, int step, dot_pair_scale *out)
{
    dot_pair_scales(bytes, low, low, step, true, out);
}

/* scale * code * x, as eight partial sums: |code| * (x with the sign of the code), at most
 * 2 * 128 * 127 = 32,512 per pair. */
ALWAYS_INLINE __m256i dot_lanes(const __m256i q[8], const int8_t *x, __m256i start,
                                const dot_pair_scale *scale)
{
    __m256i isum = _mm256_setzero_si256();
    (void)start;
    EACH(k, 8)
    {
        const __m256i codes = _mm256_loadu_si256((const __m256i *)(x + 32 * k));
        const __m256i pairs =
            _mm256_maddubs_epi16(_mm256_abs_epi8(q[k]), _mm256_sign_epi8(codes, q[k]));
        isum = _mm256_add_epi32(isum, _mm256_madd_epi16(pairs, scale->low));
    }
    return isum;
}

#endif
