/* SPDX-License-Identifier: Apache-2.0 */
/*
 * norm_ref.c - RMSNorm, gated RMSNorm, LayerNorm and L2 norm.
 *
 * Their sums have one output, so they are lanes sums. The reciprocal square root is a square root
 * and a division: hardware estimates differ between CPU vendors.
 */
#include "kernels/variants.h"

#include "kernels/fmath.h"
#include "kernels/ref/lanes.h"

/* lanes(x * x) */
static float sum_of_squares(const float *x, size_t n)
{
    lanes sums = {{0}};
    for (size_t i = 0; i < n; i++) {
        float *lane = &sums.lane[i % KERN_LANES];
        *lane = fmaf(x[i], x[i], *lane);
    }
    return lanes_total(&sums);
}

/* 1 / sqrt(mean of x^2 + eps). With eps a zero vector gives zeros, not NaN. */
static float rms_scale(const float *x, size_t n, float eps)
{
    return 1.0f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
}

void k_rmsnorm_ref(const float *x, const float *w, size_t n, float eps, float *y)
{
    const float r = rms_scale(x, n, eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * w[i];
}

/* Norm first, then the gate: y = rmsnorm(x, w) * silu(z). */
void k_rmsnorm_gated_ref(const float *x, const float *w, const float *z, size_t n, float eps,
                         float *y)
{
    const float r = rms_scale(x, n, eps);
    for (size_t i = 0; i < n; i++)
        y[i] = ((x[i] * r) * w[i]) * f_silu(z[i]);
}

/* Two passes: mean, then squares of the differences. E[x^2] - mean^2 would cancel. */
void k_layernorm_ref(const float *x, const float *w, const float *b, size_t n, float eps, float *y)
{
    lanes sums = {{0}}, squares = {{0}};
    for (size_t i = 0; i < n; i++)
        sums.lane[i % KERN_LANES] += x[i];
    const float mean = lanes_total(&sums) / (float)n;
    for (size_t i = 0; i < n; i++) {
        const float d = x[i] - mean;
        float *lane = &squares.lane[i % KERN_LANES];
        *lane = fmaf(d, d, *lane);
    }
    const float r = 1.0f / sqrtf(lanes_total(&squares) / (float)n + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf((x[i] - mean) * r, w[i], b[i]);
}

/* eps is added to the sum of squares, not to the mean. */
void k_l2norm_ref(const float *x, size_t n, float eps, float scale, float *y)
{
    const float r = 1.0f / sqrtf(sum_of_squares(x, n) + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * scale;
}
