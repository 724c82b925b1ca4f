/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpack_256_avx512.h - unpacks superblocks of 16 rows to vectors with one row per lane.
 *
 * With one row per lane, extracting a packed scale is the same shift and mask for all 16 rows. Each
 * format has two functions. head_* unpacks d, the scales and the minima. codes_* unpacks the codes
 * and passes them, 16 columns at a time, to a function that stores or multiplies them. All
 * functions are inlined into the caller.
 */
#ifndef MOTE_KERNELS_X86_GEMM_UNPACK_256_AVX512_H
#define MOTE_KERNELS_X86_GEMM_UNPACK_256_AVX512_H

#include "kernels/x86/gemm_panel_avx512.h"
#include "quant/unpack.h"

#include <stddef.h>

/* Scales and minima of a superblock of 16 rows. */
typedef struct head_256 {
    __m512i scale[16]; /* one per group of 16 or 32 columns, in the low half of a lane */
    __m512i min[8];    /* pairs of 16-bit minima: { even group, odd group } */
    __m512 d, dmin;
} head_256;

typedef void head_256_fn(const uint8_t *block, size_t stride, head_256 *out);

/* Receives columns at .. at+15 of 16 rows: q[i] has columns at + 4i .. at + 4i + 3. */
typedef void codes_sink_fn(void *to, int at, const __m512i q[4]);
typedef void codes_256_fn(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to);

ALWAYS_INLINE __m512i bits(__m512i v, int shift, int mask)
{
    return _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)shift), _mm512_set1_epi32(mask));
}

/* v shifted left by `left` bits (right if negative). */
ALWAYS_INLINE __m512i shift_bits(__m512i v, int left)
{
    return left >= 0 ? _mm512_slli_epi32(v, (unsigned)left) : _mm512_srli_epi32(v, (unsigned)-left);
}

/* (a & mask) | b */
ALWAYS_INLINE __m512i mask_or(__m512i a, int mask, __m512i b)
{
    return _mm512_ternarylogic_epi32(a, _mm512_set1_epi32(mask), b, 0xEA);
}

/* ---- Q4_K, Q5_K: d, dmin and twelve bytes of scales and minima come first ---- */

ALWAYS_INLINE void head_q4_k(const uint8_t *block, size_t stride, head_256 *out)
{
    __m512i h[4], min[8];
    load_columns(block, stride, h);
    out->d = widen_f16(h[0], 0);
    out->dmin = widen_f16(h[0], 16);
    EACH(j, 4)
    {
        out->scale[j] = bits(h[1], 8 * j, 63);
        min[j] = bits(h[2], 8 * j, 63);
        out->scale[j + 4] = mask_or(shift_bits(h[1], -8 * j - 2), 0x30, bits(h[3], 8 * j, 15));
        min[j + 4] = mask_or(shift_bits(h[2], -8 * j - 2), 0x30, bits(h[3], 8 * j + 4, 15));
    }
    EACH(p, 4)
    {
        out->min[p] = _mm512_or_si512(min[2 * p], _mm512_slli_epi32(min[2 * p + 1], 16));
    }
}

ALWAYS_INLINE void codes_q4_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(p, 8) /* 16 bytes: half of a 32-group in each nibble */
    {
        const int at = 64 * (p / 2) + 16 * (p % 2);
        __m512i v[4], low[4], high[4];
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
        __m512i h[4]; /* bit b of a byte: fifth bit in 32-group b */
        load_columns(block + offsetof(quant_q5_k, qh) + 16 * half, stride, h);
        EACH(c, 4)
        {
            __m512i v[4], low[4], high[4];
            load_columns(block + offsetof(quant_q5_k, qs) + 32 * c + 16 * half, stride, v);
            EACH(i, 4)
            {
                low[i] =
                    mask_or(shift_bits(h[i], 4 - 2 * c), 0x10101010, bits(v[i], 0, 0x0F0F0F0F));
                high[i] =
                    mask_or(shift_bits(h[i], 3 - 2 * c), 0x10101010, bits(v[i], 4, 0x0F0F0F0F));
            }
            sink(to, 64 * c + 16 * half, low);
            sink(to, 64 * c + 16 * half + 32, high);
        }
    }
}

