/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch_run.h - runs the lines of a batch: each is a request to a route of the OpenAI API.
 *
 * The requests are local exchanges, so parsing, rendering, scheduling and printing are those of
 * `mote serve`. As many run at the same time as the scheduler has slots, and as many wait in its
 * queue. A request that the server refuses for now (429, 503) is repeated, with pauses. Everything
 * else is the result of its line.
 *
 * Event loop thread only.
 */
#ifndef MOTE_SERVER_BATCH_BATCH_RUN_H
#define MOTE_SERVER_BATCH_BATCH_RUN_H

#include "server/batch/batch_journal.h"
#include "server/core/context.h"

typedef struct batch_run batch_run;

typedef struct batch_run_options {
    server_context *ctx;
    batch_lines *lines;
    batch_journal *journal;
    uint32_t parallel;    /* requests at the same time; 0: 8 */
    uint64_t client, ns;  /* as in http_request */
    bool background;      /* requests of clients come first */
    bool bare;            /* a line may be a bare body */
    bool fail_fast;       /* the first failed line ends the run */
    const char *endpoint; /* the only url; NULL: every url that a batch can have */
    double patience;      /* seconds for which a line that the server refuses is repeated */
    double sync_seconds;  /* how often results are written to the disk; 0: not by this */
    /* The run is over: all lines have results, or it has failed. Called once, never inside
     * batch_run_start(). batch_run_free() may be called in it. */
    void (*over)(void *with);
    void *with;
} batch_run_options;

typedef struct batch_progress {
    uint32_t lines;    /* to run, those of earlier runs included */
    uint32_t done;     /* of these, lines with a result */
    uint32_t failed;   /* of these, without a reply of status 200 */
    uint32_t finished; /* by this run */
    uint64_t prompt_tokens, cached_tokens, answer_tokens; /* of this run */
    double seconds;                                       /* of this run */
} batch_progress;

/* NULL: out of memory. */
batch_run *batch_run_new(const batch_run_options *options);
void batch_run_start(batch_run *r);
/* Every 100 ms: repeats refused requests. */
void batch_run_tick(batch_run *r, double now);
/* Ends running requests. Their lines have no results. */
void batch_run_stop(batch_run *r);
/* Stops. NULL is allowed. */
void batch_run_free(batch_run *r);

void batch_run_progress(const batch_run *r, batch_progress *out);
/* MOTE_OK, or why the run ended early: a result could not be written. */
mote_status batch_run_error(const batch_run *r, mote_error *err);
/* Seconds before a refused line is repeated: 0.25, 0.5, ..., at most 16. */
double batch_retry_pause(uint32_t attempts);
/* May a line, or a batch of the server, have this url? */
bool batch_url_is_known(str url);

#endif
