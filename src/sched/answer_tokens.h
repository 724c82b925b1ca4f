/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_tokens.h - remembers the sampled tokens of past assistant messages.
 *
 * Clients send an assistant message back as text: without its reasoning, with tool calls
 * serialised again. Tokenising that text may give other tokens than the model sampled, which would
 * break prefix reuse. This cache maps (conversation so far, message) to the sampled tokens. The
 * conversation is: cache namespace, tools, all earlier messages. The message is: its visible text
 * without surrounding white space, and its tool calls by name and arguments.
 *
 * Limited in bytes, evicted in LRU order. Thread-safe.
 */
#ifndef MOTE_SCHED_ANSWER_TOKENS_H
#define MOTE_SCHED_ANSWER_TOKENS_H

#include "chat/prompt/message.h"

typedef struct answer_tokens answer_tokens;

mote_status answer_tokens_new(answer_tokens **out, size_t bytes, mote_error *err);
/* NULL is allowed. */
void answer_tokens_free(answer_tokens *cache);

/* Stands for a conversation: the cache namespace and a 128-bit hash. All zero: none. */
typedef struct answer_key {
    uint64_t ns, a, b;
} answer_key;

answer_key answer_key_of(uint64_t ns, const chat_request *request);
/* Stores message->tokens as the answer to the conversation. Without memory nothing is stored. */
void answer_tokens_put(answer_tokens *cache, answer_key key, const chat_message *message);

/* Sets tokens and n_tokens of every assistant message found in the cache. They point into *memory,
 * which the caller frees with mem_free. Returns the number of messages found. */
size_t answer_tokens_fill(answer_tokens *cache, uint64_t ns, const chat_request *request,
                          chat_message *messages, mote_token **memory);

#endif
