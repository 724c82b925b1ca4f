/* SPDX-License-Identifier: Apache-2.0 */
/*
 * response_format.h - the form an answer must have: which tokens may come next, and which must.
 *
 * Two grammars: of the answer as a whole, from its first token after thinking, and of a
 * tool call, from behind <tool_call> to before </tool_call>. Both are compiled when the
 * turn is made. Between them, and without a format, everything is allowed.
 */
#ifndef MOTE_CHAT_TURN_RESPONSE_FORMAT_H
#define MOTE_CHAT_TURN_RESPONSE_FORMAT_H

#include "chat/turn/turn.h"
#include "grammar/grammar.h"

/*
 * The vocabulary of a model, for grammars; its kit must outlive it. Made once per model: it
 * takes as long as a few hundred tokens of the smallest one. It never changes afterwards, so any
 * number of turns use it at once, on any threads; each has grammars of its own.
 */
mote_status chat_vocab_of(token_trie **out, const chat_context *chat_ctx, mote_error *err);

typedef enum response_format_phase {
    RESPONSE_FORMAT_FREE = 0,
    RESPONSE_FORMAT_ANSWER,
    RESPONSE_FORMAT_CALL
} response_format_phase;

typedef struct response_format {
    const chat_turn_options *options;
    grammar *whole, *call; /* NULL: none, or not yet */
    grammar_matcher *whole_at, *call_at;
    uint32_t *mask; /* [grammar_mask_words] */
    response_format_phase phase;
    size_t from; /* position of the first token the matcher in use has seen */
    bool must_call;
    bool no_calls;   /* there are tools, but none may be called */
    strbuf warnings; /* one line each: a tool and what of its schema is not held */
} response_format;

/* Does an answer of this kind need options->vocab? */
bool response_format_wanted(const mote_answer_options *answer, size_t n_tools);

/* Compiles what is known from the beginning. *form stays valid as long as the options. */
mote_status response_format_init(response_format *form, const chat_turn_options *options,
                                 mote_error *err);
void response_format_fini(response_format *form);

/* The answer begins at position n. */
void response_format_begin(response_format *form, size_t n);
/* tokens[n - 1] was appended. */
mote_status response_format_accept(response_format *form, mote_token token, size_t n,
                                   mote_error *err);
/* The timeline was cut to n tokens. */
void response_format_rewind(response_format *form, size_t n);

/* Which tokens may come next; NULL: all. Valid until the next call. */
mote_status response_format_allowed(response_format *form, const uint32_t **allowed,
                                    mote_error *err);
/* Tokens that have to come next, at most `room` (RESPONSE_FORMAT_FORCED is enough); *n is 0 if
 * there is a choice. */
enum { RESPONSE_FORMAT_FORCED = 256, RESPONSE_FORMAT_REST = 2048 };
mote_status response_format_forced(response_format *form, mote_token *ids, size_t room, size_t *n,
                                   mote_error *err);
/* The shortest tokens that give the answer its form, or the call its end, at most `room`. *whole:
 * with them it has it; else there is no form, or they were not found, and *n is 0. */
mote_status response_format_rest(response_format *form, mote_token *ids, size_t room, size_t *n,
                                 bool *whole, mote_error *err);

#endif
