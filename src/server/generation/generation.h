/* SPDX-License-Identifier: Apache-2.0 */
/*
 * generation.h - a request at work: from the parsed request to the last byte of the reply.
 *
 *   dispatch (api/common): headers, quota, parse on a worker
 *   generation_wait_for_model(), if the model is not loaded
 *   dispatch: parameters on a worker -> generation_run()
 *   images and videos, if any: vision service
 *   generation_prepare(): prompts and jobs, on a worker
 *   submit to the scheduler -> events -> printer -> end
 *
 * A printer (one per API route) turns events into JSON. Choices also collect everything they
 * generate, streamed or not: replies without stream, stored responses and the answer-token cache
 * need it. Tool calls are streamed while they are parsed (chat/parse); a call that is cut is in
 * `lost`, and only a stream has shown parts of it.
 *
 * Threading: all functions run on the event loop thread, except generation_prepare() and the `end`
 * function of a reply without stream, which run on a worker. The loop sends that reply.
 */
#ifndef MOTE_SERVER_GENERATION_GENERATION_H
#define MOTE_SERVER_GENERATION_GENERATION_H

#include "server/request/request.h"
#include "json/json_writer.h"

#include <stdatomic.h>

typedef struct generation generation;

/* Why an answer ended; finer than mote_finish. */
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
    char id[48]; /* with the prefix of the printer, NUL-terminated */
    strbuf name;
    strbuf arguments; /* a JSON object */
} choice_call;

/* A content token with its log-probability and alternatives. */
typedef struct choice_token {
    mote_choice choice;
    size_t from, n; /* its bytes in choice.token_bytes */
    size_t content; /* bytes of content before it */
} choice_token;

/* One job of the request: an answer, an embedding or the score of a prompt. */
typedef struct choice {
    generation *of;
    uint32_t index;  /* in w->choices */
    uint32_t prompt; /* index of its prompt */
    sched_kind kind;
    mote_answer_options answer;
    sched_job *job;      /* NULL: none, or dropped */
    bool submitted;      /* the scheduler owns the job */
    bool held;           /* the job holds a reference to the generation */
    bool over;           /* `result` is set */
    uint64_t reused;     /* prompt tokens from the prefix cache, set when the job starts */
    bool in_think;       /* keep_reasoning_inline: <think> was printed and not closed */
    sched_result result; /* its pointers are valid until the job is dropped */
    stop_cause cause;
    strbuf content, reasoning;
    choice_call *calls; /* [n_calls], complete */
    size_t n_calls;
    choice_call open;  /* the call being parsed, with its arguments so far */
    choice_call *lost; /* [n_lost], started and never completed */
    size_t n_lost;
    choice_token *tokens; /* [n_tokens], if the request has logprobs */
    size_t n_tokens, room_tokens;
    size_t n_sent; /* tokens with log-probabilities that a stream has sent */
    strbuf token_bytes;
    void *own; /* for the printer; freed with mem_free() */
} choice;

/* Prints the reply of an API route. NULL functions are allowed where noted. */
typedef struct generation_printer {
    const char *content_type; /* of a stream */
    const char *call_prefix;  /* of tool call ids: "call_", "toolu_" */
    bool streams_full;        /* Codex expects context_length_exceeded as a stream event */
    /* Called instead of generating: always if `end` is NULL, else if request.prompt_only. The
     * prompts are rendered. Must end with generation_reply(). NULL: never called. */
    void (*rendered)(generation *w);
    /* First function of a stream, before prefill. May be NULL. */
    void (*begin)(generation *w);
    /* Content, reasoning or a tool call of a stream. During a call, choice.open is the call; at its
     * end it is the last of `calls`, if cancelled the last of `lost`. With content, the new
     * log-probabilities are the tokens from index `n_sent`. */
    void (*event)(generation *w, choice *c, const chat_event *event);
    /* The model is being loaded; called once per second. Not before `begin`. NULL: a stream of
     * server-sent events gets a comment. */
    void (*loading)(generation *w, const char *progress);
    /* About one second passed without output; `silent`: seconds since the last event. */
    void (*waiting)(generation *w, const sched_job_status *status, double silent);
    /* An answer of a stream is complete. May be NULL. */
    void (*choice_over)(generation *w, choice *c);
    /* All choices are complete. Stream: prints its end. Otherwise prints the whole reply on a
     * worker thread and ends with generation_reply() or generation_fail(). */
    void (*end)(generation *w);
    /* A running stream failed; prints the error. The stream ends afterwards. */
    void (*failed)(generation *w, const http_error *error);
} generation_printer;

