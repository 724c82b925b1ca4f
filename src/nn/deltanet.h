/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deltanet.h - the Gated DeltaNet mixer: short convolution, gated delta rule, gated norm.
 *
 * The recurrent state of a layer for one sequence has three parts: the state matrices S0 at the
 * last multiple of 32 positions, the rows (k, u, G) of the positions since, and the last inputs of
 * the convolution (docs/numerics.md section 6). The session owns that memory; this layer reads and
 * advances it.
 */
#ifndef MOTE_NN_DELTANET_H
#define MOTE_NN_DELTANET_H

#include "nn/nn.h"

enum {
    DELTA_TAPS = 4,                 /* of the convolution */
    DELTA_HISTORY = DELTA_TAPS - 1, /* earlier inputs that one output needs */
    DELTA_SLACK = 16,               /* more earlier inputs, for short rewinds */
    DELTA_RING = DELTA_HISTORY + DELTA_SLACK
};

/* Head counts; every head has 128 key and 128 value dimensions. */
typedef struct delta_shape {
    size_t key_heads, value_heads; /* value head n reads key head n % key_heads */
    float eps;
} delta_shape;

static inline size_t delta_key_dim(const delta_shape *s)
{
    return s->key_heads * KERN_STATE_DIM;
}
static inline size_t delta_value_dim(const delta_shape *s)
{
    return s->value_heads * KERN_STATE_DIM;
}
static inline size_t delta_conv_dim(const delta_shape *s)
{
    return 2 * delta_key_dim(s) + delta_value_dim(s);
}

/* The weights other than matrices. */
typedef struct delta_weights {
    const float *conv;    /* [4][conv_dim], oldest tap first */
    const float *a;       /* [value_heads], negative: g = a * softplus(alpha + dt_bias) */
    const float *dt_bias; /* [value_heads] */
    const float *norm;    /* [128], shared by all heads */
} delta_weights;

/* The recurrent state of one layer of one sequence. */
typedef struct delta_memory {
    const float *state; /* [value_heads][128][128] at the boundary before the rows */
    float *next_state;  /* same shape: output, state at a later boundary; may equal `state` */
    float *next_inputs; /* [3][conv_dim]: output, convolution inputs before that boundary */
    float *k_rows;      /* [32][key_dim] */
    float *u_rows;      /* [32][value_dim] */
    double *g_rows;     /* [32][value_heads] */
    float *ring;        /* [19][conv_dim]: the input of position p is at p % 19 */
} delta_memory;

/* n consecutive rows of the pass that belong to one sequence. */
typedef struct delta_segment {
    size_t row, n;
    uint64_t pos; /* of the first row */
    delta_memory memory;
} delta_segment;

/* Outputs of the input projections for the rows of the pass. */
typedef struct delta_rows {
    const float *qkv;   /* [rows][conv_dim]: q, k, v before the convolution */
    const float *z;     /* [rows][value_dim]: the output gate */
    const float *alpha; /* [rows][value_heads] */
    const float *beta;  /* [rows][value_heads] */
    float *y;           /* [rows][value_dim]: output */
} delta_rows;

void nn_deltanet(const nn *n, const delta_shape *shape, const delta_weights *w,
                 const delta_segment *segments, size_t n_segments, const delta_rows *rows);

#endif
