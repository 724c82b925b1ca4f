/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thinking.h - how much of an answer may be thinking, and how it is brought to an end.
 *
 *   0 ........ soft ............ budget ............ last
 *     free       ever easier       ends with the      is ended
 *                to end            next sentence      anyway
 *
 * What is left of the answer's tokens is for the reader and never given to thinking.
 */
#ifndef MOTE_CHAT_TURN_THINKING_H
#define MOTE_CHAT_TURN_THINKING_H

#include "base/str.h"
#include "json/json.h"

#include <mote_chat.h>

enum {
    CHAT_THINK_RESERVE = 256, /* tokens of an answer at least, or a quarter of all */
    CHAT_THINK_GRACE = 64     /* tokens within which a sentence has to end */
};

typedef struct chat_think_plan {
    uint32_t soft, budget, last; /* tokens of thinking; all 0: none */
} chat_think_plan;

/* For a budget somebody asked for, in an answer of max_tokens, in which thinking may have to be
 * closed with `closing` tokens. */
chat_think_plan chat_think_plan_of(uint32_t budget, uint32_t max_tokens, uint32_t closing);

/* What is added to the logit of </think> after `used` tokens of thinking. */
float chat_think_urge(const chat_think_plan *plan, uint32_t used);

/* Does a sentence end with this token, if the one before it was `before`? */
bool chat_ends_sentence(str before, str token);

typedef enum chat_dialect {
    CHAT_DIALECT_OPENAI,
    CHAT_DIALECT_RESPONSES,
    CHAT_DIALECT_ANTHROPIC,
    CHAT_DIALECT_OLLAMA
} chat_dialect;

typedef struct chat_think_setting {
    mote_think think;   /* AUTO: nobody said; a configuration or the size of the model decides */
    uint32_t budget;    /* 0: the default, or off; may be set although think is AUTO */
    const char *source; /* a constant: what decided, e.g. "reasoning.effort"; "default" */
    bool conflict;      /* somebody later said something else */
    bool soft_switch;   /* the last word of the last user message was read as a switch: see below */
} chat_think_setting;

/* Any view may be empty. MOTE_E_ARG: a field is of a wrong type or has no known value; the text
 * names it. */
mote_status chat_think_read(chat_think_setting *out, const json_node *body, chat_dialect dialect,
                            str model_suffix, str last_user_text, mote_error *err);

/* Is this what may follow the last colon of a model's name: think, nothink, low ... ? */
bool chat_think_is_suffix(str word);
/* The text without a /think or /no_think that is its last word, and without the blanks before. */
str chat_think_without_switch(str text);

#endif
