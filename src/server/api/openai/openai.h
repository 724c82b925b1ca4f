/* SPDX-License-Identifier: Apache-2.0 */
/* openai.h - what the routes of OpenAI's API have in common. */
#ifndef MOTE_SERVER_API_OPENAI_OPENAI_H
#define MOTE_SERVER_API_OPENAI_OPENAI_H

#include "server/generation/generation.h"

/* dialect_openai_chat.c: the body of a chat completion. */
bool openai_read_chat(request *a, http_error *error);
/* "stop", "length" or "tool_calls" */
const char *openai_finish(stop_cause cause);
/* id, object, created, model and system_fingerprint: how every body and chunk begins. */
void openai_put_head(generation *w, const char *object, strbuf *out);
/* "tool_calls": [...] of an answer that has some. */
void openai_put_calls(const choice *c, strbuf *out);
/* The last events of a stream: figures, if they were asked for, and its end. */
void openai_end_stream(generation *w, const char *object);
/* For dialect.broken: the error as an event of the stream. */
void openai_broken(generation *w, const http_error *error);
/* ---- the Responses API ---- */

/* The texts of a stored response, by their places on the shelf. */
enum { RESPONSES_REPLY, RESPONSES_MESSAGES, RESPONSES_ITEMS };

/* What is remembered of the request; ask.own. Texts are the ask's. */
typedef struct responses_own {
    bool store;
    bool encrypted;  /* thinking comes with encrypted_content */
    bool drops;      /* truncation is auto */
    str previous;    /* the id of the response this one goes on from */
    str messages;    /* JSON objects with commas between, without the instructions */
    str input_items; /* JSON objects with commas between */
} responses_own;

bool responses_read(request *a, http_error *error);

/* ---- items of an answer (responses_items.c) ---- */

typedef enum item_kind { ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL, ITEM_CUSTOM_CALL } item_kind;

/* Of a call: where it is, the choice's `open`, one of `calls`, or one of `lost`. */
typedef enum call_place { CALL_OPEN, CALL_WHOLE, CALL_LOST } call_place;

typedef struct item {
    item_kind kind;
    char id[48];
    size_t from, to;              /* bytes of reasoning or content */
    size_t first_token, n_tokens; /* of content, for log-probabilities */
    call_place place;
    size_t call;     /* index of the call at its place */
    size_t told;     /* bytes of a custom tool's input that were told */
    bool told_whole; /* and that was all of it */
} item;

typedef struct items {
    size_t n, room;
    bool open; /* the last one is not done */
    item at[];
} items;

/* The items of a choice; NULL: no memory. */
items *items_of(choice *c);
/* One more; NULL: no memory. */
item *items_add(choice *c, item_kind kind);
/* Is this call one of a custom tool? */
bool items_is_custom(const generation *w, const choice_call *call);
/* The call of an item. */
const choice_call *items_call(const choice *c, const item *it);
/* The text a custom tool is called with, or what is there of it. */
void items_put_custom_input(const choice_call *call, strbuf *out);
/* What the last `bytes` of the open call's arguments add to that text. */
void items_put_custom_piece(const choice_call *call, size_t bytes, item *it, strbuf *out);
str items_text(const choice *c, const item *it);
/* An item as a JSON value. `done`: with what it says; else as it is announced. */
void items_put(generation *w, const choice *c, const item *it, bool done, const char *status);
/* {"type": "output_text" or "reasoning_text", ...} */
void items_put_part(generation *w, const choice *c, const item *it, bool done);
void items_put_logprobs(generation *w, const choice *c, const item *it, size_t from);

/* ---- the response object (responses_print.c) ---- */

/* As a JSON value, appended to w->out. `error`: of a failed one, else NULL. */
void responses_put(generation *w, const char *status, const http_error *error);
/* The answer as messages of chat completions, a comma before each. */
void responses_put_answer(const choice *c, strbuf *out);

/* Thinking as text that only this server reads again: base64url with a MAC. */
void responses_seal(str text, strbuf *out);
/* false: it is not ours. */
bool responses_unseal(str sealed, strbuf *out);

#endif
