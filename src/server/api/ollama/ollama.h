/* SPDX-License-Identifier: Apache-2.0 */
/* ollama.h - between the readers and the printer of Ollama's chat and generate. */
#ifndef MOTE_SERVER_API_OLLAMA_OLLAMA_H
#define MOTE_SERVER_API_OLLAMA_OLLAMA_H

#include "server/generation/dialect.h"

/* ask.own */
typedef struct ollama_state {
    bool generate;      /* lines carry `response`, not `message` */
    bool plain;         /* no conversation, so no ids to go on from */
    const char *loaded; /* nothing was asked: "load" or "unload"; else NULL */
    bool show_prompt;   /* the prompt is what was asked for */
} ollama_state;

bool ollama_read_chat(request *a, http_error *error);
bool ollama_read_generate(request *a, http_error *error);

/* "2026-01-01T00:00:00.000000000Z" of now, and of a moment in seconds since 1970. */
enum { OLLAMA_TIME_BYTES = 48 };
void ollama_time_now(char out[OLLAMA_TIME_BYTES]);
void ollama_time_of(int64_t seconds, long nanoseconds, char out[OLLAMA_TIME_BYTES]);

#endif
