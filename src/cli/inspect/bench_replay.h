/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_replay.h - speed of speculative decoding on a given text.
 *
 * Replays an answer: every token that the model would sample is replaced by the next token of the
 * text, all other work is real. Drafts come from suffix lookup, and the tuner chooses their lengths
 * as in `mote serve --spec auto`. So random weights are enough to measure what lookup gives on a
 * text, for example on a rewritten source file.
 */
#ifndef MOTE_CLI_INSPECT_BENCH_REPLAY_H
#define MOTE_CLI_INSPECT_BENCH_REPLAY_H

#include "cli/inspect/bench_measure.h"

/* A prompt and its answer as tokens. */
typedef struct bench_text {
    mote_token *tokens; /* [n] */
    size_t n;
    size_t n_prompt;
} bench_text;

/* Reads a file: the prompt, a line "%%", the answer. */
mote_status bench_text_read(bench_text *out, const mote_model *model, const char *path,
                            mote_error *err);
void bench_text_free(bench_text *text);

typedef struct bench_replay_time {
    bench_time plain, drafts; /* of the answer */
    uint64_t steps;           /* with drafts */
    uint64_t drafted, accepted;
} bench_replay_time;

/* Decodes the answer without and with drafts, alternating. The tuner starts without experience. */
mote_status bench_replay(const bench *b, const bench_text *text, bench_replay_time *out,
                         mote_error *err);

#endif
