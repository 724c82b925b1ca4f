/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lineedit.h - a line typed by a person.
 *
 * Two files implement it: lineedit.c with libedit (editing, history, search, pasted text in one
 * piece), lineedit_plain.c without, where lines are edited as the terminal itself allows.
 */
#ifndef MOTE_CLI_TERM_LINEEDIT_H
#define MOTE_CLI_TERM_LINEEDIT_H

#include "cli/load/input.h"

typedef struct lineedit lineedit;

typedef enum line_end {
    LINE_READ = 0,
    LINE_CLOSED,      /* Ctrl-D on an empty line, or the terminal is gone */
    LINE_CLEARED,     /* Ctrl-C, and there was something to clear */
    LINE_INTERRUPTED, /* Ctrl-C on an empty line, or SIGTERM: see interrupt.h */
    LINE_FAILED       /* no memory */
} line_end;

/* NULL: no memory. */
lineedit *lineedit_open(void);
void lineedit_close(lineedit *l);

/* Appends the line to `text`, without the newline at its end; pasted text may have others
 * inside. `prompt` must outlive the call. */
line_end lineedit_read(lineedit *l, const char *prompt, input_text *text);

/* Puts a message into the history and the history into its file. */
void lineedit_remember(lineedit *l, const char *text, size_t n);
/* From now on nothing is put into the history (or again). */
void lineedit_set_history(lineedit *l, bool on);

/* A sentence about what this build lacks, NULL: nothing. */
const char *lineedit_lack(void);

#endif
