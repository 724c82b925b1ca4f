/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise_ref.c - element-wise kernels: output i depends on element i (or one pair) of the
 * inputs. */
#include "kernels/variants.h"

#include "kernels/fmath.h"

/* Residual connection. */
void k_add_ref(const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] + x[i];
}

/* One expert of the weighted sum of a mixture. */
void k_axpy_ref(float a, const float *x, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

/* SwiGLU of the feed-forward layer. */
void k_silu_mul_ref(const float *gate, const float *up, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = f_silu(gate[i]) * up[i];
}

/* GELU of the feed-forward layer of the vision encoder, with the bias of its first matrix. */
void k_gelu_tanh_ref(const float *b, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = f_gelu_tanh(y[i] + b[i]);
}

void k_gelu_erf_ref(const float *b, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = f_gelu_erf(y[i] + b[i]);
}

/* Causal convolution of DeltaNet: for channel i, the weighted sum of the last four inputs. x[0] is
 * the oldest. The sum is a chain from the oldest to the newest. */
void k_conv_silu_ref(const float *const x[4], const float *w, size_t w_stride, size_t n, float *y)
{
    for (size_t i = 0; i < n; i++) {
        float sum = 0.0f;
        for (size_t j = 0; j < 4; j++)
            sum = fmaf(w[j * w_stride + i], x[j][i], sum);
        y[i] = f_silu(sum);
    }
}

/* RoPE: rotates the pair (x[i], x[i + n]) by the angle of frequency i. All four products are
 * rounded before the sums, as in training. */
void k_rope_ref(float *x, const float *cos, const float *sin, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const float a = x[i], b = x[i + n];
        const float ac = a * cos[i], bs = b * sin[i];
        const float bc = b * cos[i], as = a * sin[i];
        x[i] = ac - bs;
        x[i + n] = bc + as;
    }
}
