/* SPDX-License-Identifier: Apache-2.0 */
/* ollama.h - shared by the files of the Ollama API. */
#ifndef MOTE_SERVER_API_OLLAMA_OLLAMA_H
#define MOTE_SERVER_API_OLLAMA_OLLAMA_H

#include "server/api/common/dialect.h"

/* Handlers of the route table. */
void handle_ollama_chat(exchange *x);
void handle_ollama_generate(exchange *x);
void handle_ollama_version(exchange *x);
void handle_ollama_tags(exchange *x);
void handle_ollama_ps(exchange *x);
void handle_ollama_show(exchange *x);
void handle_ollama_pull(exchange *x);
void handle_ollama_delete(exchange *x);
void handle_ollama_unsupported(exchange *x);
void handle_ollama_embed(exchange *x);
void handle_ollama_embeddings(exchange *x);

/* request.own of /api/chat and /api/generate */
typedef struct ollama_state {
    bool generate;      /* /api/generate: lines have `response` instead of `message` */
    bool plain;         /* no chat template, so the reply has no `context` */
    const char *loaded; /* done_reason of a request that only loads or unloads; else NULL */
    bool show_prompt;   /* reply with the rendered prompt */
} ollama_state;

bool ollama_read_chat(request *a, http_error *error);
bool ollama_read_generate(request *a, http_error *error);
/* Of a model that is not loaded: does the request only unload it? */
bool ollama_chat_unloads(request *a);
bool ollama_generate_unloads(request *a);

/* "2026-01-01T00:00:00.000000000Z": the current time, and a time since 1970. */
enum { OLLAMA_TIME_BYTES = 48 };
void ollama_time_now(char out[OLLAMA_TIME_BYTES]);
void ollama_time_of(int64_t seconds, long nanoseconds, char out[OLLAMA_TIME_BYTES]);

#endif
