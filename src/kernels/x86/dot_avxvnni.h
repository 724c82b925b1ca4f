/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dot_avxvnni.h - products of 8-bit codes with AVX-VNNI.
 *
 * vpdpbusd multiplies four unsigned weights of a lane by four signed activations and adds the
 * products to 32 bits, exactly. So a piece is as long as its scale, and codes may have all 8 bits.
 * If the sum of a piece fits in 16 signed bits, vpdpwssd with { scale, 0 } multiplies it and adds it
 * to isum in one instruction. Otherwise this takes vpmulld, two steps of a multiplier, and vpaddd.
 *
 * With MOTE_AVXVNNI_EMULATED the two instructions are functions of the test that runs the kernels
 * on CPUs without AVX-VNNI.
 */
#ifndef MOTE_KERNELS_X86_DOT_AVXVNNI_H
#define MOTE_KERNELS_X86_DOT_AVXVNNI_H

#include "kernels/x86/gemm_panel_avx2.h"

#ifdef MOTE_AVXVNNI_EMULATED
void vnni_model_dpbusd(int32_t sum[8], const uint8_t w[32], const int8_t x[32]);
void vnni_model_dpwssd(int32_t sum[8], const int16_t a[16], const int16_t b[16]);

static inline __m256i dpbusd(__m256i sum, __m256i w, __m256i x)
{
    vnni_model_dpbusd((int32_t *)&sum, (const uint8_t *)&w, (const int8_t *)&x);
    return sum;
}

static inline __m256i dpwssd(__m256i sum, __m256i a, __m256i b)
{
    vnni_model_dpwssd((int32_t *)&sum, (const int16_t *)&a, (const int16_t *)&b);
    return sum;
}
#else
ALWAYS_INLINE __m256i dpbusd(__m256i sum, __m256i w, __m256i x)
{
    return _mm256_dpbusd_avx_epi32(sum, w, x);
}

ALWAYS_INLINE __m256i dpwssd(__m256i sum, __m256i a, __m256i b)
{
    return _mm256_dpwssd_avx_epi32(sum, a, b);
}
#endif

/* Subtracted from codes, and added back to isum: with it 32 columns are at most 32 * 8 * 127 = 32,512,
 * which fits in 16 bits. */
enum { DOT_OFFSET_Q4_K = 8 };

/* Does the sum of `cols` products fit in 16 signed bits? `largest` is the largest |code - offset|. */
ALWAYS_INLINE bool dot_is_narrow(int cols, int largest)
{
    return cols * largest * 127 <= INT16_MAX;
}

/* Columns that are summed before they are multiplied by their scale. */
ALWAYS_INLINE int dot_piece(int scale_cols, int largest)
{
    (void)largest;
    return scale_cols;
}

/* The products of four columns of each lane. */
ALWAYS_INLINE __m256i dot_first(__m256i w, __m256i x)
{
    return dpbusd(_mm256_setzero_si256(), w, x);
}

/* sum + products. */
ALWAYS_INLINE __m256i dot_next(__m256i sum, __m256i w, __m256i x)
{
    return dpbusd(sum, w, x);
}

/* isum + scale * sum. `cols` columns are in the sum. */
ALWAYS_INLINE __m256i dot_add_scaled(__m256i isum, __m256i sum, __m256i scale, int cols,
                                     int largest)
{
    if (dot_is_narrow(cols, largest))
        return dpwssd(isum, sum, scale);
    return _mm256_add_epi32(isum, _mm256_mullo_epi32(sum, scale));
}

/* isum + two products of 16-bit numbers in each lane. */
ALWAYS_INLINE __m256i dot_add_pairs(__m256i isum, __m256i a, __m256i b)
{
    return dpwssd(isum, a, b);
}

/* isum + sum. */
ALWAYS_INLINE __m256i dot_add(__m256i isum, __m256i sum)
{
    return _mm256_add_epi32(isum, sum);
}

/* Byte i of each lane as a scale. */
ALWAYS_INLINE __m256i dot_scale(__m256i v, int i)
{
    return bits(v, 8 * i, 0xFF);
}

/* The same, signed. vpdpwssd needs zero in the upper half, vpmulld the sign. */
ALWAYS_INLINE __m256i dot_scale_signed(__m256i v, int i, int cols, int largest)
{
    const __m256i wide = _mm256_srai_epi32(_mm256_slli_epi32(v, 24 - 8 * i), 24);
    return dot_is_narrow(cols, largest) ? bits(wide, 0, 0xFFFF) : wide;
}

