/* SPDX-License-Identifier: Apache-2.0 */
/* check_elementwise.c - checks of add, axpy, silu_mul, gelu_*, conv_silu, rope, max, sum_exp. */
#include "kernels/checks.h"

#include <math.h>

/* The length of case i, or of its bench shape; SIZE_MAX: no such case. */
static size_t length_of(const check *c, uint32_t i, size_t bench_length)
{
    if (c->bench)
        return i == 0 ? bench_length : SIZE_MAX;
    return check_length(i);
}

bool check_add(check *c, uint32_t i)
{
    const size_t n = length_of(c, i, 1024);
    if (n == SIZE_MAX)
        return false;
    const float *x = check_in_f32(c, n);
    float *y = check_inout_f32(c, n);
    check_label(c, 0, (double)n * 12, "n=%zu", n);
    CHECK_CALL(c)
    c->table->add(x, n, y);
    return true;
}

/* Every fifth factor is 0, 1 or -1. In the bench it is small, so that repeated calls do not
 * overflow. */
bool check_axpy(check *c, uint32_t i)
{
    const size_t n = length_of(c, i, 2048);
    if (n == SIZE_MAX)
        return false;
    const float *a = check_in_f32(c, 1), *x = check_in_f32(c, n);
    float *y = check_inout_f32(c, n);
    const float factor = c->bench ? 0x1p-40f : i % 5 == 4 ? (float)(i % 3) - 1.0f : a[0];
    check_label(c, 0, (double)n * 12, "n=%zu", n);
    CHECK_CALL(c)
    c->table->axpy(factor, x, n, y);
    return true;
}

/* i % 3: y is a separate buffer, gate, or up. */
bool check_silu_mul(check *c, uint32_t i)
{
    const size_t n = length_of(c, c->bench ? i : i / 3, 3584);
    if (n == SIZE_MAX)
        return false;
    float *out = i % 3 == 0 ? check_out_f32(c, n) : check_inout_f32(c, n);
    const float *gate = i % 3 == 1 ? out : check_in_f32(c, n);
    const float *up = i % 3 == 2 ? out : check_in_f32(c, n);
    check_label(c, 0, (double)n * 12, "n=%zu", n);
    CHECK_CALL(c)
    c->table->silu_mul(gate, up, n, out);
    return true;
}

static bool gelu_case(check *c, uint32_t i, kern_gelu_fn *gelu)
{
    const size_t n = length_of(c, i, 3072);
    if (n == SIZE_MAX)
        return false;
    const float *b = check_in_f32(c, n);
    float *y = check_inout_f32(c, n);
    check_label(c, 0, (double)n * 12, "n=%zu", n);
    CHECK_CALL(c)
    gelu(b, n, y);
    return true;
}

bool check_gelu_tanh(check *c, uint32_t i)
{
    return gelu_case(c, i, c->table->gelu_tanh);
}

bool check_gelu_erf(check *c, uint32_t i)
{
    return gelu_case(c, i, c->table->gelu_erf);
}

bool check_conv_silu(check *c, uint32_t i)
{
    const size_t n = length_of(c, i, 6144);
    if (n == SIZE_MAX)
        return false;
    const size_t w_stride = n + (c->bench ? 0 : check_below(c, 5));
    const float *x[4];
    for (int j = 0; j < 4; j++)
        x[j] = check_in_f32(c, n);
    const float *w = check_in_f32(c, 3 * w_stride + n);
    float *y = check_out_f32(c, n);
    check_label(c, 0, (double)n * 36, "n=%zu", n);
    CHECK_CALL(c)
    c->table->conv_silu(x, w, w_stride, n, y);
    return true;
}

bool check_rope(check *c, uint32_t i)
{
    const size_t n = length_of(c, i, 32);
    if (n == SIZE_MAX)
        return false;
    float *x = check_inout_f32(c, 2 * n);
    float *cosines = check_in_aligned(c, n * sizeof(float), sizeof(float));
    float *sines = check_in_aligned(c, n * sizeof(float), sizeof(float));
    check_fill_f32(c, cosines, n);
    check_fill_f32(c, sines, n);
    for (size_t j = 0; j < n && c->bench; j++) { /* a rotation: repeated calls do not overflow */
        cosines[j] = 0.8f;
        sines[j] = 0.6f;
    }
    check_label(c, 0, (double)n * 24, "pairs=%zu", n);
    CHECK_CALL(c)
    c->table->rope(x, cosines, sines, n);
    return true;
}

/* Every third case has NaN values, which the maximum skips. */
bool check_max(check *c, uint32_t i)
{
    const size_t n = length_of(c, c->bench ? i : i + 1, 248320);
    if (n == SIZE_MAX)
        return false;
    float *x = check_in_aligned(c, n * sizeof *x, sizeof *x);
    float *y = check_out_f32(c, 1);
    check_fill_f32(c, x, n);
    if (!c->bench && i % 3 == 0)
        for (size_t j = 0; j < 1 + n / 8; j++)
            x[check_below(c, (uint32_t)n)] = NAN;
    check_label(c, 0, (double)n * 4, "n=%zu", n);
    CHECK_CALL(c)
    y[0] = c->table->max(x, n);
    return true;
}

static float max_of(const float *x, size_t n)
{
    float best = -INFINITY;
    for (size_t i = 0; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

/* In some cases all values are so far below the given maximum that every term is near the underflow
 * limit of exp. A term of 1 would hide an error there. */
bool check_sum_exp(check *c, uint32_t i)
{
    static const float scales[] = {1.0f, 0.3f, 1.4285715f, 20.0f};
    const size_t n = length_of(c, i, 248320);
    if (n == SIZE_MAX)
        return false;
    const float *x = check_in_f32(c, n);
    float *y = check_out_f32(c, 1);
    const float top = max_of(x, n) + (i % 5 == 4 && !c->bench ? 87.0f : 0.0f);
    const float scale = scales[i % 4];
    check_label(c, 0, (double)n * 4, "n=%zu", n);
    CHECK_CALL(c)
    y[0] = c->table->sum_exp(x, n, top, scale);
    return true;
}
