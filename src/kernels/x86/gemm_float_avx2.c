/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_float_avx2.c - GEMM and GEMV with F32, F16 and BF16 weights, AVX2.
 *
 * The 16 lanes of the definition are two vectors. The horizontal sum adds halves, like the
 * reference.
 *
 * One token: four rows at a time, converted to f32 at each load. Few tokens: up to 1,024 columns of
 * three rows are converted to f32 and stay in the L1 cache while all tokens use them, two at a
 * time. Twelve accumulators fill the registers and are stored in scratch between two such pieces of
 * a row. Many tokens: gemm_panel_float.h. The last columns are blended, so a missing element adds
 * nothing.
 */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx2.h"

#include "kernels/vec/gemm_panel_float.h"

#include <string.h>

enum {
    ROWS = 3,      /* per tile */
    TOKENS = 2,    /* per tile */
    GEMV_ROWS = 4, /* GEMV: eight accumulators hide the FMA latency */
    PIECE = 1024,  /* columns converted at a time */
    HALVES = 2,    /* vectors per 16 lanes */
    L2_BUDGET = 512 << 10,
    MIN_CHUNK = 32 /* minimum tokens per chunk, so that conversion pays off */
};

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#ifdef __clang__
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
#endif

/* Loads eight weights as f32. */
typedef __m256 load_fn(const void *p);

ALWAYS_INLINE __m256 load_f32(const void *p)
{
    return _mm256_loadu_ps(p);
}

ALWAYS_INLINE __m256 load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128(p));
}

