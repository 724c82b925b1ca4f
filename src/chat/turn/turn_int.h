/* SPDX-License-Identifier: Apache-2.0 */
/* turn_int.h - internals of a turn, shared by turn.c and turn_events.c. */
#ifndef MOTE_CHAT_TURN_TURN_INT_H
#define MOTE_CHAT_TURN_TURN_INT_H

#include "base/str.h"
#include "chat/turn/loop_detector.h"
#include "chat/turn/response_format.h"
#include "chat/turn/turn.h"

/* Stop strings: content that ends before the first of several strings, for any chunking. */
typedef struct chat_stops {
    const char *const *strings; /* [n], zero-terminated, not empty */
    size_t n;
    strbuf held; /* the tail of the text that may be the start of a stop string */
    bool hit;
    uint32_t which; /* if hit */
} chat_stops;

/* Appends text to `held`. The first *certain bytes of it can be sent; remove them with
 * chat_stops_take(). After a hit these are all bytes before the stop string. */
void chat_stops_add(chat_stops *s, str piece, size_t *certain);
void chat_stops_take(chat_stops *s, size_t bytes);

enum { TURN_OWN_BIAS = 4 + CHAT_MAX_ENDS };

typedef enum turn_state { TURN_NEW, TURN_THINKING, TURN_ANSWERING, TURN_OVER } turn_state;

/* A token event that waits for its content to pass the stop strings. */
typedef struct turn_waiting {
    size_t token;   /* index in the answer */
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
    size_t answer_from; /* position after thinking */
    size_t closing;     /* number of inserted tokens that closed thinking */
    size_t unspent;     /* those inserted before any thinking. They do not count as answer tokens: a
                         * prompt without thinking contains them too */
    bool enough;        /* close thinking at the next token */
    bool open;          /* the turn was stopped inside thinking */
    bool wrote;         /* a token after thinking has more than white space */
    uint32_t retries;
    /* The sampled tokens without the inserted ones: only sampled tokens can be a loop. */
    mote_token *picks; /* [n_picks] */
    uint32_t *pick_at; /* [n_picks], positions */
    size_t n_picks;
    loop_detector loop; /* of picks */
    response_format format;
    size_t forced; /* tokens inserted by the response format */

    /* output */
    chat_parser *parser;
    size_t delivered; /* tokens given to the parser */
    chat_stops stops;
    mote_answer result;

    /* with logprobs: the choices of the tokens choice_from .. n */
    mote_choice *choices; /* [choices_room] */
    size_t choice_from, choices_room;
    mote_choice end; /* the end token that was sampled last, if `ended` */
    bool ended;
    size_t content_in, content_out; /* bytes into and out of the stop strings */
    turn_waiting *waiting;          /* [waiting_room], first_waiting .. n_waiting are in use */
    size_t first_waiting, n_waiting, waiting_room;
    bool waiting_failed;
};

/* ---- turn_events.c ---- */

/* Event function of the parser. */
void turn_on_event(void *with, const chat_event *event);
void turn_warn(chat_turn *t, chat_warning warning, str text);
/* Sends the tokens before `end` to the parser: they will not be rewound. */
mote_status turn_flush(chat_turn *t, size_t end, mote_error *err);
/* Sends everything and fills in the result. */
mote_status turn_finish(chat_turn *t, mote_finish finish, mote_error *err);
/* Records the choice of the token that will be tokens[n]; NULL: it is inserted. */
mote_status turn_keep_choice(chat_turn *t, mote_token token, const mote_choice *choice,
                             mote_error *err);

#endif
