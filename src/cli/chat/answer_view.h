/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_view.h - an answer as it comes, for a person at a terminal or for a pipe.
 *
 * On a terminal thinking is dim, between two lines that say so, or folded into one of them;
 * text is wrapped (wrap.h), and nothing in it can drive the terminal. A pipe or a file gets the
 * answer byte by byte and none of the thinking. Tool calls are JSON objects, one on a line.
 */
#ifndef MOTE_CLI_CHAT_ANSWER_VIEW_H
#define MOTE_CLI_CHAT_ANSWER_VIEW_H

#include "cli/load/input.h"
#include "cli/term/json_out.h"
#include "cli/term/progress.h"
#include "cli/chat/wrap.h"

#include <mote_chat.h>

typedef enum screen_place { SCREEN_WAITING, SCREEN_THINKING, SCREEN_ANSWER } screen_place;

typedef struct chat_screen {
    /* set by the caller */
    cli_out *out; /* NULL: nothing is shown, only collected */
    bool fold;    /* thinking takes one line */

    /* what came of the answer */
    input_text content;
    input_text reasoning;
    input_text calls; /* of each its name and its arguments, each with a zero at its end */
    bool out_of_memory;

    /* in between */
    screen_place place;
    bool begun; /* something but newlines came in this place */
    bool reading;
    wrap text;
    progress prompt;
    double thinking_since;   /* os_now */
    unsigned folded_seconds; /* as the line of folded thinking says */
} chat_screen;

/* Before each answer; drops what was collected. */
void screen_begin(chat_screen *s);
/* As mote_answer_options.event, with = the screen. */
void screen_event(chat_screen *s, const mote_chat_event *event);
/* After the answer, however it ended: every line is closed and every colour is off. */
void screen_end(chat_screen *s);
void screen_free(chat_screen *s);

/* The calls of the answer as an array of OpenAI's form; ids are call_0, call_1 ... */
void screen_write_calls(const chat_screen *s, json *j);
/* Thinking of the last answer, as it would have been shown unfolded. */
void screen_show_reasoning(chat_screen *s);

#endif
