/* SPDX-License-Identifier: Apache-2.0 */
/* openai.h - what the routes of OpenAI's API have in common. */
#ifndef MOTE_SERVER_API_OPENAI_OPENAI_H
#define MOTE_SERVER_API_OPENAI_OPENAI_H

#include "server/generation/generation.h"

/* dialect_openai_chat.c: the body of a chat completion. */
bool openai_read_chat(request *a, http_error *error);
/* "stop", "length" or "tool_calls" */
const char *openai_finish(stop_cause cause);
/* An array: token, logprob, bytes and top_logprobs of the choice's tokens from `from` on. */
void openai_put_logprobs(const choice *c, size_t from, strbuf *out);
/* {"token", "logprob", "bytes"}; left open, so that more can follow. */
void openai_open_token(strbuf *out, str text, float logprob);
/* id, object, created, model and system_fingerprint: how every body and chunk begins. */
void openai_put_head(generation *w, const char *object, strbuf *out);
/* "tool_calls": [...] of an answer that has some. */
void openai_put_calls(const choice *c, strbuf *out);
/* The last events of a stream: figures, if they were asked for, and its end. */
void openai_end_stream(generation *w, const char *object);
/* For dialect.broken: the error as an event of the stream. */
void openai_broken(generation *w, const http_error *error);
/* The text of a token of the model. */
str openai_token_text(const generation *w, mote_token token);

#endif
