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

#endif