/* ---- Q6_K ---- */

/* Sign-extends sixteen bytes of each row to 16 bits. */
ALWAYS_INLINE void spread_scales(const __m512i bytes[4], __m512i scale[16])
{
    EACH(s, 16)
    {
        const __m512i top = _mm512_slli_epi32(bytes[s / 4], (unsigned)(24 - 8 * (s % 4)));
        scale[s] = _mm512_srli_epi32(_mm512_srai_epi32(top, 8), 16);
    }
}

ALWAYS_INLINE void head_q6_k(const uint8_t *block, size_t stride, head_256 *out)
{
    __m512i last[4], scales[4];
    load_columns(block + sizeof(quant_q6_k) - 16, stride, last); /* ends with d */
    out->d = widen_f16(last[3], 16);
    load_columns(block + offsetof(quant_q6_k, scales), stride, scales);
    spread_scales(scales, out->scale);
}

ALWAYS_INLINE void codes_q6_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(p, 4) /* 16 bytes of qh: parts of four 32-groups of a half */
    {
        const int at = 128 * (p / 2) + 16 * (p % 2);
        __m512i l[2][4], h[4], q[4][4];
        load_columns(block + 64 * (p / 2) + 16 * (p % 2), stride, l[0]);
        load_columns(block + 64 * (p / 2) + 16 * (p % 2) + 32, stride, l[1]);
        load_columns(block + offsetof(quant_q6_k, qh) + 16 * p, stride, h);
        EACH(g, 4)
        {
            EACH(i, 4)
            {
                q[g][i] = mask_or(shift_bits(h[i], 4 - 2 * g), 0x30303030,
                                  bits(l[g % 2][i], 4 * (g / 2), 0x0F0F0F0F));
            }
            sink(to, at + 32 * g, q[g]);
        }
    }
}

/* ---- Q2_K, Q3_K ---- */

ALWAYS_INLINE void head_q2_k(const uint8_t *block, size_t stride, head_256 *out)
{
    __m512i last[4], scales[4];
    load_columns(block + sizeof(quant_q2_k) - 16, stride, last); /* ends with d, dmin */
    out->d = widen_f16(last[3], 0);
    out->dmin = widen_f16(last[3], 16);
    load_columns(block, stride, scales); /* nibbles: scale, min */
    EACH(s, 16)
    {
        out->scale[s] = bits(scales[s / 4], 8 * (s % 4), 15);
    }
    EACH(p, 8)
    {
        const __m512i two = bits(scales[p / 2], 16 * (p % 2) + 4, 0xF0F);
        out->min[p] = mask_or(_mm512_slli_epi32(two, 8), 0xF0000, bits(two, 0, 15));
    }
}

ALWAYS_INLINE void codes_q2_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(p, 4) /* 16 bytes: parts of four 32-groups of a half */
    {
        __m512i v[4], q[4][4];
        load_columns(block + offsetof(quant_q2_k, qs) + 16 * p, stride, v);
        EACH(g, 4)
        {
            EACH(i, 4)
            {
                q[g][i] = bits(v[i], 2 * g, 0x03030303);
            }
            sink(to, 128 * (p / 2) + 16 * (p % 2) + 32 * g, q[g]);
        }
    }
}

/* d and the scales as bytes: scale[i] has those of groups 4i .. 4i+3. */
ALWAYS_INLINE void head_q3_k_bytes(const uint8_t *block, size_t stride, __m512 *d, __m512i scale[4])
{
    __m512i last[4]; /* last two bytes of codes, twelve bytes of scales, d */
    load_columns(block + sizeof(quant_q3_k) - 16, stride, last);
    *d = widen_f16(last[3], 16);
    /* The scales start at byte 2 of the vector: align them to dwords. */
    __m512i s[3];
    EACH(i, 3)
    {
        s[i] = _mm512_or_si512(_mm512_srli_epi32(last[i], 16), _mm512_slli_epi32(last[i + 1], 16));
    }
    EACH(i, 4)
    {
        const __m512i six = mask_or(shift_bits(s[2], 4 - 2 * i), 0x30303030,
                                    bits(s[i % 2], 4 * (i / 2), 0x0F0F0F0F));
        scale[i] = _mm512_sub_epi8(six, _mm512_set1_epi8(32));
    }
}

