/* SPDX-License-Identifier: Apache-2.0 */
/* generation_int.h - between the files of answering: what the pool does, what the loop keeps. */
#ifndef MOTE_SERVER_GENERATION_GENERATION_INT_H
#define MOTE_SERVER_GENERATION_GENERATION_INT_H

#include "server/generation/dialect.h"

/* What the headers say of the ask. */
void generation_read_headers(generation *w);
/* Pool thread: from the body to an ask. w->error.code says whether it worked; so with the next. */
void generation_read(generation *w);
/* Pool thread, once everything was seen that the ask shows: to jobs that can be submitted.
 * `release` is what jobs let go of their choice with. */
void generation_make(generation *w, void (*release)(void *choice));
/* The prompt has so many tokens, more than there is room for. Always false. */
bool generation_full(generation *w, size_t n);
/* An answer is over and whole: its tokens are remembered for the day its text comes back. */
void generation_remember_tokens(const generation *w, const choice *c);
/* Nothing is to be answered: the dialect wants to see the prompts. */
bool generation_prompt_only(const generation *w);
/* May its key ask for more now? false: *error says when. What does not answer costs nothing. */
bool generation_admitted(generation *w, http_error *error);
/* The key pays for what was read and written; before jobs are dropped. */
void generation_charge(generation *w);
/* Tells the log what was done for it, before it ends. */
void generation_note(const generation *w);
/* Its model is asked from here on, if the client is there; it no longer is. */
void generation_takes_model(generation *w);
void generation_leaves_model(generation *w);
/* Nothing more is sent: jobs are dropped, and the exchange lets go. */
void generation_conclude(generation *w);
/* `"miss":{...}`: where its prompt parted from one that could have been reused; nothing if none. */
void generation_put_miss(const choice *c, strbuf *out);
void choice_fini(choice *c);
/* A token of the content. */
void choice_add_token(choice *c, const chat_event *event);
/* An event of a call; false: no memory. */
bool choice_add_call(choice *c, const chat_event *event, const char *prefix);
stop_cause choice_cause(const choice *c);

#endif
