/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_measure.h - timed work on one engine.
 *
 * Each figure is the fastest of several repeats: what the machine can do, with
 * other programs' noise left out as far as that is possible; the median is
 * kept beside it.
 */
#ifndef MOTE_CLI_INSPECT_BENCH_MEASURE_H
#define MOTE_CLI_INSPECT_BENCH_MEASURE_H

#include <mote.h>

enum { BENCH_MAX_REPEATS = 64 };

typedef struct bench_time {
    double best, median; /* seconds of one repeat */
    uint32_t repeats;
    uint64_t tokens; /* of one repeat, all streams together */
} bench_time;

typedef struct bench {
    const mote_model *model;
    uint32_t threads;
    mote_kv kv;
    mote_pin pin;
    uint32_t repeats;
    uint32_t decode_tokens; /* of one repeat and stream */
} bench;

/* A prompt of n tokens from an empty session to its last logits. */
mote_status bench_prompt(const bench *b, uint64_t n, bench_time *out, mote_error *err);
/* Tokens one after the other behind `depth` others. */
mote_status bench_decode(const bench *b, uint64_t depth, bench_time *out, mote_error *err);
/* One token for each of n sessions a step. */
mote_status bench_streams(const bench *b, uint32_t n, bench_time *out, mote_error *err);
/* From the file's name to the first token of a 16-token prompt, file in memory. */
mote_status bench_first_token(const bench *b, const char *path, mote_isa isa, bench_time *out,
                              mote_error *err);

#endif