ALWAYS_INLINE void head_q3_k(const uint8_t *block, size_t stride, head_256 *out)
{
    __m512i scales[4];
    head_q3_k_bytes(block, stride, &out->d, scales);
    spread_scales(scales, out->scale);
}

ALWAYS_INLINE void codes_q3_k(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(part, 2)
    {
        __m512i third[4]; /* bit b of a byte: third bit in 32-group b */
        load_columns(block + 16 * part, stride, third);
        EACH(half, 2)
        {
            __m512i v[4], q[4][4];
            load_columns(block + offsetof(quant_q3_k, qs) + 32 * half + 16 * part, stride, v);
            EACH(g, 4)
            {
                EACH(i, 4)
                {
                    q[g][i] = mask_or(shift_bits(third[i], 2 - 4 * half - g), 0x04040404,
                                      bits(v[i], 2 * g, 0x03030303));
                }
                sink(to, 128 * half + 32 * g + 16 * part, q[g]);
            }
        }
    }
}

/* ---- IQ4_XS ---- */

ALWAYS_INLINE void head_iq4_xs(const uint8_t *block, size_t stride, head_256 *out)
{
    __m512i h[4];
    load_columns(block, stride, h); /* d, scales_h, scales_l, then codes */
    out->d = widen_f16(h[0], 0);
    EACH(s, 8)
    {
        const __m512i two = bits(h[0], 16 + 2 * s, 3);
        const __m512i six = _mm512_or_si512(bits(h[1], 4 * s, 15), _mm512_slli_epi32(two, 4));
        out->scale[s] = _mm512_sub_epi32(six, _mm512_set1_epi32(32));
    }
}

ALWAYS_INLINE void codes_iq4_xs(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    const __m512i values = iq4_values_unsigned();
    EACH(s, 8) /* 16 bytes: a 32-group */
    {
        __m512i v[4], low[4], high[4];
        load_columns(block + offsetof(quant_iq4_xs, qs) + 16 * s, stride, v);
        EACH(i, 4)
        {
            low[i] = _mm512_shuffle_epi8(values, bits(v[i], 0, 0x0F0F0F0F));
            high[i] = _mm512_shuffle_epi8(values, bits(v[i], 4, 0x0F0F0F0F));
        }
        sink(to, 32 * s, low);
        sink(to, 32 * s + 16, high);
    }
}

/* ---- quant_i8_256 ---- */

/* d and the scales as bytes: scale[i] has those of groups 4i .. 4i+3. */
ALWAYS_INLINE void head_i8_256_bytes(const uint8_t *block, size_t stride, __m512 *d,
                                     __m512i scale[4])
{
    __m512i last[4];
    load_columns(block + sizeof(quant_i8_256) - 16, stride, last); /* ends with d */
    *d = _mm512_castsi512_ps(last[3]);
    load_columns(block + offsetof(quant_i8_256, scale), stride, scale);
}

/* The sums are wide, so the scales have 32 bits. */
ALWAYS_INLINE void head_i8_256(const uint8_t *block, size_t stride, head_256 *out)
{
    __m512i scales[4];
    head_i8_256_bytes(block, stride, &out->d, scales);
    EACH(s, 16)
    {
        const __m512i top = _mm512_slli_epi32(scales[s / 4], (unsigned)(24 - 8 * (s % 4)));
        out->scale[s] = _mm512_srai_epi32(top, 24);
    }
}

/* Codes plus 128. */
ALWAYS_INLINE void codes_i8_256(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(s, 16)
    {
        __m512i v[4];
        load_columns(block + 16 * s, stride, v);
        EACH(i, 4)
        {
            v[i] = _mm512_xor_si512(v[i], _mm512_set1_epi8((char)0x80));
        }
        sink(to, 16 * s, v);
    }
}

#endif
