/* SPDX-License-Identifier: Apache-2.0 */
/* prefill.h - reads a prompt into a session, in slices, with a progress line. */
#ifndef MOTE_CLI_LOAD_PREFILL_H
#define MOTE_CLI_LOAD_PREFILL_H

#include <mote.h>

/* Called when the logits of `rows` more tokens are in the session; false ends the work. */
typedef bool feed_rows_fn(void *ctx, const mote_session *session, size_t rows);

typedef struct feed_job {
    mote_engine *engine;
    mote_session *session;
    const mote_token *tokens;
    size_t n;
    size_t slice;       /* tokens of one step; 0: as many as keep Ctrl-C and the line alive */
    size_t slice_max;   /* limit of that; 0: 512 */
    mote_logits want;   /* LAST: of the last token of the prompt; ALL: of every token */
    feed_rows_fn *rows; /* with ALL; may be NULL otherwise */
    void *ctx;
} feed_job;

/* Cutting a prompt changes no bit of what comes out of it. */
mote_status feed_prompt(const feed_job *job, mote_error *err);

#endif
