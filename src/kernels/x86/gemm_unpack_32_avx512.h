/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpack_32_avx512.h - unpacks 32-value blocks of 16 rows to slabs.
 *
 * The f16 values (d, m) are the first bytes of a block. They are taken from the first dword of 16
 * transposed bytes; the other bytes are ignored.
 */
#ifndef MOTE_KERNELS_X86_GEMM_UNPACK_32_AVX512_H
#define MOTE_KERNELS_X86_GEMM_UNPACK_32_AVX512_H

#include "kernels/x86/gemm_panel_avx512.h"
#include "quant/blocks.h"

#include <stddef.h>

enum { SLAB_BLOCKS = SLAB_COLS / QUANT_BLOCK, BLOCK_VECTORS = QUANT_BLOCK / 4 };

/* One block of 16 rows, unpacked. */
typedef struct block_32 {
    __m512i q[BLOCK_VECTORS];
    __m512 d, m;
} block_32;

typedef void unpack_32_fn(const uint8_t *block, size_t stride, block_32 *out);

/* 32 nibbles of each row. The low nibbles are the first sixteen codes. */
ALWAYS_INLINE void unpack_nibbles(const uint8_t *qs, size_t stride, __m512i q[BLOCK_VECTORS])
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512i v[4];
    load_columns(qs, stride, v);
    EACH(i, 4)
    {
        q[i] = _mm512_and_si512(v[i], low);
        q[i + 4] = _mm512_and_si512(_mm512_srli_epi32(v[i], 4), low);
    }
}

/* Bits 4i .. 4i+3 of each lane become bit 4 of the four bytes of vector i. vpermd uses the low four
 * bits of a lane as index and ignores the others. */
ALWAYS_INLINE void add_fifth_bits(__m512i bits, __m512i q[BLOCK_VECTORS])
{
    const __m512i spread =
        _mm512_setr_epi32(0x00000000, 0x00000010, 0x00001000, 0x00001010, 0x00100000, 0x00100010,
                          0x00101000, 0x00101010, 0x10000000, 0x10000010, 0x10001000, 0x10001010,
                          0x10100000, 0x10100010, 0x10101000, 0x10101010);
    EACH(i, BLOCK_VECTORS)
    {
        const __m512i index = _mm512_srli_epi32(bits, (unsigned)(4 * i));
        q[i] = _mm512_or_si512(q[i], _mm512_permutexvar_epi32(index, spread));
    }
}

ALWAYS_INLINE void unpack_q4_0(const uint8_t *block, size_t stride, block_32 *out)
{
    __m512i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    unpack_nibbles(block + offsetof(quant_q4_0, qs), stride, out->q);
}

ALWAYS_INLINE void unpack_q4_1(const uint8_t *block, size_t stride, block_32 *out)
{
    __m512i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    out->m = widen_f16(head[0], 16);
    unpack_nibbles(block + offsetof(quant_q4_1, qs), stride, out->q);
}

ALWAYS_INLINE void unpack_q5_0(const uint8_t *block, size_t stride, block_32 *out)
{
    __m512i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    unpack_nibbles(block + offsetof(quant_q5_0, qs), stride, out->q);
    add_fifth_bits(_mm512_or_si512(_mm512_srli_epi32(head[0], 16), _mm512_slli_epi32(head[1], 16)),
                   out->q);
}

ALWAYS_INLINE void unpack_q5_1(const uint8_t *block, size_t stride, block_32 *out)
{
    __m512i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    out->m = widen_f16(head[0], 16);
    unpack_nibbles(block + offsetof(quant_q5_1, qs), stride, out->q);
    add_fifth_bits(head[1], out->q);
}

ALWAYS_INLINE void unpack_q8_0(const uint8_t *block, size_t stride, block_32 *out)
{
    __m512i head[4], v[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    EACH(half, 2)
    {
        load_columns(block + offsetof(quant_q8_0, qs) + 16 * half, stride, v);
        EACH(i, 4)
        {
            out->q[4 * half + i] = _mm512_xor_si512(v[i], _mm512_set1_epi8((char)0x80));
        }
    }
}

ALWAYS_INLINE void unpack_iq4_nl(const uint8_t *block, size_t stride, block_32 *out)
{
    const __m512i values = iq4_values_unsigned();
    __m512i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    unpack_nibbles(block + offsetof(quant_iq4_nl, qs), stride, out->q);
    EACH(i, BLOCK_VECTORS)
    {
        out->q[i] = _mm512_shuffle_epi8(values, out->q[i]);
    }
}

#endif
