/* SPDX-License-Identifier: Apache-2.0 */
/* turn_rig.h - shared by the tests of answers: an engine, the tasks of mote-tiny, recorded events.
 */
#ifndef MOTE_TESTS_CHAT_TURN_RIG_H
#define MOTE_TESTS_CHAT_TURN_RIG_H

#include "chat/chat_int.h"

#include <mote_chat.h>

/* An engine for `sessions` conversations of 2,048 positions on a file of the data directory;
 * exits with 77 if the file is missing. */
mote_engine *turn_engine(const char *file, uint32_t sessions, uint32_t kept_states);
void turn_engine_close(mote_engine *engine);

/* Everything that the events of an answer delivered. */
typedef struct answer_record {
    strbuf content, reasoning;
    strbuf calls; /* "name {arguments}\n" of each, arguments written by json_put_node() */
    int n_prefill;
    mote_chat *cancel;   /* canceled in the event function ... */
    size_t cancel_after; /* ... after this many bytes of content */
} answer_record;

void record_event(void *with, const mote_chat_event *event);
void record_clear(answer_record *h);
/* Whether the text has only white space. */
bool text_is_blank(const strbuf *text);

mote_chat *turn_chat(mote_engine *engine, const mote_chat_options *options);
void turn_add(mote_chat *chat, const char *text); /* adds a user message */
/* Adds the messages of a line of tasks.jsonl, except the last, and its tools. */
void turn_add_task(mote_chat *chat, const json_node *line);
/* Aborts on errors. `h` may be NULL. */
mote_answer turn_answer(mote_chat *chat, mote_answer_options how, answer_record *h);

/* Greedy sampling without penalties. */
mote_answer_options turn_greedy(void);

#endif
