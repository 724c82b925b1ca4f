/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_tokens.h - remembers the sampled tokens of past assistant messages.
 *
 * Clients send an assistant message back as text: without its reasoning, with tool calls
 * serialised again. Tokenising that text may give other tokens than the model sampled, which would
 * break prefix reuse. This cache finds the sampled tokens
 *
 *   by call id    ids of tool calls are random, so an id names one answer. The message must have
 *                 the same calls (message_form_is_near).
 *   by text       the same conversation so far, and a message of the same form (message_form.h). The
 *                 conversation is: cache namespace, tools, all earlier messages. If there is none,
 *                 tools and system messages may differ: a program changes the date in them.
 *
 * Limited in bytes, evicted in LRU order. With a file, answers survive a restart and are shared by
 * processes. Thread-safe.
 */
#ifndef MOTE_SCHED_ANSWER_TOKENS_H
#define MOTE_SCHED_ANSWER_TOKENS_H

#include "chat/prompt/message.h"
#include "disk_cache/answer_file.h"

typedef struct answer_tokens answer_tokens;

mote_status answer_tokens_new(answer_tokens **out, size_t bytes, mote_error *err);
/* Closes the file. NULL is allowed. */
void answer_tokens_free(answer_tokens *cache);
/* Takes ownership of the file: answers are read from it and appended to it. Once, before any other
 * use. */
void answer_tokens_use_file(answer_tokens *cache, answer_file *file);

/* Stands for a conversation: the cache namespace and a 128-bit hash. All zero: none. dialogue: the
 * same without tools and system messages. */
typedef struct answer_key {
    uint64_t ns, a, b;
    uint64_t dialogue[2];
} answer_key;

answer_key answer_key_of(uint64_t ns, const chat_request *request);
/* Stores message->tokens as the answer to the conversation. Without memory nothing is stored. */
void answer_tokens_put(answer_tokens *cache, answer_key key, const chat_message *message);

/* What answer_tokens_fill has found. */
typedef struct answer_found {
    answer_key key;                   /* of the whole conversation, for answer_tokens_put */
    mote_token *memory;               /* of the tokens; the caller frees it with mem_free */
    uint32_t by_id, by_text, unknown; /* assistant messages */
} answer_found;

/* Sets tokens and n_tokens of every assistant message found in the cache. May read the file. */
void answer_tokens_fill(answer_tokens *cache, uint64_t ns, const chat_request *request,
                        chat_message *messages, answer_found *out);

#endif
