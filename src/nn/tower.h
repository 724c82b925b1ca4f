/* SPDX-License-Identifier: Apache-2.0 */
/* tower.h - row-wise steps of the picture tower, fused so that a row is touched once. */
#ifndef MOTE_NN_TOWER_H
#define MOTE_NN_TOWER_H

#include "nn/nn.h"

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
