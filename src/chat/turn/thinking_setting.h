/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thinking_setting.h - whether to think and how much, out of a request in any dialect.
 *
 * People say it in a dozen places. They are asked in one order: the model's own switch, the
 * field of the dialect, budgets as other vendors name them, the name of the model, the last
 * word of the question. The first that says on or off decides; a number of tokens anywhere
 * beats a word for an amount; 0 tokens are off and less than that is all there is room for. The
 * table in think_setting.c is the whole list.
 */
#ifndef MOTE_CHAT_TURN_THINKING_SETTING_H
#define MOTE_CHAT_TURN_THINKING_SETTING_H

#include "json/json.h"

#include <mote_chat.h>

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
