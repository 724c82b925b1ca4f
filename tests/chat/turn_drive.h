/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn_drive.h - drives turns as a scheduler does: one or several per step, prompts prefilled whole
 * or in chunks, with staggered starts, with or without drafts. The result is a log of events.
 */
#ifndef MOTE_TESTS_CHAT_TURN_DRIVE_H
#define MOTE_TESTS_CHAT_TURN_DRIVE_H

#include "chat/turn/response_format.h"
#include "chat/prompt/render.h"
#include "spec/spec.h"

/* Shared by all jobs. */
typedef struct turn_host {
    mote_engine *engine;
    chat_context chat_ctx;
    token_trie *vocab;
    spec *spec; /* drafts for all jobs; NULL: none. Set by the caller */
} turn_host;

void turn_host_open(turn_host *h, mote_engine *engine);
void turn_host_close(turn_host *h);

typedef struct turn_job {
    /* input */
    const char *request; /* JSON, see chat_parsed_read(); if raw, the prompt text */
    mote_answer_options how;
    bool raw, logprobs, ignore_end;
    uint32_t min_tokens;
    const bool *tool_allowed;
    size_t chunk;           /* maximum tokens per step; 0: no limit */
    size_t start_after;     /* steps before the job starts */
    size_t end_thinking_at; /* answer tokens after which thinking is closed; 0: never */
    int mode;               /* spec_item.mode, if the host has drafts */
    /* state */
    json_doc *doc;
    chat_parsed parsed;
    chat_prompt prompt;
    chat_turn *turn;
    mote_session *session;
    chat_turn_want want;
    bool started;
    spec_seq *seq;
    size_t rows;             /* of logits of the last step */
    uint64_t drafted, right; /* draft tokens, and those accepted */
    strbuf log;              /* "kind name text", one line per event, escaped as in JSON */
    strbuf chosen;           /* raw bytes of the choices of CHAT_EVENT_TOKEN */
} turn_job;

/* Makes the turn, without a session. */
mote_status turn_job_new(turn_job *g, const turn_host *h, mote_error *err);
/* One step for all jobs that have started and are not over. false: all are over. Aborts on
 * errors. */
bool turn_jobs_step(turn_host *h, turn_job *jobs, size_t n);
/* Steps until all are over. */
void turn_jobs_run(turn_host *h, turn_job *jobs, size_t n);
void turn_job_free(turn_job *g);

/* The tokens of the answer, without the prompt. */
const mote_token *turn_job_answer(const turn_job *g, size_t *n);
bool text_has(str text, str part);
/* Whether the log contains this text. */
bool turn_job_logged(const turn_job *g, const char *text);

#endif
