/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_32_avxvnni.c - GEMM and GEMV with formats of 32-value blocks, AVX-VNNI; see body_gemm_32.h.
 *
 * Signed codes of 8 bits have their highest bit flipped: they are 128 more, and unsigned.
 */
#include "kernels/x86/dot_avxvnni.h"

#include "kernels/x86/body_gemm_32.h"

ALWAYS_INLINE void flip_signs(__m256i q[BLOCK_VECTORS])
{
    EACH(k, BLOCK_VECTORS)
    {
        q[k] = _mm256_xor_si256(q[k], _mm256_set1_epi8((char)0x80));
    }
}

ALWAYS_INLINE void unpack_q8_0(const uint8_t *block, size_t stride, block_32 *out)
{
    __m256i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    load_columns(block + offsetof(quant_q8_0, qs), stride, out->q);
    load_columns(block + offsetof(quant_q8_0, qs) + 16, stride, out->q + 4);
    flip_signs(out->q);
}

ALWAYS_INLINE void unpack_iq4_nl(const uint8_t *block, size_t stride, block_32 *out)
{
    __m256i head[4];
    load_columns(block, stride, head);
    out->d = widen_f16(head[0], 0);
    iq4_lookup(block + offsetof(quant_iq4_nl, qs), stride, out->q);
    flip_signs(out->q);
}

static const format_32 format_q8_0 = {unpack_q8_0, sizeof(quant_q8_0), 128, 128, false};
static const format_32 format_iq4_nl = {unpack_iq4_nl, sizeof(quant_iq4_nl), 127, 128, false};

GEMM(q4_0, avxvnni)
GEMM(q4_1, avxvnni)
GEMM(q5_0, avxvnni)
GEMM(q5_1, avxvnni)
GEMM(q8_0, avxvnni)
GEMM(iq4_nl, avxvnni)
