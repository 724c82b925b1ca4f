/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpack_256_avx512.h - superblocks of 16 rows to slabs.
 *
 * Everything is done on vectors whose lanes are the rows: a scale hidden in odd
 * bits of a block is the same shift and mask for all 16 rows.
 */
#ifndef MOTE_KERNELS_X86_GEMM_UNPACK_256_AVX512_H
#define MOTE_KERNELS_X86_GEMM_UNPACK_256_AVX512_H

#include "kernels/x86/gemm_panel_avx512.h"
#include "quant/blocks.h"

#include <stddef.h>

/* A superblock of 16 rows. scale[s] belongs to the s-th piece of DOT codes (see
 * gemm_256_avx512.c); pairs of 16-bit numbers are { even 32-group, odd 32-group }. */
typedef struct slab_256 {
    __m512i q[SLAB_VECTORS];
    __m512i scale[32];
    __m512i offset[4]; /* pairs: offset * scale, for sums that start at -offset */
    __m512i min[8];    /* pairs of minima */
    __m512 d, dmin;
} slab_256;

typedef void unpack_256_fn(const uint8_t *block, size_t stride, slab_256 *out);

ALWAYS_INLINE __m512i bits(__m512i v, int shift, int mask)
{
    return _mm512_and_si512(_mm512_srli_epi32(v, (unsigned)shift), _mm512_set1_epi32(mask));
}

/* (a & mask) | b */
ALWAYS_INLINE __m512i merge(__m512i a, int mask, __m512i b)
{
    return _mm512_ternarylogic_epi32(a, _mm512_set1_epi32(mask), b, 0xEA);
}

/* Header of Q4_K and Q5_K: d, dmin and the twelve bytes of scales and minima.
 * repeat: how many dots share a scale. */
ALWAYS_INLINE void unpack_header(const uint8_t *block, size_t stride, int repeat, int offset,
                                 slab_256 *out)
{
    __m512i h[4], scale[8], min[8];
    load_columns(block, stride, h);
    out->d = f16_of(h[0], 0);
    out->dmin = f16_of(h[0], 16);
    EACH(j, 4)
    {
        scale[j] = bits(h[1], 8 * j, 63);
        min[j] = bits(h[2], 8 * j, 63);
        scale[j + 4] = merge(bits(h[1], 8 * j + 2, -1), 0x30, bits(h[3], 8 * j, 15));
        min[j + 4] = merge(bits(h[2], 8 * j + 2, -1), 0x30, bits(h[3], 8 * j + 4, 15));
    }
    EACH(s, 8)
    {
        for (int i = 0; i < repeat; i++)
            out->scale[repeat * s + i] = scale[s];
    }
    EACH(p, 4)
    {
        const __m512i pair = _mm512_or_si512(scale[2 * p], _mm512_slli_epi32(scale[2 * p + 1], 16));
        out->offset[p] = _mm512_mullo_epi16(pair, _mm512_set1_epi16((short)offset));
        out->min[p] = _mm512_or_si512(min[2 * p], _mm512_slli_epi32(min[2 * p + 1], 16));
    }
}

static void unpack_q4_k(const uint8_t *block, size_t stride, slab_256 *out)
{
    const __m512i low = _mm512_set1_epi8(15);
    unpack_header(block, stride, 1, 8, out);
    for (int p = 0; p < 8; p++) { /* 16 bytes: half of a 32-group in each nibble */
        __m512i v[4];
        load_columns(block + offsetof(quant_q4_k, qs) + 16 * p, stride, v);
        __m512i *q = out->q + 16 * (p / 2) + 4 * (p % 2);
        EACH(i, 4)
        {
            q[i] = _mm512_and_si512(v[i], low);
            q[i + 8] = _mm512_and_si512(_mm512_srli_epi32(v[i], 4), low);
        }
    }
}

