/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dialect.h - how one API asks and how it wants to be answered.
 *
 * All dialects ask for the same thing, an `ask`, and are told of the same events. Reading
 * happens on a thread of the pool and sees nothing but the body and the server; printing
 * happens on the loop. Between the two stands answering.c, which knows no dialect.
 */
#ifndef MOTE_SERVER_GENERATION_DIALECT_H
#define MOTE_SERVER_GENERATION_DIALECT_H

#include "server/generation/generation.h"

typedef struct dialect {
    const char *label;        /* in metrics: "openai", "anthropic", "ollama", "responses" */
    const char *content_type; /* of a stream */
    const char *call_prefix;  /* of the ids of calls: "call_", "toolu_" */
    unsigned place;           /* PARAM_IN_*: its rows of the table */
    bool tells_full;          /* a client like Codex hears of a full context inside a stream */
    /* Pool thread. The body is an object and the table has been applied; false: *error says why. */
    bool (*read)(request *a, http_error *error);
    /* The rest on the loop. In place of all that follows: the prompts are rendered, and that is
     * what was asked for, always if there is no `end`, else if ask.prompt_only. Must end with
     * generation_reply. NULL: it goes on. */
    void (*rendered)(generation *w);
    /* The first thing a stream says, before anything is read. May be NULL. */
    void (*begin)(generation *w);
    /* Content, reasoning and calls of a stream. A call is the choice's `open` from its start on;
     * told of its end or its cancellation, it is the last of `calls` or of `lost`.
     * Log-probabilities that belong to content are the choice's tokens from `told` on. */
    void (*event)(generation *w, choice *c, const chat_event *event);
    /* A second has passed without a word; `silent` seconds since the last event of its own. */
    void (*waiting)(generation *w, const sched_job_status *where, double silent);
    /* Of a stream; may be NULL. */
    void (*choice_over)(generation *w, choice *c);
    /* All choices are over: the end of the stream; or the whole reply, which ends with
     * generation_reply or generation_fail and is printed on a thread of the pool. */
    void (*end)(generation *w);
    /* The stream has begun and cannot go on; it is ended afterwards. */
    void (*broken)(generation *w, const http_error *error);
} dialect;

/* Reads, submits and answers; what routes call. */
void generation_start(exchange *x, const dialect *d);

#endif
