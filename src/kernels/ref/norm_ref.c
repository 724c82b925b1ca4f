/* SPDX-License-Identifier: Apache-2.0 */
/*
 * norm_ref.c - RMSNorm, its gated form, LayerNorm, and the L2 norm.
 *
 * Each has sums with one output, mostly of the squares of the vector, so they are sums by
 * lanes. The reciprocal root is a true square root and a true division: estimates
 * differ between processors.
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

/* 1 / sqrt(mean of x^2 + eps). eps keeps a zero vector at zero instead of NaN. */
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

/* The norm comes first, the gate after it: y = rmsnorm(x, w) * silu(z). */
void k_rmsnorm_gated_ref(const float *x, const float *w, const float *z, size_t n, float eps,
                         float *y)
{
    const float r = rms_scale(x, n, eps);
    for (size_t i = 0; i < n; i++)
        y[i] = ((x[i] * r) * w[i]) * f_silu(z[i]);
}

/* The mean first and then the squares around it: the difference of two large sums would cancel. */
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

/* eps stands under the root and is added to the sum, not to the mean. */
void k_l2norm_ref(const float *x, size_t n, float eps, float scale, float *y)
{
    const float r = 1.0f / sqrtf(sum_of_squares(x, n) + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * scale;
}
