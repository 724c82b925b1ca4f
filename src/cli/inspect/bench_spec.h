/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_spec.h - speed of speculative decoding with imposed acceptance.
 *
 * Does all work of speculative decoding: drafts, a step with the drafts and logits of all rows,
 * sampling row by row, rewind. Only the comparison of a draft with the sampled token is replaced by
 * a seeded oracle with a given rate. So random weights are enough to measure what a rate of
 * acceptance gives on a machine. As in spec_plan(), a draft ends before a multiple of 32.
 */
#ifndef MOTE_CLI_INSPECT_BENCH_SPEC_H
#define MOTE_CLI_INSPECT_BENCH_SPEC_H

#include "cli/inspect/bench_measure.h"

enum { BENCH_SPEC_MOST = 8 /* draft tokens per step */ };

typedef struct bench_spec_rates {
    double
        at[BENCH_SPEC_MOST]; /* place i in the draft, given that the places before are accepted */
} bench_spec_rates;

/* Parses "0.88,0.82,0.71": the last rate counts for all later places. false: not 1 to 8 numbers
 * from 0 to 1. */
bool bench_spec_parse(const char *text, bench_spec_rates *out);

typedef struct bench_spec_time {
    uint32_t streams;
    uint32_t drafts;            /* per step and stream, at most; 0: plain decoding */
    bench_time time;            /* of a repeat; tokens: appended for good */
    uint64_t steps;             /* per repeat */
    uint64_t drafted, accepted; /* tokens per repeat */
    /* Seconds per step of the fastest repeat. */
    double draft, verify, sample, rewind;
    /* Of plain decoding, if the model has a draft head: seconds of a draft token of all streams, in
     * the MTP block and in the trimmed output head. */
    double block, head;
} bench_spec_time;

/* Measures plain decoding and each length of drafts[n], alternating, with `streams` sessions:
 * n + 1 results, plain decoding first. b->decode_tokens is the number of steps. Models without a
 * draft head draft at no cost, like suffix lookup. */
mote_status bench_spec(const bench *b, uint32_t streams, const bench_spec_rates *rates,
                       const uint64_t *drafts, size_t n, bench_spec_time *out, mote_error *err);

#endif
