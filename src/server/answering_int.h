/* SPDX-License-Identifier: Apache-2.0 */
/* answering_int.h - between the files of answering: what the pool does, what the loop keeps. */
#ifndef MOTE_SERVER_ANSWERING_INT_H
#define MOTE_SERVER_ANSWERING_INT_H

#include "server/dialect.h"

/* What the headers say of the ask. */
void answering_read_headers(answering *w);
/* Pool thread: from the body to an ask. w->error.code says whether it worked; so with the next. */
void answering_read(answering *w);
/* Pool thread, once everything was seen that the ask shows: to jobs that can be submitted.
 * `release` is what jobs let go of their choice with. */
void answering_make(answering *w, void (*release)(void *choice));
/* The prompt has so many tokens, more than there is room for. Always false. */
bool answering_full(answering *w, size_t n);
/* An answer is over and whole: its tokens are remembered for the day its text comes back. */
void answering_recall(const answering *w, const choice *c);
/* Nothing is to be answered: the dialect wants to see the prompts. */
bool answering_prompt_only(const answering *w);
/* Nothing more is sent: jobs are dropped, and the exchange lets go. */
void answering_conclude(answering *w);
void choice_fini(choice *c);
/* A token of the content. */
void choice_add_token(choice *c, const chat_event *event);
/* A whole call; NULL: no memory. */
made_call *choice_add_call(choice *c, const chat_event *event, const char *prefix);
stop_cause choice_cause(const choice *c);

#endif