static void unpack_q5_k(const uint8_t *block, size_t stride, slab_256 *out)
{
    const __m512i low = _mm512_set1_epi8(15);
    unpack_header(block, stride, 2, 16, out);
    for (int half = 0; half < 2; half++) {
        __m512i h[4]; /* bit b of a byte: fifth bit in 32-group b */
        load_columns(block + offsetof(quant_q5_k, qh) + 16 * half, stride, h);
        EACH(c, 4)
        {
            __m512i v[4];
            load_columns(block + offsetof(quant_q5_k, qs) + 32 * c + 16 * half, stride, v);
            __m512i *q = out->q + 16 * c + 4 * half;
            EACH(i, 4)
            {
                const __m512i even = c < 2 ? _mm512_slli_epi32(h[i], (unsigned)(4 - 2 * c))
                                           : _mm512_srli_epi32(h[i], (unsigned)(2 * c - 4));
                const __m512i odd = c < 2 ? _mm512_slli_epi32(h[i], (unsigned)(3 - 2 * c))
                                          : _mm512_srli_epi32(h[i], (unsigned)(2 * c - 3));
                q[i] = merge(even, 0x10101010, _mm512_and_si512(v[i], low));
                q[i + 8] =
                    merge(odd, 0x10101010, _mm512_and_si512(_mm512_srli_epi32(v[i], 4), low));
            }
        }
    }
}

/* Sixteen signed bytes of each row to the low halves of 16 vectors, each `repeat` times. */
ALWAYS_INLINE void unpack_scales(const __m512i bytes[4], int repeat, __m512i *scale)
{
    EACH(s, 16)
    {
        const __m512i v = _mm512_slli_epi32(bytes[s / 4], (unsigned)(24 - 8 * (s % 4)));
        for (int i = 0; i < repeat; i++)
            scale[repeat * s + i] = _mm512_srli_epi32(_mm512_srai_epi32(v, 8), 16);
    }
}

static void unpack_q6_k(const uint8_t *block, size_t stride, slab_256 *out)
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512i last[4], scales[4];
    load_columns(block + sizeof(quant_q6_k) - 16, stride, last); /* ends with d */
    out->d = f16_of(last[3], 16);
    load_columns(block + offsetof(quant_q6_k, scales), stride, scales);
    unpack_scales(scales, 2, out->scale);
    for (int p = 0; p < 4; p++) { /* 16 bytes of qh: parts of four 32-groups of a half */
        const uint8_t *ql = block + 64 * (p / 2) + 16 * (p % 2);
        __m512i a[4], b[4], h[4];
        load_columns(ql, stride, a);
        load_columns(ql + 32, stride, b);
        load_columns(block + offsetof(quant_q6_k, qh) + 16 * p, stride, h);
        __m512i *q = out->q + 32 * (p / 2) + 4 * (p % 2);
        EACH(i, 4)
        {
            q[i] = merge(_mm512_slli_epi32(h[i], 4), 0x30303030, _mm512_and_si512(a[i], low));
            q[i + 8] = merge(_mm512_slli_epi32(h[i], 2), 0x30303030, _mm512_and_si512(b[i], low));
            q[i + 16] = merge(h[i], 0x30303030, _mm512_and_si512(_mm512_srli_epi32(a[i], 4), low));
            q[i + 24] = merge(_mm512_srli_epi32(h[i], 2), 0x30303030,
                              _mm512_and_si512(_mm512_srli_epi32(b[i], 4), low));
        }
    }
}