/* Start values of the pieces of 256 columns: -offset * (sum of the codes of the piece). */
ALWAYS_INLINE void dot_starts_256(const int8_t *q, const int16_t *sum, int offset, int piece,
                                  int32_t start[16])
{
    (void)q;
    for (int i = 0; i < SLAB_COLS / piece; i++)
        start[i] = -offset * (piece == 16 ? sum[i] : sum[2 * i] + sum[2 * i + 1]);
}

/* The same for n blocks of 32 columns, one piece each. */
ALWAYS_INLINE void dot_starts_32(const int8_t *q, const int16_t *sum, size_t n, int offset,
                                 int32_t *start)
{
    (void)q;
    for (size_t i = 0; i < n; i++)
        start[i] = -offset * sum[i];
}

/* ---- row kernels: a lane is four codes of one group ---- */

/* Scales of two sums, in the order of vpackssdw. */
typedef struct dot_pair_scale {
    __m256i both;
} dot_pair_scale;

/* Lane i of the lower half of the sums belongs to groups low[i] and high[i] (bytes of the arguments),
 * lane i of the upper half to the groups `step` after. `bytes` has one scale per group, in both
 * halves. */
ALWAYS_INLINE void dot_pair_scales(__m256i bytes, uint32_t low, uint32_t high, int step,
                                   bool is_signed, dot_pair_scale *out)
{
    const __m256i up = _mm256_setr_m128i(_mm_setzero_si128(), _mm_set1_epi8((char)step));
    const __m128i groups = _mm_setr_epi32((int)low, (int)high, 0, 0);
    /* A signed scale goes to the upper byte, an unsigned one to the lower; 0x80 gives zero. */
    const __m256i none = _mm256_set1_epi16((short)(is_signed ? 0x0080 : 0x8000));
    const __m256i keep = _mm256_set1_epi16((short)(is_signed ? 0xFF00 : 0x00FF));
    const __m256i group = _mm256_broadcastsi128_si256(_mm_unpacklo_epi8(groups, groups));
    const __m256i from = _mm256_or_si256(_mm256_and_si256(_mm256_add_epi8(group, up), keep), none);
    out->both = _mm256_shuffle_epi8(bytes, from);
    if (is_signed)
        out->both = _mm256_srai_epi16(out->both, 8);
}

/* scale * sum of two sums, as eight partial sums. Both fit in 16 bits. */
ALWAYS_INLINE __m256i dot_pair(__m256i low, __m256i high, const dot_pair_scale *scale)
{
    return _mm256_madd_epi16(_mm256_packs_epi32(low, high), scale->both);
}

/* -offset * x, summed over n vectors, as dot_next sums codes. */
ALWAYS_INLINE __m256i dot_start(const int8_t *x, int n, int offset)
{
    __m256i sum = _mm256_setzero_si256();
    for (int i = 0; i < n; i++)
        sum = dpbusd(sum, _mm256_set1_epi8((char)offset),
                     _mm256_loadu_si256((const __m256i *)(x + 32 * i)));
    return _mm256_sub_epi32(_mm256_setzero_si256(), sum);
}

/* ---- row kernels of signed 8-bit codes: a lane is one group in all eight vectors ---- */

enum { DOT_WIDE_OFFSET = 128 /* added to signed codes */ };

/* Signed scales of the lanes: lane i of the lower half belongs to group low[i], of the upper half to
 * the group `step` after. */
ALWAYS_INLINE void dot_lane_scales(__m256i bytes, uint32_t low, int step, dot_pair_scale *out)
{
    const __m256i up = _mm256_setr_m128i(_mm_setzero_si128(), _mm_set1_epi8((char)step));
    const __m128i each = _mm_cvtepu8_epi32(_mm_cvtsi32_si128((int)low));
    const __m256i top =
        _mm256_slli_epi32(_mm256_add_epi8(_mm256_broadcastsi128_si256(each), up), 24);
    const __m256i from = _mm256_or_si256(top, _mm256_set1_epi32(0x00808080));
    out->both = _mm256_srai_epi32(_mm256_shuffle_epi8(bytes, from), 24);
}

/* scale * code * x, as eight partial sums. */
ALWAYS_INLINE __m256i dot_lanes(const __m256i q[8], const int8_t *x, __m256i start,
                                const dot_pair_scale *scale)
{
    __m256i sum = start;
    EACH(k, 8)
    {
        sum = dpbusd(sum, q[k], _mm256_loadu_si256((const __m256i *)(x + 32 * k)));
    }
    return _mm256_mullo_epi32(sum, scale->both);
}

#endif
