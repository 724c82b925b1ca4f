/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_float_ref.c - GEMM with F32, F16 and BF16 weights.
 *
 *     y[t][r] = sum_i w[r][i] * x[t][i], a lanes sum (lanes.h)
 *
 * Weights widen to f32 exactly, and the activations stay f32. y[t][r] does not depend on other rows
 * or tokens, so it is the same number in every batch.
 */
#include "kernels/variants.h"

#include "kernels/ref/lanes.h"
#include "quant/half.h"

#include <math.h>

/* Weight i of a row. */
typedef float weight_fn(const void *row, size_t i);

static float weight_f32(const void *row, size_t i)
{
    return ((const float *)row)[i];
}

static float weight_f16(const void *row, size_t i)
{
    return half_f16_to_f32(((const uint16_t *)row)[i]);
}

static float weight_bf16(const void *row, size_t i)
{
    return half_bf16_to_f32(((const uint16_t *)row)[i]);
}

static float float_dot(const void *row, weight_fn *weight, const float *x, size_t n)
{
    lanes sums = {{0}};
    for (size_t i = 0; i < n; i++) {
        float *lane = &sums.lane[i % KERN_LANES];
        *lane = fmaf(weight(row, i), x[i], *lane);
    }
    return lanes_total(&sums);
}

static void gemm_float_ref(const kern_gemm_args *a, weight_fn *weight)
{
    const kern_act *x = a->x;
    for (size_t r = 0; r < a->rows; r++) {
        const void *row = (const char *)a->w + r * a->row_bytes;
        for (size_t t = 0; t < x->n; t++)
            a->y[t * a->y_stride + r] = float_dot(row, weight, x->x + t * x->cols, x->cols);
    }
}

void k_gemm_f32_ref(const kern_gemm_args *a)
{
    gemm_float_ref(a, weight_f32);
}

void k_gemm_f16_ref(const kern_gemm_args *a)
{
    gemm_float_ref(a, weight_f16);
}

void k_gemm_bf16_ref(const kern_gemm_args *a)
{
    gemm_float_ref(a, weight_bf16);
}
