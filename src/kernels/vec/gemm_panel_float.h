/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_panel_float.h - GEMM of float weights with many tokens, on the vector layer.
 *
 * The sums have the lanes order of gemm_float_ref.c: sixteen lanes, so each output has VLANES_PARTS
 * accumulator vectors. Weights are converted to f32 once and packed in the order in which tiles
 * read them, as many rows as fit in half of the scratch memory. Then up to FLOAT_PIECE columns of
 * six tokens stay in the L1 cache while all these rows use them. Between two such pieces the sums
 * are stored in scratch. With 8-lane vectors the lower and the upper eight lanes are separate
 * passes: the registers then hold a tile of twice as many outputs, which needs fewer loads.
 */
#ifndef MOTE_KERNELS_VEC_GEMM_PANEL_FLOAT_H
#define MOTE_KERNELS_VEC_GEMM_PANEL_FLOAT_H

#include "kernels/vec/vmath.h"

#include <string.h>

enum {
    FLOAT_TOKENS = TILE_ROWS,  /* per tile */
    FLOAT_ROWS = TILE_VECTORS, /* per tile */
    FLOAT_PIECE = 768,
    FLOAT_PANEL_BYTES = KERN_SCRATCH_BYTES / 2,
    FLOAT_MAX_COLS = FLOAT_PANEL_BYTES / (FLOAT_ROWS * sizeof(float)),
    FLOAT_MIN_TOKENS = 24 /* with fewer tokens packing does not pay off */
};

#define FLOAT_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define FLOAT_EACH(i, n) _Pragma("clang loop unroll(full)") for (int i = 0; i < (n); i++)
#else
#define FLOAT_EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#endif

/* Loads weights i .. i+15 of a row as f32. Only n exist; the others become +0. */
typedef void widen_fn(const void *row, size_t i, size_t n, vf out[VLANES_PARTS]);

/* Accumulators of a tile. */
typedef struct float_sums {
    float at[VLANES_PARTS][FLOAT_TOKENS][FLOAT_ROWS][VF_WIDTH];
} float_sums;

/* Packed weight rows, [group][part][steps][FLOAT_ROWS][VF_WIDTH]. */
typedef struct float_panel {
    float *w;
    float_sums *sums; /* one per group */
    size_t first, rows, groups;
    size_t steps; /* of 16 columns */
} float_panel;

FLOAT_INLINE void panel_widen(const kern_gemm_args *a, widen_fn *widen, const float_panel *p)
{
    const size_t cols = a->x->cols, stride = FLOAT_ROWS * VF_WIDTH;
    for (size_t r = 0; r < p->groups * FLOAT_ROWS; r++) {
        const char *row = (const char *)a->w + (p->first + r) * a->row_bytes;
        float *to =
            p->w + r / FLOAT_ROWS * p->steps * FLOAT_ROWS * KERN_LANES + r % FLOAT_ROWS * VF_WIDTH;
        for (size_t s = 0; s < p->steps; s++) {
            const size_t left = cols - s * KERN_LANES;
            vf w[VLANES_PARTS] = {vf_zero()};
            if (r < p->rows)
                widen(row, s * KERN_LANES, left < KERN_LANES ? left : KERN_LANES, w);
            for (size_t part = 0; part < VLANES_PARTS; part++)
                vf_store(to + (part * p->steps + s) * stride, w[part]);
        }
    }
}

/* Steps from .. end-1 of one part of the lanes: six tokens from x on, one group of rows. */
FLOAT_INLINE void panel_tile(const float *w, const float *x, size_t cols, size_t from, size_t end,
                             float sums[FLOAT_TOKENS][FLOAT_ROWS][VF_WIDTH])
{
    vf acc[FLOAT_TOKENS][FLOAT_ROWS];
    FLOAT_EACH(j, FLOAT_TOKENS)
    FLOAT_EACH(i, FLOAT_ROWS)
    acc[j][i] = from == 0 ? vf_zero() : vf_load(sums[j][i]);
    for (size_t s = from; s < end; s++) {
        vf ws[FLOAT_ROWS];
        FLOAT_EACH(i, FLOAT_ROWS)
        ws[i] = vf_load(w + (s * FLOAT_ROWS + (size_t)i) * VF_WIDTH);
        FLOAT_EACH(j, FLOAT_TOKENS)
        {
            vf xs = vf_load(x + (size_t)j * cols + s * KERN_LANES);
            VF_OPAQUE(xs); /* load once, not as a memory operand of every FMA */
            FLOAT_EACH(i, FLOAT_ROWS)
            acc[j][i] = vf_fma(ws[i], xs, acc[j][i]);
        }
    }
    FLOAT_EACH(j, FLOAT_TOKENS)
    FLOAT_EACH(i, FLOAT_ROWS)
    vf_store(sums[j][i], acc[j][i]);
}

