/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_256_avxvnni.c - GEMM and GEMV with superblock formats, AVX-VNNI; see body_gemm_256.h. */
#include "kernels/x86/dot_avxvnni.h"

#include "kernels/x86/body_gemm_256.h"
#include "kernels/x86/body_rows_256.h"

#include "quant/unpack.h"

ALWAYS_INLINE void head_iq4_xs(const uint8_t *block, size_t stride, head_256 *out)
{
    __m256i h[4]; /* d and scales_h, scales_l, then codes */
    load_columns(block, stride, h);
    out->d = widen_f16(h[0], 0);
    EACH(i, 8)
    {
        const __m256i six =
            _mm256_or_si256(bits(h[1], 4 * i, 15), _mm256_slli_epi32(bits(h[0], 16 + 2 * i, 3), 4));
        out->scale[i] = _mm256_sub_epi32(six, _mm256_set1_epi32(32));
    }
}

/* Values with the highest bit flipped: 128 more, unsigned. */
ALWAYS_INLINE void codes_iq4_xs(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(i, 8)
    {
        __m256i q[8];
        iq4_lookup(block + offsetof(quant_iq4_xs, qs) + 16 * (size_t)i, stride, q);
        EACH(k, 8)
        {
            q[k] = _mm256_xor_si256(q[k], _mm256_set1_epi8((char)0x80));
        }
        sink(to, 32 * i, q);
        sink(to, 32 * i + 16, q + 4);
    }
}

static const format_256 format_iq4_xs = {
    head_iq4_xs, codes_iq4_xs, sizeof(quant_iq4_xs), LARGEST_IQ4_XS, 128, 32, 0,
};

ALWAYS_INLINE void head_i8_256(const uint8_t *block, size_t stride, head_256 *out)
{
    __m256i last[4], scales[4];
    load_columns(block + sizeof(quant_i8_256) - 16, stride, last); /* ends with d */
    out->d = _mm256_castsi256_ps(last[3]);
    load_columns(block + offsetof(quant_i8_256, scale), stride, scales);
    EACH(s, 16)
    {
        out->scale[s] = dot_scale_signed(scales[s / 4], s % 4, 16, LARGEST_I8_256);
    }
}

ALWAYS_INLINE void codes_i8_256(const uint8_t *block, size_t stride, codes_sink_fn *sink, void *to)
{
    EACH(s, 16)
    {
        __m256i q[4];
        load_columns(block + 16 * s, stride, q);
        EACH(i, 4)
        {
            q[i] = _mm256_xor_si256(q[i], _mm256_set1_epi8((char)0x80));
        }
        sink(to, 16 * s, q);
    }
}

static const format_256 format_i8_256 = {
    head_i8_256, codes_i8_256, sizeof(quant_i8_256), LARGEST_I8_256, 128, 16, 0,
};

GEMM(i8_256, avxvnni)
GEMM(q2_k, avxvnni)
GEMM(q3_k, avxvnni)
GEMM_ROWS(q4_k, avxvnni)
GEMM_ROWS(q5_k, avxvnni)
GEMM_ROWS(q6_k, avxvnni)
GEMM_ROWS(iq4_xs, avxvnni)