static void unpack_q2_k(const uint8_t *block, size_t stride, slab_256 *out)
{
    __m512i last[4], scales[4];
    load_columns(block + sizeof(quant_q2_k) - 16, stride, last); /* ends with d, dmin */
    out->d = f16_of(last[3], 0);
    out->dmin = f16_of(last[3], 16);
    load_columns(block, stride, scales); /* nibbles: scale, min */
    EACH(s, 16)
    {
        out->scale[s] = bits(scales[s / 4], 8 * (s % 4), 15);
    }
    EACH(p, 8)
    {
        const __m512i two = bits(scales[p / 2], 16 * (p % 2) + 4, 0xF0F);
        out->min[p] = _mm512_or_si512(_mm512_and_si512(two, _mm512_set1_epi32(15)),
                                      _mm512_slli_epi32(_mm512_srli_epi32(two, 8), 16));
    }
    for (int p = 0; p < 4; p++) { /* 16 bytes: parts of four 32-groups of a half */
        __m512i v[4];
        load_columns(block + offsetof(quant_q2_k, qs) + 16 * p, stride, v);
        __m512i *q = out->q + 32 * (p / 2) + 4 * (p % 2);
        EACH(i, 4)
        {
            q[i] = bits(v[i], 0, 0x03030303);
            q[i + 8] = bits(v[i], 2, 0x03030303);
            q[i + 16] = bits(v[i], 4, 0x03030303);
            q[i + 24] = bits(v[i], 6, 0x03030303);
        }
    }
}

static void unpack_q3_k(const uint8_t *block, size_t stride, slab_256 *out)
{
    __m512i last[4]; /* from the last two codes on: the twelve bytes of scales, then d */
    load_columns(block + sizeof(quant_q3_k) - 16, stride, last);
    out->d = f16_of(last[3], 16);
    /* The scales begin two bytes into the vector: put them back on dword borders. */
    __m512i s[3], scales[4];
    EACH(i, 3)
    {
        s[i] = _mm512_or_si512(_mm512_srli_epi32(last[i], 16), _mm512_slli_epi32(last[i + 1], 16));
    }
    EACH(i, 4)
    {
        const __m512i four = bits(s[i % 2], 4 * (i / 2), 0x0F0F0F0F);
        const __m512i two = bits(s[2], 2 * i, 0x03030303);
        scales[i] =
            _mm512_sub_epi8(_mm512_or_si512(four, _mm512_slli_epi32(two, 4)), _mm512_set1_epi8(32));
    }
    unpack_scales(scales, 1, out->scale);
    for (int part = 0; part < 2; part++) {
        __m512i high[4]; /* bit b of a byte: third bit in 32-group b */
        load_columns(block + 16 * part, stride, high);
        __m512i v[4];
        EACH(g, 8)
        {
            if (g % 4 == 0)
                load_columns(block + offsetof(quant_q3_k, qs) + 32 * (g / 4) + 16 * part, stride,
                             v);
            EACH(i, 4)
            {
                const __m512i third = g < 2 ? _mm512_slli_epi32(high[i], (unsigned)(2 - g))
                                            : _mm512_srli_epi32(high[i], (unsigned)(g - 2));
                out->q[8 * g + 4 * part + i] =
                    merge(third, 0x04040404, bits(v[i], 2 * (g % 4), 0x03030303));
            }
        }
    }
}

static void unpack_iq4_xs(const uint8_t *block, size_t stride, slab_256 *out)
{
    const __m512i low = _mm512_set1_epi8(15);
    const __m512i values =
        _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)quant_iq4_values)),
                         _mm512_set1_epi8((char)0x80));
    __m512i h[4];
    load_columns(block, stride, h); /* d, scales_h, scales_l, then codes */
    out->d = f16_of(h[0], 0);
    EACH(s, 8)
    {
        const __m512i four = bits(h[1], 4 * s, 15);
        const __m512i two = bits(h[0], 16 + 2 * s, 3);
        out->scale[s] = _mm512_sub_epi32(_mm512_or_si512(four, _mm512_slli_epi32(two, 4)),
                                         _mm512_set1_epi32(32));
    }
    for (int s = 0; s < 8; s++) { /* 16 bytes: a 32-group */
        __m512i v[4];
        load_columns(block + offsetof(quant_iq4_xs, qs) + 16 * s, stride, v);
        EACH(i, 4)
        {
            out->q[8 * s + i] = _mm512_shuffle_epi8(values, _mm512_and_si512(v[i], low));
            out->q[8 * s + 4 + i] =
                _mm512_shuffle_epi8(values, _mm512_and_si512(_mm512_srli_epi32(v[i], 4), low));
        }
    }
}

#endif
