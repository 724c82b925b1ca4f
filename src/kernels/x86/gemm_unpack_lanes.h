/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpack_lanes.h - unpacks superblocks of 8 rows to vectors with one row per lane.
 *
 * Include a dot_*.h first. With one row per lane, extracting a packed scale is the same shift and
 * mask for all rows. Each format has two functions. head_* unpacks d, the scales and the minima.
 * codes_* unpacks the codes and passes them, 16 columns at a time, to a function that stores or
 * multiplies them. All functions are inlined into the caller.
 */
#ifndef MOTE_KERNELS_X86_GEMM_UNPACK_LANES_H
#define MOTE_KERNELS_X86_GEMM_UNPACK_LANES_H

#include <stddef.h>

/* The largest |code - offset|. */
enum {
    LARGEST_Q2_K = 3,
    LARGEST_Q3_K = 4,
    LARGEST_Q4_K = DOT_OFFSET_Q4_K == 8 ? 8 : 15,
    LARGEST_Q5_K = 31,
    LARGEST_Q6_K = 32,
    LARGEST_IQ4_XS = 127,
    LARGEST_I8_256 = 128
};

/* Scales and minima of a superblock of 8 rows. */
typedef struct head_256 {
    __m256i scale[16]; /* one per group of 16 or 32 columns, as dot_scale makes them */
    __m256i min[8];    /* pairs of 16-bit minima: { even group, odd group } */
    __m256i added[4];  /* Q4_K: pairs of scale * DOT_OFFSET_Q4_K */
    __m256 d, dmin;
} head_256;

typedef void head_256_fn(const uint8_t *block, size_t stride, head_256 *out);

/* Receives columns at .. at+15 of 8 rows: q[i] has columns at + 4i .. at + 4i + 3. */
typedef void codes_sink_fn(void *to, int at, const __m256i q[4]);
typedef void codes_256_fn(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to);

/* ---- Q4_K, Q5_K: d, dmin and twelve bytes of scales and minima come first ---- */

ALWAYS_INLINE void head_q4_k(const uint8_t *block, size_t stride, head_256 *out)
{
    __m256i h[4];
    load_columns(block, stride, h);
    out->d = widen_f16(h[0], 0);
    out->dmin = widen_f16(h[0], 16);
    const __m256i scale[2] = {
        bits(h[1], 0, 0x3F3F3F3F),
        _mm256_or_si256(bits(h[1], 2, 0x30303030), bits(h[3], 0, 0x0F0F0F0F))};
    const __m256i min[2] = {bits(h[2], 0, 0x3F3F3F3F),
                            _mm256_or_si256(bits(h[2], 2, 0x30303030), bits(h[3], 4, 0x0F0F0F0F))};
    EACH(j, 8)
    {
        out->scale[j] = dot_scale(scale[j / 4], j % 4);
    }
    EACH(p, 4)
    {
        out->min[p] = bytes_to_pair(min[p / 2], p % 2 * 2, p % 2 * 2 + 1);
        if (DOT_OFFSET_Q4_K != 0)
            out->added[p] =
                _mm256_mullo_epi16(bytes_to_pair(scale[p / 2], p % 2 * 2, p % 2 * 2 + 1),
                                   _mm256_set1_epi16(DOT_OFFSET_Q4_K));
    }
}

ALWAYS_INLINE void codes_q4_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(p, 8) /* 16 bytes: half of a 32-group in each nibble */
    {
        const int at = 64 * (p / 2) + 16 * (p % 2);
        __m256i v[4], low[4], high[4];
        load_columns(block + offsetof(quant_q4_k, qs) + 16 * p, stride, v);
        EACH(i, 4)
        {
            low[i] = bits(v[i], 0, 0x0F0F0F0F);
            high[i] = bits(v[i], 4, 0x0F0F0F0F);
        }
        sink(to, at, low);
        sink(to, at + 32, high);
    }
}

ALWAYS_INLINE void codes_q5_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(half, 2)
    {
        __m256i h[4]; /* bit b of a byte: fifth bit in 32-group b */
        load_columns(block + offsetof(quant_q5_k, qh) + 16 * half, stride, h);
        EACH(c, 4)
        {
            __m256i v[4], low[4], high[4];
            load_columns(block + offsetof(quant_q5_k, qs) + 32 * c + 16 * half, stride, v);
            EACH(i, 4)
            {
                low[i] = _mm256_or_si256(shift_and_mask(h[i], 4 - 2 * c, 0x10101010),
                                         bits(v[i], 0, 0x0F0F0F0F));
                high[i] = _mm256_or_si256(shift_and_mask(h[i], 3 - 2 * c, 0x10101010),
                                          bits(v[i], 4, 0x0F0F0F0F));
            }
            sink(to, 64 * c + 16 * half, low);
            sink(to, 64 * c + 16 * half + 32, high);
        }
    }
}

