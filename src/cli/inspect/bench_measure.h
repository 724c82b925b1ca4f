/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_measure.h - timed runs on an engine, and the memory bandwidth to compare them with.
 *
 * Every result has the fastest and the median of several repeats. The fastest one is the least
 * disturbed by other programs.
 */
#ifndef MOTE_CLI_INSPECT_BENCH_MEASURE_H
#define MOTE_CLI_INSPECT_BENCH_MEASURE_H

#include "base/err.h"
#include "base/pool.h"

#include <mote.h>

enum { BENCH_MAX_REPEATS = 64 };

typedef struct bench_time {
    double best, median; /* seconds per repeat */
    double best_cpu; /* the least CPU time of a repeat, per thread: without waiting for a core */
    uint32_t repeats;
    uint64_t tokens; /* per repeat, of all streams */
} bench_time;

typedef struct bench {
    const mote_model *model;
    uint32_t threads;
    mote_kv kv;
    mote_pin pin;
    uint64_t memory; /* bytes that an engine may need; 0: what is available */
    uint32_t repeats;
    uint32_t decode_tokens; /* per repeat and stream */
    bool drafts;            /* the engine drafts with the MTP head (mote_engine_options.drafts) */
} bench;

/* Prefill of n tokens into an empty session, up to the last logits. */
mote_status bench_prompt(const bench *b, uint64_t n, bench_time *out, mote_error *err);
/* Decode after `depth` tokens of context. */
mote_status bench_decode(const bench *b, uint64_t depth, bench_time *out, mote_error *err);
/* Decode of n sessions in one batch: one token per session and step. */
mote_status bench_streams(const bench *b, uint32_t n, bench_time *out, mote_error *err);
/* Steps of one session with n new tokens each and logits of all of them, as in speculative
 * verification. */
mote_status bench_verify(const bench *b, uint32_t n, bench_time *out, mote_error *err);
/* From opening the file to the first token after a 16-token prompt, with the file in memory. */
mote_status bench_first_token(const bench *b, const char *path, mote_isa isa, bench_time *out,
                              mote_error *err);

/* ---- memory traffic ---- */

/* Of a model file; per_token: the bytes of weights that one decoded token reads. */
typedef struct bench_weights {
    const char *quantization; /* of the file, such as "Q4_K_M"; NULL: not stated in the file */
    uint64_t per_token;
    uint64_t file_bytes;
} bench_weights;

mote_status bench_weights_of(bench_weights *out, const char *path, mote_error *err);

/* Reads the weights of one token with all threads, only adding them up. *seconds is the fastest of
 * `repeats`. */
mote_status bench_bare_read(const char *path, pool *threads, uint32_t repeats, double *seconds,
                            mote_error *err);

#endif
