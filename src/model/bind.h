/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bind.h - tensors of a file become matrices and vectors, checked on the way.
 *
 * A binding runs twice over the same code: first with an arena that only counts, which also
 * does all the checking, then with memory, decoding into it.
 */
#ifndef MOTE_MODEL_BIND_H
#define MOTE_MODEL_BIND_H

#include "base/arena.h"
#include "gguf/gguf.h"
#include "nn/nn.h"

typedef struct binder {
    const gguf *g;
    const kern_table *k;
    arena memory;
    nn_kinds kinds;
    uint64_t parameters;
    mote_error *err;
} binder;

/* A tensor by name with exactly these dimensions, fastest first. */
mote_status bind_find(binder *b, const char *name, uint64_t d0, uint64_t d1,
                      const gguf_tensor **out);
/* A matrix left in the file: y has `rows` values, x has `cols`. */
mote_status bind_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols, nn_matrix *m);
/* A tensor decoded to floats, d0 fastest; NULL while counting. */
mote_status bind_floats(binder *b, const char *name, uint64_t d0, uint64_t d1, float **out);
mote_status bind_vector(binder *b, const char *name, uint64_t n, const float **out);
/* A thin matrix whose products stay in floats. */
mote_status bind_float_matrix(binder *b, const char *name, uint64_t rows, uint64_t cols,
                              nn_matrix *m);

#endif
