/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_reference.h - what the sampler should do, written the slow and obvious way.
 *
 * A full sort and the C library's exp and log in double precision. Where a
 * decision is so close that rounding may tip it, `margin` says so and a test
 * looks elsewhere.
 */
#ifndef MOTE_TESTS_UNIT_SAMPLE_REFERENCE_H
#define MOTE_TESTS_UNIT_SAMPLE_REFERENCE_H

#include "sample/sample.h"

typedef struct reference_choice {
    uint32_t token;
    double logprob;
    double margin; /* relative distance of the nearest decision to its threshold */
    uint32_t n_top;
    uint32_t top[MOTE_TOP_LOGPROBS];
    double top_logprob[MOTE_TOP_LOGPROBS];
    size_t n_kept; /* candidates that could have been drawn */
} reference_choice;

/* The row must hold at least one number above -inf. */
reference_choice reference_pick(const sample_input *in, const mote_sampling *how);

/* One row with its scratch: everything a test needs to call sample_pick. */
typedef struct sample_rig {
    kern_table kernels;
    float *logits; /* [vocabulary] */
    void *scratch;
    sample_input in;
} sample_rig;

void rig_open(sample_rig *rig, uint32_t vocabulary, uint32_t n_tokens, mote_isa isa);
void rig_close(sample_rig *rig);

/* Fills the row with numbers of a bell shape, `spread` wide; steps > 0 rounds them to
 * 1/steps, which makes many of them equal. */
void rig_fill(sample_rig *rig, uint64_t seed, float spread, float steps);

/* Must succeed. */
mote_choice rig_pick(sample_rig *rig, const mote_sampling *how);

#endif
