/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check_delta.c - checks of delta_rows and delta_fold.
 *
 * Cases: every single row, every prefix of a chunk, and random ranges of rows. Decays range from
 * none to e^-55 per row. Strides have gaps, which must not be written.
 */
#include "kernels/checks.h"

#include <math.h>

enum { DIM = KERN_STATE_DIM, CHUNK = KERN_CHUNK, N_RANDOM = 16 };

/* A row stride with a gap of a few floats. */
static size_t a_stride(check *c)
{
    return c->bench ? 16 * DIM : DIM + check_below(c, 4) * 3;
}

static size_t floats_of(size_t rows, size_t stride)
{
    return rows == 0 ? 0 : (rows - 1) * stride + DIM;
}

/* Normal data is scaled to length 1, like the keys of a model. Other kinds of data are not. */
static const float *unit_rows(check *c, size_t rows, size_t stride)
{
    const size_t n = floats_of(rows, stride);
    float *x = check_in_aligned(c, n * sizeof *x, sizeof *x);
    check_fill_f32(c, x, n);
    if (c->data == CHECK_NORMAL || c->data == CHECK_EQUAL)
        for (size_t i = 0; i < n; i++)
            x[i] *= 0.08838834764f;
    return x;
}

/* G of each row: prefix sums of log-decays. */
static const double *decays(check *c, size_t rows, size_t stride)
{
    static const double strengths[] = {0.0, 1e-4, 0.05, 1.0, 55.0};
    const double strength = strengths[check_below(c, 5)];
    double *g = check_in_aligned(c, ((rows - 1) * stride + 1) * sizeof *g, sizeof *g);
    double sum = 0;
    for (size_t t = 0; t < rows; t++) {
        sum -= strength * fabs((double)check_normal(c));
        g[t * stride] = sum;
    }
    return g;
}

static void set_up(check *c, uint32_t t0, uint32_t t1, kern_delta_args *a)
{
    const size_t rows = t1 - t0;
    *a = (kern_delta_args){.t0 = t0, .t1 = t1};
    a->k_stride = a_stride(c);
    a->q_stride = a_stride(c);
    a->v_stride = a_stride(c);
    a->u_stride = a_stride(c);
    a->o_stride = a_stride(c);
    a->beta_stride = 1 + check_below(c, 3);
    a->g_stride = 1 + check_below(c, 3);
    a->s0 = check_in_f32(c, (size_t)DIM * DIM);
    a->k = unit_rows(c, t1, a->k_stride);
    a->q = unit_rows(c, rows, a->q_stride);
    a->v = check_in_f32(c, floats_of(rows, a->v_stride));
    a->beta = check_in_f32(c, (rows - 1) * a->beta_stride + 1);
    a->g = decays(c, t1, a->g_stride);
    a->u = check_inout_f32(c, floats_of(t1, a->u_stride));
    a->o = check_out_f32(c, floats_of(rows, a->o_stride));
}

static bool rows_of_case(check *c, uint32_t i, uint32_t *t0, uint32_t *t1)
{
    static const uint8_t bench[][2] = {{0, 1}, {15, 16}, {31, 32}, {0, 32}, {12, 17}};
    if (c->bench) {
        if (i >= sizeof bench / sizeof *bench)
            return false;
        *t0 = bench[i][0];
        *t1 = bench[i][1];
    } else if (i < CHUNK) {
        *t0 = i;
        *t1 = i + 1;
    } else if (i < 2 * CHUNK) {
        *t0 = 0;
        *t1 = i - CHUNK + 1;
    } else {
        *t0 = check_below(c, CHUNK);
        *t1 = *t0 + 1 + check_below(c, CHUNK - *t0);
    }
    return i < 2 * CHUNK + N_RANDOM;
}

bool check_delta_rows(check *c, uint32_t i)
{
    kern_delta_args a;
    uint32_t t0, t1;
    if (!rows_of_case(c, i, &t0, &t1))
        return false;
    set_up(c, t0, t1, &a);
    double flops =
        0; /* two products with the state; per earlier row two dot products and two updates */
    for (uint32_t t = t0; t < t1; t++)
        flops += 4.0 * DIM * DIM + 4.0 * DIM * (2 * t + 1);
    check_label(c, flops, 0, "rows %u..%u", t0, t1 - 1);
    CHECK_CALL(c)
    c->table->delta_rows(&a);
    return true;
}

/* i % 2: s1 is another buffer, or s0 itself. */
bool check_delta_fold(check *c, uint32_t i)
{
    kern_delta_args a;
    if (i >= (c->bench ? 1u : 12u))
        return false;
    set_up(c, 0, CHUNK, &a);
    float *s1 =
        i % 2 == 0 ? check_out_f32(c, (size_t)DIM * DIM) : check_inout_f32(c, (size_t)DIM * DIM);
    if (i % 2 == 1)
        a.s0 = s1;
    check_label(c, 2.0 * CHUNK * DIM * DIM, 0, "32 rows");
    CHECK_CALL(c)
    c->table->delta_fold(&a, s1);
    return true;
}
