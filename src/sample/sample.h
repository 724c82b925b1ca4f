/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h - samples the next token from a row of logits.
 *
 * The result is a pure function of the logits, the options, the generated tokens and the position
 * (docs/numerics.md section 9). sample.c lists the steps in order. Thread-safe with one scratch
 * buffer per thread.
 */
#ifndef MOTE_SAMPLE_SAMPLE_H
#define MOTE_SAMPLE_SAMPLE_H

#include "base/err.h"
#include "kernels/kernels.h"

typedef struct sample_input {
    const kern_table *kernels;
    const float *logits; /* [vocabulary] */
    uint32_t vocabulary;
    uint32_t n_tokens;           /* ids >= n_tokens are padding and never chosen */
    const mote_token *generated; /* [n_generated], for the penalties; padding ids are ignored */
    size_t n_generated;
    uint64_t position; /* of the sampled token: the counter of the random number */
} sample_input;

/* Size of the scratch buffer of sample_pick. It must be 64-byte aligned and can be reused. */
size_t sample_scratch_bytes(uint32_t vocabulary);

/* `how` NULL: all options zero. `out` is written only on success. Does not allocate.
 * MOTE_E_ARG: an option is out of range or NaN, or the options exclude every token.
 * MOTE_E_FORMAT: every logit is NaN or -inf. */
mote_status sample_pick(const sample_input *in, const mote_sampling *how, void *scratch,
                        mote_choice *out, mote_error *err);

/* Checks the ranges of all options. MOTE_E_ARG: the text has the first one out of range. */
mote_status sample_check_options(const mote_sampling *how, uint32_t n_tokens, mote_error *err);

#endif
