/* SPDX-License-Identifier: Apache-2.0 */
/* turn_rig.h - what the tests of answers share: an engine, the tasks of mote-tiny, what came out.
 */
#ifndef MOTE_TESTS_CHAT_TURN_RIG_H
#define MOTE_TESTS_CHAT_TURN_RIG_H

#include "chat/chat_int.h"

#include <mote_chat.h>

/* An engine for `sessions` conversations of 2,048 positions on a file of the data directory;
 * exits with 77 if it is not there. */
mote_engine *turn_engine(const char *file, uint32_t sessions, uint32_t kept_states);
void turn_engine_close(mote_engine *engine);

/* Everything an answer delivered. */
typedef struct heard {
    strbuf content, reasoning;
    strbuf calls; /* "name {arguments}\n" of each, arguments as json_put_node writes them */
    int n_readings;
    mote_chat *cancel;   /* canceled from inside the event function ... */
    size_t cancel_after; /* ... once so much content came */
} heard;

void heard_event(void *with, const mote_chat_event *event);
void heard_clear(heard *h);
/* Nothing that is not blank. */
bool text_is_blank(const strbuf *text);

mote_chat *turn_chat(mote_engine *engine, const mote_chat_options *options);
void turn_add(mote_chat *chat, const char *text); /* the user says it */
/* Adds the messages of a line of tasks.jsonl but the last, and its tools. */
void turn_add_task(mote_chat *chat, const json_node *line);
/* Must succeed. `h` may be NULL. */
mote_answer turn_answer(mote_chat *chat, mote_answer_options how, heard *h);

/* No draw, no penalties. */
mote_answer_options turn_greedy(void);

#endif
