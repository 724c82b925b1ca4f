/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_ref.c - the two reductions of a softmax over the vocabulary. */
#include "kernels/variants.h"

#include "kernels/fmath.h"
#include "kernels/ref/lanes.h"

/* Of equal values the first is returned; this is visible only for +0 and -0. A NaN is skipped,
 * because it compares false. If all values are NaN the result is -inf. */
float k_max_ref(const float *x, size_t n)
{
    float best = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (x[i] > best)
            best = x[i];
    return best;
}

/* The softmax denominator: lanes(e^((x - max) * scale)), where scale is 1 / temperature. The
 * maximum contributes exactly 1. */
float k_sum_exp_ref(const float *x, size_t n, float max, float scale)
{
    lanes sums = {{0}};
    for (size_t i = 0; i < n; i++)
        sums.lane[i % KERN_LANES] += f_exp((x[i] - max) * scale);
    return lanes_total(&sums);
}