/* ---- Q6_K ---- */

ALWAYS_INLINE void head_q6_k(const uint8_t *block, size_t stride, head_256 *out)
{
    __m256i last[4], scales[4];
    load_columns(block + sizeof(quant_q6_k) - 16, stride, last); /* ends with d */
    out->d = widen_f16(last[3], 16);
    load_columns(block + offsetof(quant_q6_k, scales), stride, scales);
    EACH(s, 16)
    {
        out->scale[s] = dot_scale_signed(scales[s / 4], s % 4, 16, LARGEST_Q6_K);
    }
}

ALWAYS_INLINE void codes_q6_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(p, 4) /* 16 bytes of qh: parts of four 32-groups of a half */
    {
        const int at = 128 * (p / 2) + 16 * (p % 2);
        __m256i l[2][4], h[4], q[4];
        load_columns(block + 64 * (p / 2) + 16 * (p % 2), stride, l[0]);
        load_columns(block + 64 * (p / 2) + 16 * (p % 2) + 32, stride, l[1]);
        load_columns(block + offsetof(quant_q6_k, qh) + 16 * p, stride, h);
        EACH(g, 4)
        {
            EACH(i, 4)
            {
                q[i] = _mm256_or_si256(shift_and_mask(h[i], 4 - 2 * g, 0x30303030),
                                       bits(l[g % 2][i], 4 * (g / 2), 0x0F0F0F0F));
            }
            sink(to, at + 32 * g, q);
        }
    }
}

/* ---- Q2_K, Q3_K ---- */

ALWAYS_INLINE void head_q2_k(const uint8_t *block, size_t stride, head_256 *out)
{
    __m256i last[4], scales[4];
    load_columns(block + sizeof(quant_q2_k) - 16, stride, last); /* ends with d, dmin */
    out->d = widen_f16(last[3], 0);
    out->dmin = widen_f16(last[3], 16);
    load_columns(block, stride, scales); /* nibbles: scale, min */
    EACH(s, 16)
    {
        out->scale[s] = dot_scale(bits(scales[s / 4], 0, 0x0F0F0F0F), s % 4);
    }
    EACH(p, 8)
    {
        out->min[p] = bytes_to_pair(bits(scales[p / 2], 4, 0x0F0F0F0F), p % 2 * 2, p % 2 * 2 + 1);
    }
}

ALWAYS_INLINE void codes_q2_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(p, 4) /* 16 bytes: parts of four 32-groups of a half */
    {
        __m256i v[4], q[4];
        load_columns(block + offsetof(quant_q2_k, qs) + 16 * p, stride, v);
        EACH(g, 4)
        {
            EACH(i, 4)
            {
                q[i] = bits(v[i], 2 * g, 0x03030303);
            }
            sink(to, 128 * (p / 2) + 16 * (p % 2) + 32 * g, q);
        }
    }
}

ALWAYS_INLINE void head_q3_k(const uint8_t *block, size_t stride, head_256 *out)
{
    __m256i last[4]; /* last two bytes of codes, twelve bytes of scales, d */
    load_columns(block + sizeof(quant_q3_k) - 16, stride, last);
    out->d = widen_f16(last[3], 16);
    /* The scales start at byte 2 of the vector: align them to dwords. */
    __m256i s[3];
    EACH(i, 3)
    {
        s[i] = _mm256_or_si256(_mm256_srli_epi32(last[i], 16), _mm256_slli_epi32(last[i + 1], 16));
    }
    EACH(i, 4)
    {
        const __m256i six = _mm256_or_si256(shift_and_mask(s[2], 4 - 2 * i, 0x30303030),
                                            bits(s[i % 2], 4 * (i / 2), 0x0F0F0F0F));
        const __m256i scales = _mm256_sub_epi8(six, _mm256_set1_epi8(32));
        EACH(j, 4)
        {
            out->scale[4 * i + j] = dot_scale_signed(scales, j, 16, LARGEST_Q3_K);
        }
    }
}

ALWAYS_INLINE void codes_q3_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(part, 2)
    {
        __m256i third[4]; /* bit b of a byte: third bit in 32-group b */
        load_columns(block + 16 * part, stride, third);
        EACH(half, 2)
        {
            __m256i v[4], q[4];
            load_columns(block + offsetof(quant_q3_k, qs) + 32 * half + 16 * part, stride, v);
            EACH(g, 4)
            {
                EACH(i, 4)
                {
                    q[i] = _mm256_or_si256(shift_and_mask(third[i], 2 - 4 * half - g, 0x04040404),
                                           bits(v[i], 2 * g, 0x03030303));
                }
                sink(to, 128 * half + 32 * g + 16 * part, q);
            }
        }
    }
}

#endif
