/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recall.h - which tokens an answer was made of, for the day its text comes back.
 *
 * Clients return an answer as text: without its thinking, with calls written anew. Rendered
 * from that, a prompt differs from what the session has read, and everything from there on is
 * read again. So the tokens of an answer are remembered under what came before it and what it
 * says: realm, tools, all earlier messages, its visible text without blanks at the ends, its
 * calls by name and arguments. A message that is found brings its tokens to the renderer.
 *
 * Bounded in bytes, the least recently used goes first. Any thread.
 */
#ifndef MOTE_SERVE_RECALL_H
#define MOTE_SERVE_RECALL_H

#include "chat/message.h"

typedef struct recall recall;

mote_status recall_new(recall **out, size_t bytes, mote_error *err);
/* NULL is allowed. */
void recall_free(recall *r);

/* A beginning of a conversation: 128 bits over it, and the realm itself. All zero bits: none. */
typedef struct recall_key {
    uint64_t realm, a, b;
} recall_key;

recall_key recall_key_of(uint64_t realm, const chat_request *request);
/* The conversation that `key` stands for was answered with `message` (text and calls; its tokens
 * are what is remembered). Forgetting is allowed, so nothing fails. */
void recall_put(recall *r, recall_key key, const chat_message *message);

/* Sets the tokens of every assistant message that is known. They are copies in *memory, to be
 * freed with mem_free when the request is done with. Returns how many were found. */
size_t recall_fill(recall *r, uint64_t realm, const chat_request *request, chat_message *messages,
                   mote_token **memory);

#endif
