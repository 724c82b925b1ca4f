/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_rows_avx2.h - common parts of the row kernels: prefetch, f16 fields, reduction of sums. */
#ifndef MOTE_KERNELS_X86_GEMM_ROWS_AVX2_H
#define MOTE_KERNELS_X86_GEMM_ROWS_AVX2_H

#include "kernels/x86/gemm_panel_avx2.h"

enum {
    ROWS_BATCH = 8,  /* blocks; their heads are unpacked together */
    ROWS_TOKENS = 8, /* most tokens of a call */
    ROWS_AHEAD = 8 << 10,
    ROWS_FAR = 24 << 10
};

/* Prefetches the weights that follow a block. To the L1 cache 8 KiB ahead, and to the L2 cache 24 KiB
 * ahead: the first alone keeps too few reads in flight, and neither stops at the end of a page as
 * the prefetchers of the CPU do. */
ALWAYS_INLINE void rows_prefetch(const uint8_t *block, size_t bytes)
{
    EACH(line, (int)(bytes + 63) / 64)
    {
        _mm_prefetch((const char *)block + ROWS_AHEAD + 64 * line, _MM_HINT_T0);
        _mm_prefetch((const char *)block + ROWS_FAR + 64 * line, _MM_HINT_T1);
    }
}

ALWAYS_INLINE __m256i load_256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* The f16 at `at` of eight blocks, as f32. */
ALWAYS_INLINE __m256 load_8_halves(const uint8_t *block, size_t bytes, size_t at)
{
    uint16_t half[8];
    EACH(i, 8)
    {
        memcpy(&half[i], block + (size_t)i * bytes + at, 2);
    }
    return _mm256_cvtph_ps(_mm_setr_epi16((short)half[0], (short)half[1], (short)half[2],
                                          (short)half[3], (short)half[4], (short)half[5],
                                          (short)half[6], (short)half[7]));
}

/* Lane i of both halves: the sum of that half of v[i]. */
ALWAYS_INLINE __m256i reduce_4(const __m256i v[4])
{
    return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

/* The sum of the halves, in both. */
ALWAYS_INLINE __m256i reduce_halves(__m256i v)
{
    return _mm256_add_epi32(v, _mm256_permute2x128_si256(v, v, 0x01));
}

/* Lane i: the sum of the lanes of v[i]. */
ALWAYS_INLINE __m256i reduce_8(const __m256i v[8])
{
    const __m256i a = reduce_4(v), b = reduce_4(v + 4);
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

/* The row that is summed, and the position in it. */
typedef struct rows_at {
    const kern_gemm_args *a;
    size_t row, block, blocks;
} rows_at;

#endif
