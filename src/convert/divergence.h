/* SPDX-License-Identifier: Apache-2.0 */
/*
 * divergence.h - how far the predictions of a model file are from those of the file before a change.
 *
 * divergence_new runs a text through the model and keeps its predictions. divergence_measure opens
 * the file again and returns the mean Kullback-Leibler divergence of its predictions from those.
 *
 * The text is cut into windows of DIVERGENCE_WINDOW tokens; each starts with an empty session, and
 * the first eighth is only context. Of each prediction the DIVERGENCE_TOP most likely tokens are
 * kept and the sum of all others, so the result is a lower bound, and memory does not depend on the
 * vocabulary. The result is the same with any number of threads.
 */
#ifndef MOTE_CONVERT_DIVERGENCE_H
#define MOTE_CONVERT_DIVERGENCE_H

#include "base/str.h"

#include <mote.h>

enum { DIVERGENCE_WINDOW = 256, DIVERGENCE_TOP = 256 };

typedef struct divergence divergence;

typedef struct divergence_options {
    const char *path; /* of the model file; must outlive the object */
    str text;         /* control tokens in it count as text */
    uint32_t tokens;  /* of the text at most; rounded down to windows */
    uint32_t threads;
    mote_isa isa;
    /* False: stop with MOTE_E_CANCELED. Called for each window. May be NULL. */
    bool (*go_on)(void *ctx);
    void *ctx;
} divergence_options;

/* MOTE_E_ARG: the text is shorter than a window. */
mote_status divergence_new(divergence **out, const divergence_options *o, mote_error *err);
void divergence_free(divergence *d);
/* Tokens of one measurement. */
uint64_t divergence_tokens(const divergence *d);

mote_status divergence_measure(divergence *d, double *mean, mote_error *err);

#endif
