/* SPDX-License-Identifier: Apache-2.0 */
/*
 * openai.h - shared by the files of the OpenAI API.
 *
 * The Responses API: a request is a list of items, an answer too. Input items become messages of
 * chat completions; an answer is split into items: reasoning, message, tool calls. A stored
 * response consists of the reply, the messages of the whole conversation (for
 * previous_response_id) and the input items.
 */
#ifndef MOTE_SERVER_API_OPENAI_OPENAI_H
#define MOTE_SERVER_API_OPENAI_OPENAI_H

#include "server/generation/generation.h"

/* Handlers of the route table. */
void handle_chat_completions(exchange *x);
void handle_chat_input_tokens(exchange *x);
void handle_chat_control(exchange *x);
void handle_completions(exchange *x);
void handle_infill(exchange *x);
void handle_models(exchange *x);
void handle_model(exchange *x);
void handle_unload(exchange *x);
void handle_embeddings(exchange *x);
void handle_responses(exchange *x);
void handle_responses_input_tokens(exchange *x);
void handle_response(exchange *x);

/* ---- chat and text completions ---- */

/* Reads the body of a chat completion. */
bool openai_read_chat(request *a, http_error *error);
/* "stop", "length" or "tool_calls" */
const char *openai_finish(stop_cause cause);
/* Opens a reply or chunk: id, object, created, model and system_fingerprint. */
void openai_put_head(generation *w, const char *object, strbuf *out);
/* Member "tool_calls". */
void openai_put_calls(const choice *c, strbuf *out);
/* Ends a stream: a chunk with usage if the request has include_usage, then [DONE]. */
void openai_end_stream(generation *w, const char *object);
/* generation_printer.failed: the error as an event. */
void openai_failed(generation *w, const http_error *error);

/* ---- the Responses API ---- */

/* Indexes of the texts of a stored response. */
enum { RESPONSES_REPLY, RESPONSES_MESSAGES, RESPONSES_ITEMS };

/* request.own. The request owns the texts. */
typedef struct responses_state {
    bool store;
    bool encrypted;  /* reasoning items have encrypted_content */
    bool drops;      /* truncation is auto */
    str previous;    /* previous_response_id; may be empty */
    str messages;    /* JSON objects separated by commas, without the instructions */
    str input_items; /* JSON objects separated by commas */
} responses_state;

bool responses_read(request *a, http_error *error);

/* ---- items of an answer ---- */

typedef enum item_kind { ITEM_REASONING, ITEM_MESSAGE, ITEM_CALL, ITEM_CUSTOM_CALL } item_kind;

/* The member of struct choice that contains the call of an item: open, calls or lost. */
typedef enum call_place { CALL_OPEN, CALL_WHOLE, CALL_LOST } call_place;

typedef struct item {
    item_kind kind;
    char id[48];
    size_t from, to;              /* bytes of reasoning or content */
    size_t first_token, n_tokens; /* of content, for log-probabilities */
    call_place place;
    size_t call;   /* index in calls or lost */
    size_t sent;   /* bytes of a custom tool's input that were sent */
    bool sent_all; /* the input is complete */
} item;

typedef struct items {
    size_t n, room;
    bool open; /* the last item is still being generated */
    item at[];
} items;

/* The items of a choice, stored in choice.own; NULL: out of memory. */
items *items_of(choice *c);
/* Appends an item with a new id; NULL: out of memory. */
item *items_add(choice *c, item_kind kind);
/* Does the call belong to a custom tool? */
bool items_is_custom(const generation *w, const choice_call *call);
const choice_call *items_call(const choice *c, const item *it);
/* Appends the input string of a custom tool call; a call that was cut gives what is complete. */
void items_put_custom_input(const choice_call *call, strbuf *out);
/* Appends what the last `bytes` of the open call's arguments add to that string. */
void items_put_custom_piece(const choice_call *call, size_t bytes, item *it, strbuf *out);
/* The text of a reasoning or message item. */
str items_text(const choice *c, const item *it);
/* Appends an item to w->out. `done`: with its content; otherwise as in output_item.added. */
void items_put(generation *w, const choice *c, const item *it, bool done, const char *status);
/* Appends the content part: type output_text or reasoning_text. */
void items_put_part(generation *w, const choice *c, const item *it, bool done);
void items_put_logprobs(generation *w, const choice *c, const item *it, size_t from);

/* ---- response object ---- */

/* Appends the response to w->out. `error`: of a failed response, else NULL. */
void responses_put(generation *w, const char *status, const http_error *error);
/* Appends the answer as a message of chat completions. */
void responses_put_answer(const choice *c, strbuf *out);

/* Reasoning as text that only this process accepts again: base64url with a MAC. */
void responses_seal(str text, strbuf *out);
/* false: not sealed by this process. */
bool responses_unseal(str sealed, strbuf *out);

#endif
