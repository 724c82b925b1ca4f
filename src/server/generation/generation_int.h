/* SPDX-License-Identifier: Apache-2.0 */
/* generation_int.h - private to generation/. generation.c calls the other files, never the reverse.
 */
#ifndef MOTE_SERVER_GENERATION_GENERATION_INT_H
#define MOTE_SERVER_GENERATION_GENERATION_INT_H

#include "server/generation/generation.h"

/* ---- generation_prepare.c ---- */

/* Worker thread: renders the prompts and creates the jobs. `release` is the function with which a
 * job gives its choice back. On failure w->error.code is set. */
void generation_prepare_jobs(generation *w, void (*release)(void *choice));
/* Sets w->error to context_length_exceeded for a prompt of n tokens; always false. */
bool generation_context_exceeded(generation *w, size_t n, bool at_least);
/* Does the request end with the rendered prompts? */
bool generation_prompt_only(const generation *w);

/* ---- generation_load.c ---- */

/* Ends the wait for the model; `loaded` is called. */
void generation_stop_waiting(generation *w);
/* Once per second: prints the progress of the load. */
void generation_print_loading(generation *w, double now);

/* ---- generation.c ---- */

/* The list of ctx->generations. No worker may use a listed generation. */
void generation_enlist(generation *w);
void generation_unlist(generation *w);
/* Sends the head of the stream, once. */
void generation_send_head(generation *w);
/* Aborts the connection if a printer function ran out of memory. Call it after each of them. */
void generation_check_sent(generation *w);

/* Stores the tokens of a complete answer in the answer-token cache. */
void generation_remember_tokens(const generation *w, const choice *c);

/* ---- generation_output.c ---- */

void choice_fini(choice *c);
void choice_add_token(choice *c, const chat_event *event);
/* Adds an event of a tool call; false: out of memory. */
bool choice_add_call(choice *c, const chat_event *event, const char *prefix);
stop_cause choice_cause(const choice *c);

/* ---- usage.c ---- */

/* Passes usage and times to the request log. */
void generation_log(const generation *w);
double choice_prefill_seconds(const choice *c);

/* ---- cache_report.c ---- */

/* Prints `cache` of the `mote` object. */
void generation_put_cache(const generation *w, const choice *c, strbuf *out);
/* Loop thread, when the job has ended: counts a miss by its reason. */
void generation_count_cache(const generation *w, const choice *c);

#endif
