/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turn.h - one answer as a machine that somebody else drives.
 *
 * A turn owns a timeline: the prompt and what was written so far. It never touches an
 * engine. Whoever drives it brings a session to the tokens it wants (appending, and going back
 * where the timeline changed), by whatever steps and in whatever company, and comes back with
 * the logits of the last one:
 *
 *     chat_turn_next(turn, session, &want)   until want.over
 *
 * So one loop answers one question, and a scheduler answers many at once; what is
 * written depends on the logits, the options and the tokens, and on nothing else.
 *
 * Making a turn compiles the forms it needs, which may take milliseconds, on any thread. Most of
 * its memory is taken then; texts and log-probabilities that are held back may grow later.
 * One thread at a time uses a turn, and any number of them share a kit and a vocabulary.
 */
#ifndef MOTE_CHAT_TURN_TURN_H
#define MOTE_CHAT_TURN_TURN_H

#include "chat/parse/parse.h"
#include "chat/prompt/chat_context.h"
#include "chat/turn/thinking.h"

struct token_trie;

/* Whose form could not be had, if that is why there is no turn. */
typedef struct chat_fault {
    enum { CHAT_FAULT_NONE = 0, CHAT_FAULT_FORMAT, CHAT_FAULT_TOOL } of;
    size_t tool; /* CHAT_FAULT_TOOL: its number; n_tools: not one alone, but all together */
} chat_fault;

/* What pointers lead to must outlive the turn, the prompt and the fault excepted. */
typedef struct chat_turn_options {
    const chat_context *chat_ctx;
    const mote_token *prompt; /* [n_prompt] */
    size_t n_prompt;
    bool thinking;                     /* chat_prompt.thinking */
    uint64_t context;                  /* positions of the session */
    const mote_answer_options *answer; /* its event function is not called */
    const json_node *const *tools;     /* [n_tools] */
    size_t n_tools;
    const bool *tool_allowed; /* [n_tools], which of them may be called; NULL: all */
    const struct token_trie
        *vocab; /* for answers of a given form and for calls, see form.h; else NULL */
    /* Without a template: every token is content, control tokens say nothing. No thinking, no
     * tools; stop strings and forms as ever. */
    bool raw;
    /* Before the content that a token leads to, CHAT_EVENT_TOKEN tells of it, with as many
     * alternatives as answer->sampling.top_logprobs; not inside thinking and calls. */
    bool logprobs;
    uint32_t min_tokens; /* of the answer, thinking included; the model cannot end it before, */
    bool ignore_end;     /* or not at all; but an answer that has its form ends */
    chat_event_fn *event;
    void *with;
    chat_fault *fault; /* written by chat_turn_new; NULL: nobody asks */
} chat_turn_options;

typedef struct chat_turn chat_turn;

/* MOTE_E_FULL: the prompt leaves no room for an answer. MOTE_E_ARG: an option is wrong.
 * MOTE_E_UNSUPPORTED: a format, or the schema of a tool that is `strict`, asks for what mote does
 * not know; of other tools it is left out, and the turn begins with CHAT_WARN_SCHEMA. */
mote_status chat_turn_new(chat_turn **out, const chat_turn_options *options, mote_error *err);
/* NULL is allowed. */
void chat_turn_free(chat_turn *turn);

typedef struct chat_turn_want {
    const mote_token *tokens; /* [n], what the session has to hold, with logits of the last */
    size_t n;
    size_t same; /* so many are as they were the last time; 0 at first. If the session holds just
                  * these and has not moved, its logits are still those that are wanted */
    bool over;   /* no more logits are needed; the session may stay as it is */
} chat_turn_want;

/* The first call reads nothing from the session, which may be NULL then. Views end with the next
 * call. */
mote_status chat_turn_next(chat_turn *turn, const mote_session *session, chat_turn_want *want,
                           mote_error *err);

/* The reader has seen enough thinking: it is closed in place of the next token. Without an open
 * block this does nothing. */
void chat_turn_end_thinking(chat_turn *turn);

/* Ends it from outside: MOTE_FINISH_CANCELED, or MOTE_FINISH_LENGTH for a deadline. */
mote_status chat_turn_stop(chat_turn *turn, mote_finish finish, mote_error *err);

/* Complete once it is over; reused_tokens and seconds are for the driver to fill in. */
const mote_answer *chat_turn_result(const chat_turn *turn);
/* The timeline, prompt included. `open`: it was stopped inside thinking. */
const mote_token *chat_turn_tokens(const chat_turn *turn, size_t *n, bool *open);

#endif