/* The last columns, fewer than 16. Missing columns add nothing and are not read. */
static inline void panel_tail(const float_panel *p, const float *w, const float *x, size_t cols,
                              float_sums *sums)
{
    const size_t whole = cols / KERN_LANES;
    for (int part = 0; part < VLANES_PARTS; part++)
        for (size_t j = 0; j < FLOAT_TOKENS; j++)
            for (size_t i = 0; i < FLOAT_ROWS; i++) {
                const size_t n = vlanes_share(cols % KERN_LANES, part);
                const size_t at = (((size_t)part * p->steps + whole) * FLOAT_ROWS + i) * VF_WIDTH;
                const vf xs = vf_load_n(x + j * cols + whole * KERN_LANES + part * VF_WIDTH, n);
                const vf acc = vf_load(sums->at[part][j][i]);
                const vf sum = vf_fma(vf_load(w + at), xs, acc);
                vf_store(sums->at[part][j][i], vf_keep_first(sum, n, acc));
            }
}

/* Horizontal sums: y of six tokens from t on, for `rows` rows of a group. */
static inline void panel_totals(const kern_gemm_args *a, const float_sums *sums, size_t t, size_t r,
                                size_t rows)
{
    enum { AT_ONCE = VF_WIDTH / FLOAT_ROWS };
    for (size_t first = 0; first < FLOAT_TOKENS; first += AT_ONCE) {
        float total[VF_WIDTH];
        vf v[VF_WIDTH];
        FLOAT_EACH(i, VF_WIDTH)
        {
            const size_t j = first + (size_t)i / FLOAT_ROWS, row = (size_t)i % FLOAT_ROWS;
            vlanes lanes = {{vf_zero()}};
            for (int part = 0; part < VLANES_PARTS && j < FLOAT_TOKENS; part++)
                lanes.part[part] = vf_load(sums->at[part][j][row]);
            v[i] = vlanes_fold_to_vector(&lanes);
        }
        vf_store(total, vf_reduce_each(v, vf_add));
        for (size_t j = first; j < FLOAT_TOKENS && j < first + AT_ONCE; j++) {
            float *y = a->y + (t + j) * a->y_stride + r;
            const float *from = total + (j - first) * FLOAT_ROWS;
            if (rows == FLOAT_ROWS)
                memcpy(y, from, FLOAT_ROWS * sizeof *y);
            else
                memcpy(y, from, rows * sizeof *y);
        }
    }
}

/* Six tokens, all rows of the panel. */
static inline void panel_tokens(const kern_gemm_args *a, const float_panel *p, size_t t)
{
    const size_t cols = a->x->cols, whole = cols / KERN_LANES, piece = FLOAT_PIECE / KERN_LANES;
    const float *x = a->x->x + t * cols;
    for (size_t s = 0; s < p->steps; s += piece) {
        const size_t end = whole - s < piece ? whole : s + piece;
        for (size_t g = 0; g < p->groups; g++) {
            const float *w = p->w + g * p->steps * FLOAT_ROWS * KERN_LANES;
            float_sums *sums = &p->sums[p->steps <= piece ? 0 : g];
            for (size_t part = 0; part < VLANES_PARTS; part++)
                panel_tile(w + part * p->steps * FLOAT_ROWS * VF_WIDTH, x + part * VF_WIDTH, cols,
                           s, end, sums->at[part]);
            if (p->steps - s > piece)
                continue;
            if (whole < p->steps)
                panel_tail(p, w, x, cols, sums);
            const size_t r = g * FLOAT_ROWS, left = p->rows - r;
            panel_totals(a, sums, t, p->first + r, left < FLOAT_ROWS ? left : FLOAT_ROWS);
        }
    }
}

static inline bool panel_fits(const kern_gemm_args *a)
{
    return a->x->n >= FLOAT_MIN_TOKENS && a->x->cols <= FLOAT_MAX_COLS - KERN_LANES;
}

FLOAT_INLINE void panel_gemm(const kern_gemm_args *a, widen_fn *widen)
{
    const size_t steps = (a->x->cols + KERN_LANES - 1) / KERN_LANES, n = a->x->n;
    const size_t group_bytes = steps * KERN_LANES * FLOAT_ROWS * sizeof(float);
    const size_t room = (KERN_SCRATCH_BYTES - FLOAT_PANEL_BYTES) / sizeof(float_sums);
    const size_t fit = FLOAT_PANEL_BYTES / group_bytes, most = fit < room ? fit : room;
    for (size_t r = 0; r < a->rows; r += most * FLOAT_ROWS) {
        const size_t left = a->rows - r;
        float_panel p = {.w = a->scratch,
                         .sums = (float_sums *)((char *)a->scratch + FLOAT_PANEL_BYTES),
                         .first = r,
                         .rows = left < most * FLOAT_ROWS ? left : most * FLOAT_ROWS,
                         .steps = steps};
        p.groups = (p.rows + FLOAT_ROWS - 1) / FLOAT_ROWS;
        panel_widen(a, widen, &p);
        for (size_t t = 0; t + FLOAT_TOKENS <= n; t += FLOAT_TOKENS)
            panel_tokens(a, &p, t);
        if (n % FLOAT_TOKENS != 0)
            panel_tokens(a, &p, n - FLOAT_TOKENS); /* overlaps the tokens before */
    }
}

#endif
