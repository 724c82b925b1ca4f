/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wrap.h - a model's text on its way to a terminal: words kept whole at the right edge,
 * controls shown escaped.
 *
 * Text comes in pieces of any size; a word is shown when it is complete. The width is asked
 * for before each word, so a window that changes its size counts from the next word on.
 * Characters that take two columns may stand at the end of a line each by itself, as East Asian
 * text does. Lines between ``` fences are left as they are: code that was wrapped cannot be
 * copied.
 */
#ifndef MOTE_CLI_CHAT_WRAP_H
#define MOTE_CLI_CHAT_WRAP_H

#include "cli/term/output.h"

#include <stdint.h>

enum { WRAP_WORD_BYTES = 256 };

typedef struct wrap {
    cli_out *to;
    unsigned (*columns)(void); /* of the terminal, now; NULL: lines are not wrapped */

    unsigned column; /* where the next character goes, from 0 */
    unsigned blanks; /* after what is shown; written only if a word follows on the line */
    char word[WRAP_WORD_BYTES];
    size_t n_word;
    unsigned word_columns;
    bool fence;       /* inside a ``` block */
    bool inside_line; /* it has something that is no blank and no backquote */
    unsigned ticks;   /* backquotes at the beginning of the line */
} wrap;

void wrap_begin(wrap *w, cli_out *to, unsigned (*columns)(void));
/* Whole characters: bytes that are none are shown escaped. */
void wrap_text(wrap *w, const char *text, size_t n);
/* Shows what is held back. The line stays open. */
void wrap_end(wrap *w);

/* Columns that a terminal gives a character: 0 to 2. */
unsigned wrap_char_columns(uint32_t code);

#endif
