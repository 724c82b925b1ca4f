/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_avx512.c - norms, element-wise kernels and reductions; see body_elementwise.h. */
#include "kernels/variants.h"

#include "kernels/x86/vec_avx512.h"

#include "kernels/vec/body_elementwise.h"

void k_rmsnorm_avx512(const float *x, const float *w, size_t n, float eps, float *y)
{
    body_rmsnorm(x, w, n, eps, y);
}

void k_rmsnorm_gated_avx512(const float *x, const float *w, const float *z, size_t n, float eps,
                            float *y)
{
    body_rmsnorm_gated(x, w, z, n, eps, y);
}

void k_l2norm_avx512(const float *x, size_t n, float eps, float scale, float *y)
{
    body_l2norm(x, n, eps, scale, y);
}

void k_layernorm_avx512(const float *x, const float *w, const float *b, size_t n, float eps,
                        float *y)
{
    body_layernorm(x, w, b, n, eps, y);
}

void k_gelu_tanh_avx512(const float *b, size_t n, float *y)
{
    body_gelu_tanh(b, n, y);
}

void k_gelu_erf_avx512(const float *b, size_t n, float *y)
{
    body_gelu_erf(b, n, y);
}

void k_add_avx512(const float *x, size_t n, float *y)
{
    body_add(x, n, y);
}

void k_axpy_avx512(float a, const float *x, size_t n, float *y)
{
    body_axpy(a, x, n, y);
}

void k_silu_mul_avx512(const float *gate, const float *up, size_t n, float *y)
{
    body_silu_mul(gate, up, n, y);
}

void k_conv_silu_avx512(const float *const x[4], const float *w, size_t w_stride, size_t n,
                        float *y)
{
    body_conv_silu(x, w, w_stride, n, y);
}

float k_max_avx512(const float *x, size_t n)
{
    return vf_max_array(x, n);
}

float k_sum_exp_avx512(const float *x, size_t n, float max, float scale)
{
    return body_sum_exp(x, n, max, scale);
}
