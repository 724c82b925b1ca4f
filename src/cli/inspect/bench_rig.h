/* SPDX-License-Identifier: Apache-2.0 */
/* bench_rig.h - an engine with sessions for timed runs, and the time of a run. */
#ifndef MOTE_CLI_INSPECT_BENCH_RIG_H
#define MOTE_CLI_INSPECT_BENCH_RIG_H

#include "cli/inspect/bench_measure.h"

enum { RIG_CHUNK = 512 /* tokens per step of a prefill */ };

/* Random tokens: their values do not affect speed. */
mote_token bench_token(const mote_model *model, uint64_t i);

/* A repeat by the clock, and the CPU time of all threads. */
typedef struct bench_sample {
    double wall, cpu;
} bench_sample;

bench_sample sample_begin(void);
bench_sample sample_end(bench_sample start);
/* Sorts samples[b->repeats]. `tokens`: of one repeat. */
void bench_summarize(bench_time *out, bench_sample *samples, const bench *b, uint64_t tokens);

/* An engine with n sessions. */
typedef struct rig {
    mote_engine *engine;
    mote_session **sessions;
    mote_work *work;    /* [n] */
    mote_token *tokens; /* [max(n, RIG_CHUNK)] */
    uint32_t n;
} rig;

/* context: tokens per session. logits_rows: of a step; 0: one per session. */
mote_status rig_open(rig *r, const bench *b, uint32_t n, uint64_t context, uint32_t logits_rows,
                     mote_error *err);
void rig_close(rig *r);
/* Prefills n tokens into session 0 in chunks; logits only of the last token. */
mote_status rig_prefill(rig *r, const bench *b, uint64_t n, mote_error *err);

#endif
