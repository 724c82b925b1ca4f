/* SPDX-License-Identifier: Apache-2.0 */
/* acts.c - the inputs of products: see nn.h. */
#include "nn/nn.h"

void nn_acts_take(nn_acts *a, arena *m, nn_kinds kinds, size_t rows, size_t cols)
{
    if (kinds & (1u << QUANT_ACT_32)) {
        a->q32 = arena_take(m, rows * cols, sizeof *a->q32);
        a->d32 = arena_take(m, rows * (cols / 32), sizeof *a->d32);
        a->sum32 = arena_take(m, rows * (cols / 32), sizeof *a->sum32);
    }
    if (kinds & (1u << QUANT_ACT_256)) {
        a->q256 = arena_take(m, rows * cols, sizeof *a->q256);
        a->d256 = arena_take(m, rows * (cols / 256), sizeof *a->d256);
        a->sum256 = arena_take(m, rows * (cols / 16), sizeof *a->sum256);
    }
}

void nn_quantise_row(const nn *n, const nn_acts *a, size_t row, nn_kinds kinds)
{
    size_t cols = a->cols;
    const float *x = a->x + row * cols;
    if (kinds & (1u << QUANT_ACT_32))
        n->k->act_32(x, cols, a->q32 + row * cols, a->d32 + row * (cols / 32),
                     a->sum32 + row * (cols / 32));
    if (kinds & (1u << QUANT_ACT_256))
        n->k->act_256(x, cols, a->q256 + row * cols, a->d256 + row * (cols / 256),
                      a->sum256 + row * (cols / 16));
}

kern_act nn_acts_view(const nn_acts *a, size_t n_rows, quant_act act)
{
    kern_act view = {.n = n_rows, .cols = a->cols, .x = a->x};
    if (act == QUANT_ACT_32) {
        view.q = a->q32;
        view.d = a->d32;
        view.sum = a->sum32;
    } else if (act == QUANT_ACT_256) {
        view.q = a->q256;
        view.d = a->d256;
        view.sum = a->sum256;
    }
    return view;
}