ALWAYS_INLINE __m256 load_bf16(const void *p)
{
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* Loads the last `left` < 16 elements of a row; the other lanes are zero. */
ALWAYS_INLINE void load_tail(load_fn *load, const char *p, size_t left, size_t size, __m256 out[2])
{
    char stage[KERN_LANES * sizeof(float)] = {0};
    memcpy(stage, p, left * size);
    out[0] = load(stage);
    out[1] = load(stage + VF_WIDTH * size);
}

ALWAYS_INLINE void widen(load_fn *load, const char *p, size_t n, size_t size, vf out[HALVES])
{
    if (n < KERN_LANES) {
        load_tail(load, p, n, size, out);
        return;
    }
    out[0] = load(p);
    out[1] = load(p + VF_WIDTH * size);
}

ALWAYS_INLINE void widen_f32(const void *row, size_t i, size_t n, vf out[HALVES])
{
    widen(load_f32, (const char *)row + i * sizeof(float), n, sizeof(float), out);
}

ALWAYS_INLINE void widen_f16(const void *row, size_t i, size_t n, vf out[HALVES])
{
    widen(load_f16, (const char *)row + i * sizeof(uint16_t), n, sizeof(uint16_t), out);
}

ALWAYS_INLINE void widen_bf16(const void *row, size_t i, size_t n, vf out[HALVES])
{
    widen(load_bf16, (const char *)row + i * sizeof(uint16_t), n, sizeof(uint16_t), out);
}

/* acc = w * x + acc in the first `left` < 16 lanes. */
ALWAYS_INLINE void add_tail(const __m256 w[2], const float *x, size_t left, __m256 acc[2])
{
    EACH(h, HALVES)
    {
        const size_t before = (size_t)h * VF_WIDTH;
        const size_t n = left > before ? left - before : 0;
        const size_t here = n < VF_WIDTH ? n : VF_WIDTH;
        const vf sum = vf_fma(w[h], vf_load_n(x + before, here), acc[h]);
        acc[h] = vf_keep_first(sum, here, acc[h]);
    }
}

/* ---- few tokens ---- */

/* Weights as f32, padded with zeros; accumulators of all tokens of a chunk. */
typedef struct workspace {
    float w[ROWS][PIECE];
    float acc[][ROWS][KERN_LANES];
} workspace;

/* Columns c0 .. c0+n-1 of three rows, tokens t0 .. t0+tokens-1. */
typedef struct piece {
    size_t c0, n;
    size_t r, rows;
    size_t t0, tokens;
} piece;

/* One piece, tokens t .. t+nt-1 of the chunk. nt is a compile-time constant after inlining. */
ALWAYS_INLINE void gemm_tile(const kern_gemm_args *a, const piece *p, size_t t, int nt)
{
    workspace *ws = a->scratch;
    const size_t cols = a->x->cols;
    const float *x = a->x->x + (p->t0 + t) * cols + p->c0;
    __m256 acc[TOKENS][ROWS][HALVES];
    EACH(j, nt)
    EACH(i, ROWS)
    EACH(h, HALVES)
    acc[j][i][h] = p->c0 == 0 ? vf_zero() : vf_load(ws->acc[t + (size_t)j][i] + h * VF_WIDTH);
    const size_t whole = p->n - p->n % KERN_LANES;
    for (size_t c = 0; c < whole; c += KERN_LANES) {
        EACH(h, HALVES)
        {
            __m256 xs[TOKENS];
            EACH(j, nt)
            xs[j] = vf_load(x + (size_t)j * cols + c + h * VF_WIDTH);
            EACH(i, ROWS)
            {
                __m256 w = vf_load(ws->w[i] + c + h * VF_WIDTH);
                __asm__("" : "+x"(w)); /* load once, not as a memory operand of every FMA */
                EACH(j, nt)
                acc[j][i][h] = vf_fma(w, xs[j], acc[j][i][h]);
            }
        }
    }
    EACH(j, nt)
    EACH(i, ROWS)
    {
        if (whole < p->n) {
            const __m256 w[HALVES] = {vf_load(ws->w[i] + whole),
                                      vf_load(ws->w[i] + whole + VF_WIDTH)};
            add_tail(w, x + (size_t)j * cols + whole, p->n - whole, acc[j][i]);
        }
        EACH(h, HALVES)
        vf_store(ws->acc[t + (size_t)j][i] + h * VF_WIDTH, acc[j][i][h]);
    }
}

ALWAYS_INLINE void widen_piece(const kern_gemm_args *a, load_fn *load, size_t size, const piece *p)
{
    workspace *ws = a->scratch;
    for (size_t i = 0; i < p->rows; i++) {
        const char *row = (const char *)a->w + (p->r + i) * a->row_bytes + p->c0 * size;
        size_t c = 0;
        for (; c + KERN_LANES <= p->n; c += KERN_LANES)
            EACH(h, HALVES)
        vf_store(ws->w[i] + c + h * VF_WIDTH, load(row + (c + h * VF_WIDTH) * size));
        if (c < p->n) {
            __m256 tail[HALVES];
            load_tail(load, row + c * size, p->n - c, size, tail);
            vf_store(ws->w[i] + c, tail[0]);
            vf_store(ws->w[i] + c + VF_WIDTH, tail[1]);
        }
    }
}

static void multiply_piece(const kern_gemm_args *a, const piece *p)
{
    size_t t = 0;
    for (; t + TOKENS <= p->tokens; t += TOKENS)
        gemm_tile(a, p, t, TOKENS);
    if (t < p->tokens)
        gemm_tile(a, p, t, 1);
}

static void store_sums(const kern_gemm_args *a, const piece *p)
{
    const workspace *ws = a->scratch;
    for (size_t t = 0; t < p->tokens; t++) {
        for (size_t i = 0; i < p->rows; i++) {
            const float *acc = ws->acc[t][i];
            const vlanes lanes = {{vf_load(acc), vf_load(acc + VF_WIDTH)}};
            a->y[(p->t0 + t) * a->y_stride + p->r + i] = vlanes_total(&lanes);
        }
    }
}

/* Tokens per chunk: as many as stay in the L2 cache while all rows use them. */
static size_t chunk_tokens(size_t cols)
{
    const size_t room = (KERN_SCRATCH_BYTES - sizeof(workspace)) / sizeof(float[ROWS][KERN_LANES]);
    const size_t cached = L2_BUDGET / sizeof(float) / cols;
    const size_t wanted = cached > MIN_CHUNK ? cached : MIN_CHUNK;
    return wanted < room ? wanted : room;
}

ALWAYS_INLINE void gemm_few_tokens(const kern_gemm_args *a, load_fn *load, size_t size)
{
    const size_t n = a->x->n, cols = a->x->cols, at_once = chunk_tokens(cols);
    for (size_t t0 = 0; t0 < n; t0 += at_once) {
        for (size_t r = 0; r < a->rows; r += ROWS) {
            piece p = {.r = r,
                       .rows = a->rows - r < ROWS ? a->rows - r : ROWS,
                       .t0 = t0,
                       .tokens = n - t0 < at_once ? n - t0 : at_once};
            for (; p.c0 < cols; p.c0 += PIECE) {
                p.n = cols - p.c0 < PIECE ? cols - p.c0 : PIECE;
                widen_piece(a, load, size, &p);
                multiply_piece(a, &p);
            }
            store_sums(a, &p);
        }
    }
}

/* ---- GEMV ---- */

/* Rows r .. r+nr-1. nr is a compile-time constant after inlining. */
ALWAYS_INLINE void gemv_rows(const kern_gemm_args *a, load_fn *load, size_t size, size_t r, int nr)
{
    const size_t cols = a->x->cols, whole = cols - cols % KERN_LANES;
    const float *x = a->x->x;
    const char *w = (const char *)a->w + r * a->row_bytes;
    /* Prefetch of the next rows, in memory order. */
    const char *next = w + (size_t)nr * a->row_bytes;
    const size_t ahead = r + 2 * (size_t)nr <= a->rows ? (size_t)nr * KERN_LANES * size : 0;
    __m256 acc[GEMV_ROWS][HALVES];
    EACH(i, nr)
    acc[i][0] = acc[i][1] = vf_zero();
    for (size_t c = 0; c < whole; c += KERN_LANES) {
        for (size_t at = 0; at < ahead; at += 64)
            _mm_prefetch(next + at, _MM_HINT_T0);
        next += ahead;
        EACH(h, HALVES)
        {
            const __m256 xs = vf_load(x + c + h * VF_WIDTH);
            EACH(i, nr)
            acc[i][h] = vf_fma(load(w + (size_t)i * a->row_bytes + (c + h * VF_WIDTH) * size), xs,
                               acc[i][h]);
        }
    }
    EACH(i, nr)
    {
        if (whole < cols) {
            __m256 tail[HALVES];
            load_tail(load, w + (size_t)i * a->row_bytes + whole * size, cols - whole, size, tail);
            add_tail(tail, x + whole, cols - whole, acc[i]);
        }
        a->y[r + (size_t)i] = vlanes_total(&(vlanes){{acc[i][0], acc[i][1]}});
    }
}

ALWAYS_INLINE void gemm_float_avx2(const kern_gemm_args *a, load_fn *load, widen_fn *widen_one,
                                   size_t size)
{
    if (panel_fits(a)) {
        panel_gemm(a, widen_one);
        return;
    }
    if (a->x->n > 1) {
        gemm_few_tokens(a, load, size);
        return;
    }
    size_t r = 0;
    for (; r + GEMV_ROWS <= a->rows; r += GEMV_ROWS)
        gemv_rows(a, load, size, r, GEMV_ROWS);
    for (; r < a->rows; r++)
        gemv_rows(a, load, size, r, 1);
}

void k_gemm_f32_avx2(const kern_gemm_args *a)
{
    gemm_float_avx2(a, load_f32, widen_f32, sizeof(float));
}

void k_gemm_f16_avx2(const kern_gemm_args *a)
{
    gemm_float_avx2(a, load_f16, widen_f16, sizeof(uint16_t));
}

void k_gemm_bf16_avx2(const kern_gemm_args *a)
{
    gemm_float_avx2(a, load_bf16, widen_bf16, sizeof(uint16_t));
}
