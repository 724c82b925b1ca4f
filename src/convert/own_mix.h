/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_mix.h - mixes of mote's own: the formats with which a model's predictions change least.
 *
 * Which tensors are sensitive is measured. A copy of the model has one group of tensors quantised at
 * a time, in the format PROBE of own_mix.c; the divergence of its predictions from those of the
 * model, divided by the squared error of the weights, is the sensitivity of the group. The expected
 * cost of a format for a tensor is that sensitivity times the squared error in that format. With
 * these costs mix_search chooses the formats. Reasons and numbers:
 * docs/decisions/0027-measured-mixes.md.
 *
 * A group has all matrices of one kind in some consecutive layers, so that the number of
 * measurements does not grow with the model.
 */
#ifndef MOTE_CONVERT_OWN_MIX_H
#define MOTE_CONVERT_OWN_MIX_H

#include "gguf/gguf.h"

#include <mote.h>

/* Raised when the same measurements would lead to other choices. */
enum { OWN_MIX_VERSION = 2 };

/* What runs, with the unit of its progress. */
typedef enum own_mix_phase {
    OWN_MIX_ERRORS, /* errors of the weights in each format; bytes of the model */
    OWN_MIX_COPY,   /* bytes */
    OWN_MIX_MEASURE /* tokens */
} own_mix_phase;

/* `tensor`: the first one of those at work. False: stop with MOTE_E_CANCELED. */
typedef bool own_mix_progress_fn(void *ctx, own_mix_phase phase, const char *tensor, uint64_t done,
                                 uint64_t all);

/* One tensor, in the order of the output. */
typedef struct own_mix_tensor {
    const gguf_tensor *source;
    quant_format format; /* in: if fixed; out: the choice */
    bool fixed;
    float cost; /* out: expected divergence due to this tensor; 0 if fixed */
} own_mix_tensor;

typedef struct own_mix_options {
    const gguf *gguf;     /* the model */
    own_mix_tensor *list; /* [n] */
    uint32_t n;
    uint64_t budget;  /* bytes of all tensors with padding */
    const char *copy; /* path of the copy, which is removed afterwards */
    str text;
    uint32_t threads;
    mote_isa isa;
    /* Writes rows [first, first + n) of a tensor in a format. */
    mote_status (*encode)(void *ctx, uint32_t tensor, quant_format format, uint64_t first,
                          uint64_t n, void *out, mote_error *err);
    /* Weights of squared errors of a row, one per column; NULL: all are 1. May be NULL. */
    const float *(*importance)(void *ctx, uint32_t tensor, uint64_t row);
    own_mix_progress_fn *progress; /* may be NULL */
    void *ctx;
} own_mix_options;

mote_status own_mix_choose(const own_mix_options *o, mote_error *err);

/* Bytes of a tensor in a format, with padding; 0: it cannot have the format. */
uint64_t own_mix_tensor_bytes(const gguf_tensor *t, quant_format format);

#endif