struct generation {
    exchange *x; /* NULL: the client has disconnected */
    server_context *ctx;
    const char *api; /* label in /v1/status: "openai", "anthropic", "ollama", "responses" */
    const generation_printer *printer;
    request request;
    http_error error; /* of parsing, vision or preparing; code NULL: none */
    char more[96];    /* error.more may point here */
    char request_id[40];
    char id[48];       /* of the reply; set by the printer in begin or end */
    int64_t created;   /* seconds since 1970 */
    double began;      /* os_now() when the request was complete */
    double last_sent;  /* os_now() of the last output, comments included */
    double last_event; /* os_now() of the last event */
    vision_request vision;
    bool encoding;        /* `vision` is with the vision service */
    chat_prompt *prompts; /* [n_prompts] */
    size_t n_prompts;
    choice *choices; /* [n_choices]: n_answers answers, prompt by prompt; then prompt scores */
    size_t n_choices, n_answers;
    size_t n_over, n_submitted;
    uint64_t context;           /* context size for this request, in tokens */
    bool streaming;             /* the head of a stream was sent */
    bool listed;                /* in ctx->generations */
    bool counted;               /* served_model_begin() was called */
    model_wait wait;            /* for the model to be loaded */
    bool waiting;               /* `wait` is with the registry */
    double wait_began;          /* os_now() */
    double load_seconds;        /* that it waited */
    bool streams_by_default;    /* the API streams unless `stream` is false */
    bool head_sent;             /* of a stream: exchange_begin() was called */
    void (*loaded)(void *with); /* continues after the wait */
    void *loaded_with;
    bool over;           /* finished: nothing more is sent */
    bool send_failed;    /* out of memory while printing a stream: abort the connection */
    bool printing;       /* a worker prints the reply: jobs must stay */
    void *work;          /* a worker reads or prepares: `with` of that work; NULL: none. Until it
                          * ends, the worker owns request, prompts and choices */
    bool prepared;       /* generation_prepare() was called, or the request needs no model */
    atomic_bool gone;    /* the client has disconnected; read by the worker */
    size_t bytes;        /* of the request body */
    int status;          /* HTTP status of the reply printed by a worker */
    struct quota *quota; /* charged at the end; NULL: none */
    uint32_t refs;
    uint64_t n_events; /* for APIs that number their events */
    strbuf out;        /* output buffer of the printer; empty between its functions */
    struct generation *next, **link;
};

/* ---- life cycle, for api/common/dispatch.c ---- */

/* A new generation with two references: one of the exchange, one of the caller, which
 * generation_run() or generation_release() gives back. NULL: out of memory. */
generation *generation_new(exchange *x, const char *api, const generation_printer *printer);
/* Waits until the model request.entry is loaded, then calls `then` with the lease in
 * request.served, or with w->error. If the client disconnects, `then` is called at once. */
void generation_wait_for_model(generation *w, void (*then)(void *with), void *with);
/* The error of a wait that has failed, and of one that cannot begin. */
void generation_load_error(const model_wait *w, http_error *error);
void generation_load_queue_full(http_error *error);
/* Worker thread: renders prompts and creates jobs. On failure w->error.code is set. If it was not
 * called before generation_run(), that function has it called. */
void generation_prepare(generation *w);
/* At most so many bytes of the request are text to tokenize. */
size_t generation_text_bytes(const generation *w);
/* Continues with a parsed request: vision, submit, events; or fails with w->error. */
void generation_run(generation *w);
void generation_release(generation *w);

/* ---- for the server ---- */

/* Handles one event of a job; the function for sched_collect(). */
sched_event_fn generation_on_event;
/* Once per second: calls the `waiting` functions of streams without output. */
void generation_tick(server_context *ctx);
/* Ends all running generations with the error "draining"; returns their number. */
unsigned generation_cut(server_context *ctx);
/* A running generation by the id of its reply and its cache namespace; NULL: none. */
generation *generation_find(server_context *ctx, str id, uint64_t ns);
/* Ends the thinking phase of all choices. */
void generation_end_thinking(generation *w);

/* ---- for printers ---- */

/* Sends w->out as an event and empties it. */
void generation_send(generation *w);
/* The same as `data: ` with a blank line behind; with `event: ` before it if a name is given. */
void generation_send_sse(generation *w, const char *event_name);
/* Sends ": TEXT" as an SSE comment. */
void generation_send_comment(generation *w, const char *text);
/* Sends ": queue 3", ": prefill 512/3070 4.1" (seconds left) or ": decode" as an SSE comment. */
void generation_send_status(generation *w, const sched_job_status *status);
/* Replies with w->out. Not for streams, except one of JSON lines that has only shown the progress
 * of a load. */
void generation_reply(generation *w, int status);
/* Fails the request: an error reply, or the `failed` function of a stream. */
void generation_fail(generation *w, const http_error *error);

/* "PREFIX" and 32 hexadecimal digits of 128 random bits. */
void generation_random_id(char *out, size_t room, const char *prefix);
/* The bytes of a content token. */
str generation_token_text(const choice *c, const choice_token *t);
/* The stop string that ended the answer; NULL: none did. */
const char *generation_stop_text(const choice *c);

/* ---- usage ---- */

typedef struct usage {
    uint64_t prompt, cached, out, think; /* tokens */
    uint64_t drafted, accepted;          /* draft tokens of speculative decoding */
    uint64_t prefilled;                  /* prompt - cached, less what a time limit left out */
} usage;

usage generation_usage(const generation *w);
/* Members "usage", "timings" and "mote"; the last one only if the request wants it. The last two
 * describe the first choice. */
void generation_put_openai_usage(const generation *w, strbuf *out);
void generation_put_timings(const generation *w, strbuf *out);
void generation_put_mote(const generation *w, strbuf *out);

#endif
