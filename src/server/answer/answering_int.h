/* SPDX-License-Identifier: Apache-2.0 */
/* answering_int.h - between the files of answering: what the pool does, what the loop keeps. */
#ifndef MOTE_SERVER_ANSWER_ANSWERING_INT_H
#define MOTE_SERVER_ANSWER_ANSWERING_INT_H

#include "server/answer/dialect.h"

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
/* May its key ask for more now? false: *error says when. What does not answer costs nothing. */
bool answering_admitted(answering *w, api_error *error);
/* The key pays for what was read and written; before jobs are dropped. */
void answering_charge(answering *w);
/* Tells the log what was done for it, before it ends. */
void answering_note(const answering *w);
/* Its model is asked from here on, if the client is there; it no longer is. */
void answering_takes_model(answering *w);
void answering_leaves_model(answering *w);
/* Nothing more is sent: jobs are dropped, and the exchange lets go. */
void answering_conclude(answering *w);
/* `"miss":{...}`: where its prompt parted from one that could have been reused; nothing if none. */
void answering_put_miss(const choice *c, strbuf *out);
void choice_fini(choice *c);
/* A token of the content. */
void choice_add_token(choice *c, const chat_event *event);
/* An event of a call; false: no memory. */
bool choice_add_call(choice *c, const chat_event *event, const char *prefix);
stop_cause choice_cause(const choice *c);

#endif
