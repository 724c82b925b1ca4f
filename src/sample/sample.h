/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample.h - from a row of logits to the next token.
 *
 * A pure function of the logits, the options, the tokens generated so far and
 * the position (docs/numerics.md section 9). Nothing here knows a session.
 */
#ifndef MOTE_SAMPLE_SAMPLE_H
#define MOTE_SAMPLE_SAMPLE_H

#include "base/err.h"
#include "kernels/kernels.h"

typedef struct sample_input {
    const kern_table *kernels;
    const float *logits; /* [vocabulary] */
    uint32_t vocabulary;
    uint32_t n_tokens;           /* ids from here on are padding and never chosen */
    const mote_token *generated; /* [n_generated], what penalties look at; padding is ignored */
    size_t n_generated;
    uint64_t position; /* of the token to be drawn: the counter of the random number */
} sample_input;

/* Working memory for one call, made once: sample_scratch_bytes(vocabulary) bytes, 64-aligned. */
size_t sample_scratch_bytes(uint32_t vocabulary);

/* sample.c states the order of everything it does. `how` may be NULL: all zero. `out` is
 * written only on success. Never allocates; what scratch held before does not matter.
 * MOTE_E_ARG: an option is out of range or not a number, or allowed and bias forbid every token.
 * MOTE_E_FORMAT: the row holds nothing but NaN and -inf. */
mote_status sample_pick(const sample_input *in, const mote_sampling *how, void *scratch,
                        mote_choice *out, mote_error *err);

/* ---- what mote_sampling may hold; the ranges themselves are in the .c file. ---- */

/* MOTE_E_ARG names the first option that is out of range, with its value. */
mote_status sample_check_options(const mote_sampling *how, uint32_t n_tokens, mote_error *err);

#endif
