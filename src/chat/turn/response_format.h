/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response_format.h - structured output: which tokens may come next, and which must.
 *
 * Two grammars: one for the answer as a whole, from its first token after thinking, and one for
 * tool calls, from after <tool_call> to before </tool_call>. Both are compiled when the turn is
 * made. Outside of them every token is allowed.
 *
 * With a format and tools, the answer is either text in the format or one or more calls, never
 * both: a call may start only before the first token of the text, and only further calls or the end
 * may follow a call. If a call is required (MOTE_TOOLS_REQUIRED, _NAMED), the answer has calls and
 * no text; the format must still be valid.
 */
#ifndef MOTE_CHAT_TURN_RESPONSE_FORMAT_H
#define MOTE_CHAT_TURN_RESPONSE_FORMAT_H

#include "chat/turn/turn.h"
#include "grammar/grammar.h"

/*
 * The vocabulary of a model as a trie, for token masks: 10 MB for the 248,320 tokens of Qwen 3.5.
 * Make it once per model. The chat context must outlive it. It is immutable, so any number of turns
 * on any threads share it; each turn has its own grammars.
 */
mote_status chat_vocab_of(token_trie **out, const chat_context *chat_ctx, mote_error *err);

typedef enum response_format_phase {
    RESPONSE_FORMAT_FREE = 0, /* unconstrained */
    RESPONSE_FORMAT_ANSWER,
    RESPONSE_FORMAT_CALL,
    RESPONSE_FORMAT_AFTER_CALL /* only if the answer has a format; otherwise it is free here */
} response_format_phase;

typedef struct response_format {
    const chat_turn_options *options;
    grammar *whole, *call, *after_call; /* NULL: none */
    grammar_matcher *whole_at, *call_at, *after_call_at;
    uint32_t *mask; /* [vocab->words] */
    response_format_phase phase;
    size_t begin;    /* position of the answer */
    size_t from;     /* position where the current phase began */
    bool must_call;  /* the next token must start a call */
    bool no_calls;   /* there are tools, but none may be called */
    strbuf warnings; /* one line each: a tool and the part of its schema that is not enforced */
} response_format;

/* Whether such an answer needs options->vocab. */
bool response_format_wanted(const mote_answer_options *answer, size_t n_tools);

/* Compiles the grammars. `options` must outlive *format. */
mote_status response_format_init(response_format *format, const chat_turn_options *options,
                                 mote_error *err);
void response_format_fini(response_format *format);

/* The answer starts at position n. */
void response_format_begin(response_format *format, size_t n);
/* `token` was appended; the sequence now has n tokens. */
mote_status response_format_accept(response_format *format, mote_token token, size_t n,
                                   mote_error *err);
/* The sequence was truncated to n tokens: tokens[n]. */
mote_status response_format_rewind(response_format *format, const mote_token *tokens, size_t n,
                                   mote_error *err);

/* The token mask of the next token; NULL: all are allowed. Valid until the next call. */
mote_status response_format_allowed(response_format *format, const uint32_t **allowed,
                                    mote_error *err);
/* Writes the tokens that must come next, at most `room` (RESPONSE_FORMAT_FORCED suffices). *n is 0
 * if there is a choice. *ends: the answer is complete after them and nothing can follow. */
enum { RESPONSE_FORMAT_FORCED = 256, RESPONSE_FORMAT_COMPLETION = 2048 };
mote_status response_format_forced(response_format *format, mote_token *ids, size_t room, size_t *n,
                                   bool *ends, mote_error *err);
/* Writes the shortest tokens that complete the answer or the call, at most `room`. *whole: they
 * complete it. Otherwise there is no constraint or no completion was found, and *n is 0. */
mote_status response_format_complete(response_format *format, mote_token *ids, size_t room,
                                     size_t *n, bool *whole, mote_error *err);

#endif
