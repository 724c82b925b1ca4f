/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_float_avx512.c - GEMM and GEMV with F32, F16 and BF16 weights, AVX-512.
 *
 * The 16 lanes of the definition are the lanes of a vector: one accumulator per output. The
 * horizontal sum adds halves, like the reference. A tile of 4 rows and 6 tokens has 24 accumulators
 * and loads 10 vectors for 24 FMAs. The last columns use masks, so a missing element adds nothing
 * and is not read. Many tokens: gemm_panel_float.h.
 */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx512.h"

#include "kernels/vec/gemm_panel_float.h"

enum {
    ROWS = 4,
    TOKENS = 6,
    L2_BUDGET = 512 << 10 /* activations that stay in L2 while all rows use them */
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Loads weights i .. i+15 of a row as f32, masked. */
typedef __m512 load_fn(const void *row, size_t i, __mmask16 mask);

ALWAYS_INLINE __m512 load_f32(const void *row, size_t i, __mmask16 mask)
{
    return _mm512_maskz_loadu_ps(mask, (const float *)row + i);
}

ALWAYS_INLINE __m512 load_f16(const void *row, size_t i, __mmask16 mask)
{
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, (const uint16_t *)row + i));
}

ALWAYS_INLINE __m512 load_bf16(const void *row, size_t i, __mmask16 mask)
{
    __m256i halves = _mm256_maskz_loadu_epi16(mask, (const uint16_t *)row + i);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

ALWAYS_INLINE void widen_f32(const void *row, size_t i, size_t n, vf out[1])
{
    out[0] = load_f32(row, i, vf_mask_first(n));
}

ALWAYS_INLINE void widen_f16(const void *row, size_t i, size_t n, vf out[1])
{
    out[0] = load_f16(row, i, vf_mask_first(n));
}

ALWAYS_INLINE void widen_bf16(const void *row, size_t i, size_t n, vf out[1])
{
    out[0] = load_bf16(row, i, vf_mask_first(n));
}

/* Horizontal sum: lane[l] += lane[l + s] for s = 8, 4, 2, 1. */
ALWAYS_INLINE float sum_lanes(__m512 lanes)
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* y of nr rows and nt tokens; both are compile-time constants after inlining. */
ALWAYS_INLINE void gemm_tile(const kern_gemm_args *a, load_fn *load, size_t r, size_t t, int nr,
                             int nt)
{
    const size_t cols = a->x->cols;
    const char *w = (const char *)a->w + r * a->row_bytes;
    const float *x = a->x->x + t * cols;
    __m512 acc[ROWS][TOKENS];
    UNROLL for (int i = 0; i < nr; i++) UNROLL for (int j = 0; j < nt; j++) acc[i][j] =
        _mm512_setzero_ps();
    for (size_t c = 0; c < cols; c += KERN_LANES) {
        const size_t left = cols - c;
        const __mmask16 mask = left >= KERN_LANES ? 0xFFFF : (__mmask16)((1u << left) - 1);
        __m512 xs[TOKENS];
        UNROLL for (int j = 0; j < nt; j++) xs[j] =
            _mm512_maskz_loadu_ps(mask, x + (size_t)j * cols + c);
        UNROLL for (int i = 0; i < nr; i++)
        {
            const __m512 ws = load(w + (size_t)i * a->row_bytes, c, mask);
            UNROLL for (int j = 0; j < nt; j++) acc[i][j] =
                _mm512_mask3_fmadd_ps(ws, xs[j], acc[i][j], mask);
        }
    }
    UNROLL for (int i = 0; i < nr; i++) UNROLL for (int j = 0; j < nt; j++)
        a->y[(t + (size_t)j) * a->y_stride + r + (size_t)i] = sum_lanes(acc[i][j]);
}

/* nr rows, tokens t .. end-1. */
ALWAYS_INLINE void gemm_rows(const kern_gemm_args *a, load_fn *load, size_t r, int nr, size_t t,
                             size_t end)
{
    for (; t + TOKENS <= end; t += TOKENS)
        gemm_tile(a, load, r, t, nr, TOKENS);
    for (; t + 2 <= end; t += 2)
        gemm_tile(a, load, r, t, nr, 2);
    if (t < end)
        gemm_tile(a, load, r, t, nr, 1);
}

static size_t chunk_tokens(size_t cols)
{
    const size_t tiles = L2_BUDGET / (cols * sizeof(float) * TOKENS);
    return tiles > 0 ? tiles * TOKENS : TOKENS;
}

ALWAYS_INLINE void gemm_float_avx512(const kern_gemm_args *a, load_fn *load, widen_fn *widen)
{
    if (panel_fits(a)) {
        panel_gemm(a, widen);
        return;
    }
    const size_t n = a->x->n, at_once = chunk_tokens(a->x->cols);
    for (size_t t = 0; t < n; t += at_once) {
        const size_t end = n - t < at_once ? n : t + at_once;
        size_t r = 0;
        for (; r + ROWS <= a->rows; r += ROWS)
            gemm_rows(a, load, r, ROWS, t, end);
        for (; r < a->rows; r++)
            gemm_rows(a, load, r, 1, t, end);
    }
}

void k_gemm_f32_avx512(const kern_gemm_args *a)
{
    gemm_float_avx512(a, load_f32, widen_f32);
}

void k_gemm_f16_avx512(const kern_gemm_args *a)
{
    gemm_float_avx512(a, load_f16, widen_f16);
}

void k_gemm_bf16_avx512(const kern_gemm_args *a)
{
    gemm_float_avx512(a, load_bf16, widen_bf16);
}
