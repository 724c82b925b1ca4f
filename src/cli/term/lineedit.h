/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lineedit.h - reads a line from the terminal.
 *
 * Two implementations: lineedit.c uses libedit (editing, history, search, bracketed paste);
 * lineedit_plain.c uses the line editing of the terminal driver. The build selects one.
 */
#ifndef MOTE_CLI_TERM_LINEEDIT_H
#define MOTE_CLI_TERM_LINEEDIT_H

#include "base/str.h"

typedef struct lineedit lineedit;

typedef enum line_end {
    LINE_READ = 0,
    LINE_CLOSED,      /* Ctrl-D on an empty line, or the terminal is closed */
    LINE_CLEARED,     /* Ctrl-C on a line with text */
    LINE_INTERRUPTED, /* Ctrl-C on an empty line, or SIGTERM */
    LINE_FAILED       /* out of memory */
} line_end;

/* NULL: out of memory. */
lineedit *lineedit_open(void);
void lineedit_close(lineedit *l);

/* Appends the line to `text` without its final newline; pasted text may contain others. `prompt`
 * must outlive the call. */
line_end lineedit_read(lineedit *l, const char *prompt, strbuf *text);

/* Adds a message to the history and saves the history file. */
void lineedit_add_history(lineedit *l, const char *text, size_t n);
/* Turns lineedit_add_history off or on. */
void lineedit_set_history(lineedit *l, bool on);

/* The Tab key. `line` is the text before the cursor, terminated. The function appends the possible
 * replacements of line[*from] to line[n - 1] to `choices`, each terminated. Their common beginning
 * is inserted; if it is already there, the choices are printed. */
typedef void lineedit_complete_fn(void *ctx, const char *line, size_t n, size_t *from,
                                  strbuf *choices);
void lineedit_set_complete(lineedit *l, lineedit_complete_fn *complete, void *ctx);

/* Which features this build lacks, as a sentence; NULL: none. */
const char *lineedit_missing(void);

#endif
