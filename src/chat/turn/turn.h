/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.h - one answer as a state machine. It samples, counts and parses; it never runs the engine.
 *
 * A turn owns a token sequence: the prompt and the answer so far. The caller brings a session to
 * that sequence (append, or rewind where the sequence changed), then passes the session with the
 * logits of the last token:
 *
 *     chat_turn_next(turn, session, row, &want)   until want.over
 *
 * With drafts (spec.h) the session may hold more tokens; `row` then selects the logits of the last
 * wanted token.
 *
 * So a plain loop drives one turn (chat_answer.c) and the scheduler drives many in one batch. The
 * output depends only on the logits, the options and the tokens.
 *
 * chat_turn_new() compiles the grammars of the answer, which can take milliseconds; call it on any
 * thread. Most memory is allocated there; buffers for held-back text and logprobs may grow later.
 * One thread at a time uses a turn. Turns share the chat context and the vocabulary.
 */
#ifndef MOTE_CHAT_TURN_TURN_H
#define MOTE_CHAT_TURN_TURN_H

#include "chat/parse/parse.h"
#include "chat/prompt/chat_context.h"
#include "chat/turn/thinking.h"

struct token_trie;

/* Why chat_turn_new() failed, if a response format or a tool schema is the reason. */
typedef struct chat_fault {
    enum { CHAT_FAULT_NONE = 0, CHAT_FAULT_FORMAT, CHAT_FAULT_TOOL } of;
    size_t tool; /* CHAT_FAULT_TOOL: its index; n_tools: all tools together are too much */
} chat_fault;

/* Everything the pointers refer to must outlive the turn, except prompt and fault. */
typedef struct chat_turn_options {
    const chat_context *chat_ctx;
    const mote_token *prompt; /* [n_prompt] */
    size_t n_prompt;
    bool thinking;                     /* chat_prompt.thinking */
    uint64_t context;                  /* context size of the session in tokens */
    const mote_answer_options *answer; /* its event function is not called */
    const json_node *const *tools;     /* [n_tools] */
    size_t n_tools;
    const bool *tool_allowed;       /* [n_tools], which of them may be called; NULL: all */
    const struct token_trie *vocab; /* needed if response_format_wanted(); otherwise NULL */
    /* Raw completion: every token is content and control tokens have no meaning. No thinking, no
     * tools; stop strings and response formats work. */
    bool raw;
    /* Send CHAT_EVENT_TOKEN before the content that a token leads to, with
     * answer->sampling.top_logprobs alternatives. Not inside thinking and tool calls. */
    bool logprobs;
    uint32_t min_tokens; /* end tokens are forbidden before; thinking counts */
    bool ignore_end;     /* end tokens are forbidden, unless the response format is complete */
    chat_event_fn *event;
    void *with;        /* first argument of event */
    chat_fault *fault; /* written by chat_turn_new(); may be NULL */
} chat_turn_options;

typedef struct chat_turn chat_turn;

/* MOTE_E_FULL: the prompt leaves no room for an answer. MOTE_E_ARG: an option is invalid.
 * MOTE_E_UNSUPPORTED: a response format, or the schema of a `strict` tool, uses something that
 * mote does not support. Unsupported parts of other tools' schemas are not enforced; the turn then
 * starts with CHAT_WARN_SCHEMA. */
mote_status chat_turn_new(chat_turn **out, const chat_turn_options *options, mote_error *err);
/* NULL is allowed. */
void chat_turn_free(chat_turn *turn);

typedef struct chat_turn_want {
    const mote_token *tokens; /* [n], what the session must hold, with logits of the last */
    size_t n;
    size_t same; /* leading tokens unchanged since the last call; 0 at first. If the session holds
                  * exactly these and has not moved, its logits are still valid */
    bool over;   /* the turn has ended; no more logits are needed */
} chat_turn_want;

/* Samples from row `row` of the session's logits, which is the row of the last wanted token. The
 * first call does not read the session, which may be NULL then. want->tokens is valid until the next
 * call. */
mote_status chat_turn_next(chat_turn *turn, const mote_session *session, size_t row,
                           chat_turn_want *want, mote_error *err);

/* Closes thinking instead of sampling the next token. No effect without an open think block. */
void chat_turn_end_thinking(chat_turn *turn);

/* Ends the turn from outside: MOTE_FINISH_CANCELED, or MOTE_FINISH_LENGTH for a deadline. */
mote_status chat_turn_stop(chat_turn *turn, mote_finish finish, mote_error *err);

/* Complete once the turn is over. The caller fills in reused_tokens and the seconds. */
const mote_answer *chat_turn_result(const chat_turn *turn);
/* The token sequence, prompt included. `open`: the turn was stopped inside thinking. */
const mote_token *chat_turn_tokens(const chat_turn *turn, size_t *n, bool *open);
/* The end token that the model chose, which is not in the sequence; NULL: the answer ended in another
 * way. */
const mote_choice *chat_turn_end_token(const chat_turn *turn);

#endif
