/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chat_input.h - from typed lines to a message.
 *
 * A line that ends in a backslash goes on in the next; three quotes begin a message that ends at
 * the next three. A message in quotes is never a command.
 */
#ifndef MOTE_CLI_CHAT_CHAT_INPUT_H
#define MOTE_CLI_CHAT_CHAT_INPUT_H

#include "cli/term/lineedit.h"

typedef struct chat_input {
    input_text text;
    bool quoted;  /* it began with three quotes */
    bool goes_on; /* another line belongs to it */
} chat_input;

/* Adds a line; false: no memory. Look at goes_on. */
bool chat_input_add(chat_input *in, const char *line, size_t n);
/* All-zero again, but for memory. */
void chat_input_clear(chat_input *in);
void chat_input_free(chat_input *in);

/* Reads lines until the message is complete. */
line_end chat_input_read(chat_input *in, lineedit *l);

#endif
