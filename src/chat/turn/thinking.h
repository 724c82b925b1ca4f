/* SPDX-License-Identifier: Apache-2.0 */
/*
 * thinking.h - the thinking budget of an answer, and the request fields that set it.
 *
 * Phases by number of thinking tokens:
 *
 *   0 .......... soft ............... budget ................ last
 *     no change    the logit of         closed at the end      closed in any
 *                  </think> rises       of a sentence          case
 *
 * Part of max_tokens is reserved for the visible answer; thinking never uses it.
 *
 * A request can set thinking in many places. chat_think_read() reads them in this order: the
 * model's own settings (enable_thinking, reasoning_effort), the field of the API dialect, budgets
 * under other vendors' names, the suffix of the model name, /think or /no_think at the end of the
 * last user message. The first place that says on or off decides. A number of tokens anywhere
 * overrides an effort level. 0 tokens is off, a negative number is the maximum. The table in
 * thinking.c is the whole list.
 *
 * Pure functions, thread-safe.
 */
#ifndef MOTE_CHAT_TURN_THINKING_H
#define MOTE_CHAT_TURN_THINKING_H

#include "base/str.h"
#include "chat/prompt/message.h"
#include "json/json.h"

#include <mote_chat.h>

/* ---- the budget ---- */

enum {
    CHAT_THINK_RESERVE = 256, /* minimum tokens for the visible answer; or a quarter of all */
    CHAT_THINK_GRACE = 64     /* tokens after the budget within which a sentence may end */
};

typedef struct chat_think_plan {
    uint32_t soft, budget, last; /* thinking tokens; all 0: no thinking */
} chat_think_plan;

/* The plan for a requested budget in an answer of max_tokens. `closing` is the number of tokens
 * that closing thinking may insert. */
chat_think_plan chat_think_plan_of(uint32_t budget, uint32_t max_tokens, uint32_t closing);

/* The bias of the logit of </think> after `used` thinking tokens. */
float chat_think_urge(const chat_think_plan *plan, uint32_t used);

/* Whether `token` ends a sentence. `before` is the token before it. */
bool chat_ends_sentence(str before, str token);

/* ---- the setting in a request ---- */

typedef enum chat_dialect {
    CHAT_DIALECT_OPENAI,
    CHAT_DIALECT_RESPONSES,
    CHAT_DIALECT_ANTHROPIC,
    CHAT_DIALECT_OLLAMA
} chat_dialect;

typedef struct chat_think_setting {
    mote_think think;   /* AUTO: not set; server configuration or model size decides */
    uint32_t budget;    /* 0: the default, or off; may be set although think is AUTO */
    const char *source; /* a constant: the field that decided, e.g. "reasoning.effort"; "default" */
    bool conflict;      /* a later field contradicts */
    bool soft_switch;   /* the last user message ends with /think or /no_think */
} chat_think_setting;

/* Any view may be empty. MOTE_E_ARG: a field has a wrong type or an unknown value; the error text
 * names it. In official mode, enable_thinking and reasoning_effort inside chat_template_kwargs may
 * have any value: what has no meaning here is left to the template. */
mote_status chat_think_read(chat_think_setting *out, const json_node *body, chat_dialect dialect,
                            chat_mode mode, str model_suffix, str last_user_text, mote_error *err);

/* Whether `word` is a valid suffix after the last colon of a model name: think, nothink, low ... */
bool chat_think_is_suffix(str word);
/* The text without a trailing /think or /no_think and the blanks before it. */
str chat_think_without_switch(str text);

#endif
