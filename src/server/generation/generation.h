/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.h - a request on its way to its reply, as the printers of dialects see it.
 *
 *   read (pool) -> look at pictures (sight) -> recall, render, make jobs (pool) -> submit -> events
 *   -> end
 *
 * Everything here belongs to the loop thread, but for whole replies: those are printed by the pool,
 * since some take long, and sent by the loop. What choices say is gathered whether it is
 * streamed or not: non-stream replies, stored responses and recall need all of it. A call that
 * is certain is told of while it comes (chat/parse.h). If the answer is cut inside it, only those
 * who were told in pieces have anything of it.
 */
#ifndef MOTE_SERVER_GENERATION_GENERATION_H
#define MOTE_SERVER_GENERATION_GENERATION_H

#include "server/request/request.h"
#include "json/json_writer.h"

typedef struct generation generation;
typedef struct dialect dialect;

/* Why an answer ended, finer than mote_finish. */
typedef enum stop_cause {
    STOP_EOS,
    STOP_TEXT,
    STOP_CALLS,
    STOP_MAX_TOKENS,
    STOP_CONTEXT,
    STOP_DEADLINE,
    STOP_LOOP
} stop_cause;

/* "eos", "stop", "tool_calls", "max_tokens", "context", "deadline", "loop" */
const char *stop_cause_name(stop_cause cause);

typedef struct choice_call {
    char id[48]; /* with the prefix of the dialect, terminated */
    strbuf name;
    strbuf arguments; /* a JSON object */
} choice_call;

/* A token of the content and what else it could have been. */
typedef struct choice_token {
    mote_choice choice;
    size_t from, n; /* its bytes in choice.token_bytes */
    size_t content; /* bytes of content there were before it */
} choice_token;

typedef struct choice {
    generation *of;
    uint32_t index;  /* in w->choices */
    uint32_t prompt; /* which one it answers */
    sched_kind kind;
    mote_answer_options answer;
    sched_job *job;
    bool submitted, held, over;
    uint64_t reused;     /* tokens of the prompt that were not read again, once it has started */
    bool in_think;       /* of content with thinking inside: its tag is open */
    sched_result result; /* once over; its views end with the answering */
    stop_cause cause;
    strbuf content, reasoning;
    choice_call *calls; /* [n_calls], whole ones */
    size_t n_calls;
    choice_call open;  /* between its start and its end; what is there of its arguments */
    choice_call *lost; /* [n_lost], that started and never came whole */
    size_t n_lost;
    choice_token *tokens; /* [n_tokens], if log-probabilities were asked for */
    size_t n_tokens, room_tokens;
    size_t told; /* how many of them a stream has told of */
    strbuf token_bytes;
    void *own; /* of the dialect; freed with mem_free */
} choice;

struct generation {
    exchange *x; /* NULL once the client has gone */
    server_context *ctx;
    const dialect *how;
    request request;
    http_error error; /* of reading; kind 0 and code NULL: none */
    char more[96];    /* what error.more points to */
    strbuf body;      /* of the request */
    char request_id[40];
    char id[48];      /* of the reply; the dialect may choose one in begin or end */
    int64_t created;  /* seconds since 1970 */
    double began;     /* os_now's clock */
    double last_sent; /* anything; and an event of the dialect's own: */
    double last_event;
    vision_request look;  /* at what the ask shows */
    bool looking;         /* and it is not done */
    chat_prompt *prompts; /* [ask.n_prompts or 1] */
    size_t n_prompts;
    choice *choices; /* [n_choices]: prompt-major answers, then scores of prompts */
    size_t n_choices, n_answers;
    size_t n_over, n_submitted;
    uint64_t context;    /* positions that it may use */
    bool streaming;      /* the reply has begun */
    bool listed;         /* it is in the list of those at work */
    bool counted;        /* and among those that its model is asked by */
    bool over;           /* nothing more is to be sent */
    bool printing;       /* the pool prints the reply; until then nothing of it may end */
    int status;          /* of a reply that the pool has printed */
    struct quota *quota; /* that it is charged to in the end; NULL: none */
    uint32_t refs;
    uint64_t said; /* events told so far, for dialects that number them */
    strbuf out;    /* for printing; empty between calls */
    struct generation *next, **link;
};

/* ---- for printers ---- */

/* Sends w->out and empties it. An event: one of the dialect's own. Else a comment. */
void generation_send(generation *w);
void generation_comment(generation *w);
/* `data: ` and w->out with two line ends; an `event: ` line before, if there is a name. */
void generation_sse(generation *w, const char *event_name);
/* ": queue 3" or ": prefill 512/3070 4.1" as a comment of SSE. */
void generation_put_where(generation *w, const sched_job_status *where);
/* The whole reply of a non-stream: w->out, with this status. */
void generation_reply(generation *w, int status);
/* In place of a reply. */
void generation_fail(generation *w, const http_error *error);

/* ---- figures ---- */

typedef struct usage {
    uint64_t prompt, cached, out, think;
} usage;

usage generation_usage(const generation *w);
/* `"usage":{...}`, `"timings":{...}` and `"mote":{...}` as members; the last one only if wanted.
 * One choice speaks for all in the last two. */
void generation_put_openai_usage(const generation *w, strbuf *out);
void generation_put_timings(const generation *w, strbuf *out);
void generation_put_mote(const generation *w, strbuf *out);
/* "prefix" and 32 hexadecimal digits of 128 random bits. */
void generation_random_id(char *out, size_t room, const char *prefix);
/* The bytes of a token of a choice. */
str generation_token_text(const choice *c, const choice_token *t);
/* The stop string that ended it, or NULL. */
const char *generation_stop_text(const choice *c);
/* "mote-0.1.0-1a2b3c4d": the version and the model. */
const char *generation_fingerprint(const generation *w);

/* An answering at work, by the id of its reply and its realm; NULL: there is none. */
generation *generation_find(server_context *s, str id, uint64_t ns);
/* Handles one event of a job; the function for sched_collect(). */
sched_event_fn generation_on_event;
/* Once per second: sends keep-alive comments on streams that wait. */
void generation_tick(server_context *ctx);
/* Ends the thinking of all its choices. */
void generation_end_thinking(generation *w);

#endif
