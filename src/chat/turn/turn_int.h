/* SPDX-License-Identifier: Apache-2.0 */
/* turn_int.h - the inside of a turn, shared by its three files. */
#ifndef MOTE_CHAT_TURN_TURN_INT_H
#define MOTE_CHAT_TURN_TURN_INT_H

#include "chat/turn/response_format.h"
#include "chat/turn/loop_detector.h"
#include "chat/turn/turn.h"

typedef struct chat_stops {
    const char *const *strings; /* [n], terminated, not empty */
    size_t n;
    strbuf held; /* the end of the text, as long as it may be the beginning of one */
    bool hit;
    uint32_t which; /* if hit */
} chat_stops;

/* Adds a piece. What is now certain stands at the beginning of `held`, *certain bytes of it:
 * chat_stops_take removes them. After a hit that is all before the string. */
void chat_stops_add(chat_stops *s, str piece, size_t *certain);
void chat_stops_take(chat_stops *s, size_t bytes);

enum { TURN_OWN_BIAS = 4 + CHAT_MAX_ENDS };

typedef enum turn_state { TURN_NEW, TURN_THINKING, TURN_ANSWERING, TURN_OVER } turn_state;

/* A token whose content is held back. */
typedef struct turn_waiting {
    size_t token;   /* of the answer */
    size_t content; /* bytes of content before its own */
} turn_waiting;

struct chat_turn {
    chat_turn_options options;
    const chat_context *chat_ctx;
    mote_sampling sampling; /* preset and overrides */
    mote_bias *bias;        /* [answer->sampling.n_bias + TURN_OWN_BIAS], the caller's first */
    size_t n_bias;
    mote_token *tokens; /* [room]: prompt, then answer */
    size_t n, room;
    turn_state state;
    chat_think_plan plan;
    uint32_t max_tokens;
    size_t answer_from; /* where thinking ended */
    size_t closing;     /* tokens of it that closed thinking for the model */
    size_t unspent;     /* those of them that came before any thinking, as a template without it has
                         * them in the prompt: they are not the answer's */
    bool enough;        /* thinking is to end */
    bool open;          /* it was stopped inside thinking */
    bool wrote;         /* something that is not blank, after thinking */
    uint32_t retries;
    /* What the model chose, without what was put in: only that can be its loop. */
    mote_token *picks; /* [n_picks] */
    uint32_t *pick_at; /* [n_picks], positions */
    size_t n_picks;
    loop_detector loop; /* of picks */
    response_format form;
    size_t forced; /* tokens the form put in */

    /* to the reader */
    chat_parser *parser;
    size_t delivered; /* tokens the parser has */
    chat_stops stops;
    mote_answer result;

    /* with logprobs: how the tokens from position choice_from on were chosen, up to n */
    mote_choice *choices; /* [choices_room] */
    size_t choice_from, choices_room;
    size_t content_in, content_out; /* bytes that went into the stop strings and came out */
    turn_waiting *waiting;          /* [waiting_room], first_waiting .. n_waiting are in use */
    size_t first_waiting, n_waiting, waiting_room;
    bool waiting_failed;
};

/* ---- turn_emit.c ---- */

/* Event function of the parser. */
void turn_on_event(void *with, const chat_event *event);
void turn_warn(chat_turn *t, chat_warning warning, str text);
/* The tokens before `end` are certain: the reader may have them. */
mote_status turn_flush(chat_turn *t, size_t end, mote_error *err);
/* All of it, and how it ended. */
mote_status turn_finish(chat_turn *t, mote_finish how, mote_error *err);
/* Remembers how tokens[n] will have been chosen; NULL: it was put in. */
mote_status turn_keep_choice(chat_turn *t, mote_token token, const mote_choice *choice,
                             mote_error *err);

#endif
