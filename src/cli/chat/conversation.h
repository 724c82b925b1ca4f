/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conversation.h - a conversation with its model, its settings and its screen: from a file's name
 * to one answer after another.
 *
 * Functions return an exit code and have said what is wrong unless it is 0.
 */
#ifndef MOTE_CLI_CHAT_CONVERSATION_H
#define MOTE_CLI_CHAT_CONVERSATION_H

#include "cli/chat/answer_view.h"
#include "cli/load/media_files.h"
#include "cli/run/run.h"

typedef struct talk {
    const cli_call *call;
    const run_options *options;
    run_settings settings;
    loaded on;    /* without a session: the chat has its own */
    images shows; /* what its messages show */
    mote_chat *chat;
    chat_screen screen;
    mote_answer answer;                                    /* the last one */
    double started, load_ended, asked, first_token, ended; /* os_now */
} talk;

/* Opens the model and the conversation, with tools, system text and earlier messages in it and
 * room for `prompt`, which is not added yet. `goes_on`: more messages will come, perhaps with
 * pictures, and another conversation may be opened beside it. */
int talk_open(talk *t, const cli_call *call, const input_text *prompt, bool goes_on);
void talk_close(talk *t);

/* Adds what somebody says, with what is attached to it. */
mote_status talk_add(talk *t, const char *text, size_t n, mote_error *err);

/* Answers the last message. Ctrl-C ends the answer, not the program: t->answer.finish is then
 * MOTE_FINISH_CANCELED and interrupt_came() holds. */
mote_status talk_answer(talk *t, mote_error *err);

/* What was unusual about the last answer, if anything: NULL, or words such as "cut by the limit".
 */
const char *talk_ending(const talk *t);

#endif
