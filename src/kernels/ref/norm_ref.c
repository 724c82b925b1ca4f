/* SPDX-License-Identifier: Apache-2.0 */
/*
 * norm_ref.c - RMSNorm, its gated form, and the L2 norm.
 *
 * Each has one sum with one output, the squares of the vector, so it is a sum by
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

/* eps stands under the root and is added to the sum, not to the mean. */
void k_l2norm_ref(const float *x, size_t n, float eps, float scale, float *y)
{
    const float r = 1.0f / sqrtf(sum_of_squares(x, n) + eps);
    for (size_t i = 0; i < n; i++)
        y[i] = (x[i] * r) * scale;
}
