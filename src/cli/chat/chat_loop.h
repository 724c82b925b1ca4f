/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_loop.h - the chat at the terminal: what the loop (run_chat.c), its commands
 * (chat_commands.c, chat_images.c) and its settings (chat_set.c) share.
 */
#ifndef MOTE_CLI_CHAT_CHAT_LOOP_H
#define MOTE_CLI_CHAT_CHAT_LOOP_H

#include "cli/chat/chat_input.h"
#include "cli/chat/conversation.h"

typedef struct chat_loop {
    talk talk;
    lineedit *line;
    chat_input input;
    input_text question; /* the last one, for /retry when its answer never began */
    bool taken_back;     /* so that it is not in the conversation */
    bool answered;       /* talk.answer is that of an answer */
    bool leaves;
} chat_loop;

/* Adds the question and has it answered. */
void chat_ask(chat_loop *c, const char *text, size_t n);
/* Answers what was asked last. */
void chat_answer(chat_loop *c);

/* Runs what was typed if it is a command: a slash and a word. False: it is a message. */
bool chat_command(chat_loop *c, const char *typed);

/* "~/x" as the shell would read it; the result is for mem_free, NULL: no memory. */
char *chat_path(const char *words);

/* /image and /video: the words behind it, a file and perhaps a message. */
void chat_show(chat_loop *c, bool video, const char *words);

/* /set: the words behind it; "" prints all settings. */
void chat_set(chat_loop *c, const char *words);
/* Thinking as it is set: "auto", "off", "on, 4 096 tokens". In `buffer`, of CHAT_THINK_BYTES. */
enum { CHAT_THINK_BYTES = 64 };
const char *chat_think_text(const chat_loop *c, char *buffer);

#endif
