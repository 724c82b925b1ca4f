/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_float_neon.c - GEMM and GEMV with F32, F16 and BF16 weights, NEON.
 *
 * The 16 lanes of the definition are four vectors, so an output has four accumulators. Few tokens: a
 * tile of 2 rows and up to 3 tokens has 24 accumulators. Many tokens: vec/gemm_panel_float.h. The
 * last columns, fewer than 16, are added lane by lane: a missing element adds nothing.
 */
#include "kernels/variants.h"

#include "kernels/arm/vec_neon.h"

#include "kernels/vec/gemm_panel_float.h"
#include "quant/half.h"

enum { ROWS = 2, TOKENS = 3 };

/* Loads weights i .. i+15 of a row as f32. */
typedef void load_fn(const void *row, size_t i, vf out[4]);
/* Weight i of a row. */
typedef float weight_fn(const void *row, size_t i);

typedef struct float_format {
    load_fn *load;
    weight_fn *weight;
} float_format;

FLOAT_INLINE void load_f32(const void *row, size_t i, vf out[4])
{
    FLOAT_EACH(p, 4)
    out[p] = vf_load((const float *)row + i + 4 * p);
}

FLOAT_INLINE void load_f16(const void *row, size_t i, vf out[4])
{
    FLOAT_EACH(p, 4)
    out[p] = vf_load_f16((const uint16_t *)row + i + 4 * p);
}

FLOAT_INLINE void load_bf16(const void *row, size_t i, vf out[4])
{
    FLOAT_EACH(p, 4)
    out[p] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)row + i + 4 * p), 16));
}

static inline float weight_f32(const void *row, size_t i)
{
    return ((const float *)row)[i];
}

static inline float weight_f16(const void *row, size_t i)
{
    return half_f16_to_f32(((const uint16_t *)row)[i]);
}

static inline float weight_bf16(const void *row, size_t i)
{
    return half_bf16_to_f32(((const uint16_t *)row)[i]);
}

static const float_format format_f32 = {load_f32, weight_f32};
static const float_format format_f16 = {load_f16, weight_f16};
static const float_format format_bf16 = {load_bf16, weight_bf16};

/* As widen_fn of gemm_panel_float.h, which may request fewer than 16 values. */
FLOAT_INLINE void widen(const float_format *f, const void *row, size_t i, size_t n, vf out[4])
{
    float some[KERN_LANES] = {0};
    if (n == KERN_LANES) {
        f->load(row, i, out);
        return;
    }
    for (size_t j = 0; j < n; j++)
        some[j] = f->weight(row, i + j);
    FLOAT_EACH(p, 4)
    out[p] = vf_load(some + 4 * p);
}

/* Adds columns c .. cols-1, fewer than 16. */
static inline void add_last(const float_format *f, const void *row, const float *x, size_t c,
                            size_t cols, vlanes *sums)
{
    float lane[KERN_LANES];
    for (int p = 0; p < 4; p++)
        vf_store(lane + 4 * p, sums->part[p]);
    for (size_t l = 0; c + l < cols; l++)
        lane[l] = fmaf(f->weight(row, c + l), x[c + l], lane[l]);
    for (int p = 0; p < 4; p++)
        sums->part[p] = vf_load(lane + 4 * p);
}

/* y of nr rows and nt tokens; f, nr and nt are compile-time constants after inlining. */
FLOAT_INLINE void gemm_tile(const kern_gemm_args *a, const float_format *f, size_t r, size_t t,
                            const int nr, const int nt)
{
    const size_t cols = a->x->cols, whole = cols / KERN_LANES * KERN_LANES;
    const char *w = (const char *)a->w + r * a->row_bytes;
    const float *x = a->x->x + t * cols;
    vlanes sums[ROWS][TOKENS];
    FLOAT_EACH(i, nr)
    FLOAT_EACH(j, nt)
    FLOAT_EACH(p, 4)
    sums[i][j].part[p] = vf_zero();
    for (size_t c = 0; c < whole; c += KERN_LANES)
        FLOAT_EACH(i, nr)
        {
            vf ws[4];
            f->load(w + (size_t)i * a->row_bytes, c, ws);
            FLOAT_EACH(j, nt)
            FLOAT_EACH(p, 4)
            sums[i][j].part[p] = vf_fma(ws[p], vf_load(x + (size_t)j * cols + c + 4 * (size_t)p),
                                        sums[i][j].part[p]);
        }
    FLOAT_EACH(i, nr)
    FLOAT_EACH(j, nt)
    {
        if (whole < cols)
            add_last(f, w + (size_t)i * a->row_bytes, x + (size_t)j * cols, whole, cols,
                     &sums[i][j]);
        a->y[(t + (size_t)j) * a->y_stride + r + (size_t)i] = vlanes_total(&sums[i][j]);
    }
}

/* nr rows, all tokens. */
FLOAT_INLINE void gemm_rows(const kern_gemm_args *a, const float_format *f, size_t r, const int nr)
{
    size_t t = 0;
    for (; t + TOKENS <= a->x->n; t += TOKENS)
        gemm_tile(a, f, r, t, nr, TOKENS);
    for (; t < a->x->n; t++)
        gemm_tile(a, f, r, t, nr, 1);
}

FLOAT_INLINE void gemm_float(const kern_gemm_args *a, const float_format *f, widen_fn *widen_16)
{
    size_t r = 0;
    if (panel_fits(a)) {
        panel_gemm(a, widen_16);
        return;
    }
    for (; r + ROWS <= a->rows; r += ROWS)
        gemm_rows(a, f, r, ROWS);
    if (r < a->rows)
        gemm_rows(a, f, r, 1);
}

#define GEMM(name)                                                                                 \
    static void widen_##name(const void *row, size_t i, size_t n, vf out[4])                       \
    {                                                                                              \
        widen(&format_##name, row, i, n, out);                                                     \
    }                                                                                              \
    void k_gemm_##name##_neon(const kern_gemm_args *a)                                             \
    {                                                                                              \
        gemm_float(a, &format_##name, widen_##name);                                               \
    }

GEMM(f32)
GEMM(f16)
GEMM(bf16)
