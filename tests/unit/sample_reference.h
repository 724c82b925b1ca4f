/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_reference.h - reference implementation of the sampler, simple and slow.
 *
 * Uses a full sort, and exp and log of the C library in double precision. `margin` says how close
 * the nearest decision was; tests skip a draw that rounding could change.
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
    size_t n_kept; /* candidates after all filters */
} reference_choice;

/* At least one logit must be above -inf. */
reference_choice reference_pick(const sample_input *in, const mote_sampling *how);

/* A row of logits with the input and the scratch buffer of sample_pick. */
typedef struct sample_rig {
    kern_table kernels;
    float *logits; /* [vocabulary] */
    void *scratch;
    sample_input in;
} sample_rig;

void rig_open(sample_rig *rig, uint32_t vocabulary, uint32_t n_tokens, mote_isa isa);
void rig_close(sample_rig *rig);

/* Fills the row with normal random numbers times `spread`. steps > 0 rounds them to 1/steps, so
 * many are equal. */
void rig_fill(sample_rig *rig, uint64_t seed, float spread, float steps);

/* Calls sample_pick and fails the test on an error. */
mote_choice rig_pick(sample_rig *rig, const mote_sampling *how);

#endif
