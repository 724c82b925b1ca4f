/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nn.h - what every layer needs: kernels, threads, working memory, activations.
 *
 * nn/ puts kernels onto threads. A pass is a set of rows (tokens), possibly of
 * many sessions; each layer function divides its outputs into tasks and returns
 * when all are done. No function here allocates or fails.
 */
#ifndef MOTE_NN_NN_H
#define MOTE_NN_NN_H

#include "base/arena.h"
#include "base/pool.h"
#include "kernels/kernels.h"
#include "quant/quant.h"

typedef struct nn {
    const kern_table *k;
    pool *pool;
    unsigned char *worker_memory; /* [pool_size][NN_WORKER_BYTES] */
} nn;

/* One worker's own memory: the scratch of a product, or the tiles of a layer. */
enum { NN_WORKER_BYTES = KERN_SCRATCH_BYTES };

static inline void *nn_worker(const nn *n, uint32_t worker)
{
    return n->worker_memory + (size_t)worker * NN_WORKER_BYTES;
}

/* ---- activations ---- */

/* The input of a product for every row of a pass: the floats, and what has been
 * quantised of them. Buffers hold batch rows of at most max_cols values. */
typedef struct nn_acts {
    float *x;        /* [batch][cols] */
    int8_t *q32;     /* [batch][cols] */
    int8_t *q256;    /* [batch][cols] */
    float *d32;      /* [batch][cols / 32] */
    float *d256;     /* [batch][cols / 256] */
    int16_t *sum32;  /* [batch][cols / 32] */
    int16_t *sum256; /* [batch][cols / 16] */
    size_t cols;     /* of the rows it holds now */
} nn_acts;

/* A set of quant_act: which forms of an input the matrices that read it want. */
typedef unsigned nn_kinds;

static inline nn_kinds nn_kind(const quant_info *format)
{
    return 1u << format->act;
}

/* Takes memory for the quantised forms of `rows` rows of at most `cols` values (or counts it); x is
 * the caller's. */
void nn_acts_take(nn_acts *a, arena *m, nn_kinds kinds, size_t rows, size_t cols);

/* Quantises row `row` of a->x in each wanted form. */
void nn_quantise_row(const nn *n, const nn_acts *a, size_t row, nn_kinds kinds);

/* The form of rows 0 .. n_rows-1 that a format reads. */
kern_act nn_acts_view(const nn_acts *a, size_t n_rows, quant_act act);

#endif
