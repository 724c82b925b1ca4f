/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - what happens to each row of a pass by itself: norms, residuals, gates. */
#ifndef MOTE_NN_ROWS_H
#define MOTE_NN_ROWS_H

#include "nn/nn.h"

/* x += add (add may be NULL), then out = rmsnorm(x) * w, quantised as wanted.
 * x: [n_rows][cols], add: [n_rows][cols]. */
void nn_residual_norm(const nn *n, float *x, const float *add, const float *w, float eps,
                      size_t n_rows, nn_acts *out, nn_kinds kinds);

/* x += add */
void nn_residual(const nn *n, float *x, const float *add, size_t n_rows, size_t cols);

/* out = silu(gate) * up, quantised as wanted. gate and up: [n_rows][cols]. */
void nn_gated_unit(const nn *n, const float *gate, const float *up, size_t cols, size_t n_rows,
                   nn_acts *out, nn_kinds kinds);

/* Quantises rows whose floats are already in place. */
void nn_quantise(const nn *n, nn_acts *a, size_t n_rows, nn_kinds kinds);

/* ---- of the picture tower ---- */

/* out = layernorm(x) * w + b for n_rows rows of out->cols values, in the wanted forms. */
void nn_layernorm(const nn *n, const float *x, const float *w, const float *b, float eps,
                  size_t n_rows, nn_acts *out, nn_kinds kinds);
/* a->x = gelu(a->x + bias) in the wanted forms. */
void nn_bias_gelu(const nn *n, kern_gelu_fn *gelu, const float *bias, size_t n_rows, nn_acts *a,
                  nn_kinds kinds);
/* branch = branch + bias, and with a stream: x = x + branch. */
void nn_bias_residual(const nn *n, float *branch, const float *bias, size_t n_rows, size_t cols,
                      float *x);

#endif
