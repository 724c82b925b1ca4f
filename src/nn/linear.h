/* SPDX-License-Identifier: Apache-2.0 */
/* linear.h - weight matrices and their products with the rows of a pass. */
#ifndef MOTE_NN_LINEAR_H
#define MOTE_NN_LINEAR_H

#include "nn/nn.h"

/* A view of weights in the mapped file, or of floats decoded at open. */
typedef struct nn_matrix {
    const unsigned char *data; /* [rows][row_bytes] */
    const quant_info *format;
    kern_gemm_fn *gemm;
    size_t rows, cols, row_bytes;
} nn_matrix;

/* The product of this format in this table. */
kern_gemm_fn *nn_gemm_for(const kern_table *k, quant_format format);

/* One matrix applied to all rows: y[row * y_stride + r]. */
typedef struct nn_product {
    const nn_matrix *w;
    float *y;
    size_t y_stride;
} nn_product;

enum { NN_MAX_PRODUCTS = 4 };

/* Several matrices with one input, in one meeting of the threads. The wanted
 * forms of the input must have been made. */
void nn_linear(const nn *n, const nn_acts *input, size_t n_rows, const nn_product *products,
               size_t n_products);

#endif
