/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_tokens.h - which tokens an answer was made of, for the day its text comes back.
 *
 * Clients return an answer as text: without its thinking, with calls written anew. Rendered
 * from that, a prompt differs from what the session has read, and everything from there on is
 * read again. So the tokens of an answer are remembered under what came before it and what it
 * says: realm, tools, all earlier messages, its visible text without blanks at the ends, its
 * calls by name and arguments. A message that is found brings its tokens to the renderer.
 *
 * Bounded in bytes, the least recently used goes first. Any thread.
 */
#ifndef MOTE_SCHED_ANSWER_TOKENS_H
#define MOTE_SCHED_ANSWER_TOKENS_H

#include "chat/prompt/message.h"

typedef struct answer_tokens answer_tokens;

mote_status answer_tokens_new(answer_tokens **out, size_t bytes, mote_error *err);
/* NULL is allowed. */
void answer_tokens_free(answer_tokens *r);

/* A beginning of a conversation: 128 bits over it, and the realm itself. All zero bits: none. */
typedef struct answer_key {
    uint64_t ns, a, b;
} answer_key;

answer_key answer_key_of(uint64_t ns, const chat_request *request);
/* The conversation that `key` stands for was answered with `message` (text and calls; its tokens
 * are what is remembered). Forgetting is allowed, so nothing fails. */
void answer_tokens_put(answer_tokens *r, answer_key key, const chat_message *message);

/* Sets the tokens of every assistant message that is known. They are copies in *memory, to be
 * freed with mem_free when the request is done with. Returns how many were found. */
size_t answer_tokens_fill(answer_tokens *r, uint64_t ns, const chat_request *request,
                          chat_message *messages, mote_token **memory);

#endif
