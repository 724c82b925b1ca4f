/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dialect.h - how one API asks and how it wants to be answered.
 *
 * All dialects ask for the same thing, an `ask`, and are told of the same events. Reading
 * happens on a thread of the pool and sees nothing but the body and the server; printing
 * happens on the loop. Between the two stands answering.c, which knows no dialect.
 */
#ifndef MOTE_SERVER_DIALECT_H
#define MOTE_SERVER_DIALECT_H

#include "chat/request_json.h"
#include "chat/think_setting.h"
#include "server/server.h"

enum { ASK_MAX_CHOICES = 8, ASK_MAX_PROMPTS = 64, ASK_MAX_BIAS = 1024 };

typedef struct warning {
    const char *code; /* a constant */
    char at[96];      /* JSON pointer or name, may be "" */
} warning;

enum { ASK_MAX_WARNINGS = 32 };

/* A request, read. Owns everything it points to. */
typedef struct ask {
    json_doc *body;
    chat_parsed parsed;   /* the conversation; empty for completions */
    chat_request request; /* as it will be rendered: parsed.request with tokens recalled */
    json_doc *made[8];    /* documents made on the way: messages or tools in our form */
    size_t n_made;
    str *prompts;            /* [n_prompts]: texts of a completion, without a template */
    mote_token **prompt_ids; /* [n_prompts]: or ids; NULL: of the text */
    size_t *n_prompt_ids;
    size_t n_prompts;
    bool parse_special; /* of prompts: spelled control tokens count */
    mote_answer_options answer;
    chat_think_setting think;
    uint32_t n; /* choices for each prompt */
    bool stream, include_usage, echo;
    bool logprobs;
    bool raw; /* no template */
    uint32_t min_tokens;
    bool ignore_end;
    bool *tool_allowed;     /* [parsed.request.n_tools]; NULL: all */
    uint64_t context_limit; /* 0: the server's */
    double seconds;         /* 0: none */
    bool no_reuse;
    bool keep_reasoning_inline; /* <think> stays in content */
    bool no_ext;                /* no `mote` object */
    str model;                  /* as asked for */
    warning warnings[ASK_MAX_WARNINGS];
    size_t n_warnings;
    void *own; /* what the dialect wants to remember; freed with mem_free */
} ask;

void ask_warn(ask *a, const char *code, const char *at);
void ask_fini(ask *a);

typedef struct answering answering;

typedef struct dialect {
    const char *label; /* in metrics: "openai", "anthropic", "ollama", "responses" */
    chat_dialect thinking;
    /* Pool thread. Fills the ask from its body; false: *error says why. */
    bool (*read)(ask *a, const http_request *request, server *s, api_error *error);
    /* The rest on the loop. The first thing a stream says, before anything is read. */
    void (*begin)(answering *w);
    void (*event)(answering *w, uint32_t choice, const chat_event *event);
    /* A second has passed without a word; `waited` seconds since the last one of its kind. */
    void (*waiting)(answering *w, const sched_where *where, double waited);
    void (*choice_over)(answering *w, uint32_t choice, const sched_result *result);
    /* All choices are over: the end of the stream, or the whole reply. */
    void (*end)(answering *w);
    /* The stream has begun and cannot go on. */
    void (*broken)(answering *w, const api_error *error);
} dialect;

/* Reads, submits and answers; what routes call. */
void answering_start(exchange *x, const dialect *d);

#endif
