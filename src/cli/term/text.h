/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - text for a terminal: UTF-8 validation, escaped control characters, numbers with units,
 * spelling suggestions.
 *
 * Model output and file contents are untrusted: escaping every control character keeps them from
 * sending commands to the terminal.
 */
#ifndef MOTE_CLI_TERM_TEXT_H
#define MOTE_CLI_TERM_TEXT_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- characters ---- */

/* Bytes of the character at p, 1 to 4; 0: not UTF-8. n > 0. */
size_t text_char(const char *p, size_t n, uint32_t *code);

/* C0, DEL, C1, line separators, and characters that change the direction of text. */
bool text_is_control(uint32_t code);

typedef enum text_style {
    TEXT_LINES, /* newline and tab stay */
    TEXT_LINE,  /* newline and tab are escaped: the result is one line */
    TEXT_QUOTED /* quotes and backslashes are escaped as well */
} text_style;

enum { TEXT_SHOWN_BYTES = 12 };

/* Writes the character at p, escaped if needed: at most TEXT_SHOWN_BYTES bytes, not terminated,
 * *n_shown of them. Returns the number of bytes consumed from p. */
size_t text_show(const char *p, size_t n, text_style style, char *shown, size_t *n_shown);

/* Writes p on one line of at most `columns` characters and `room` bytes, truncated with "..." if
 * it is longer. 4 * columns + 1 bytes are always enough. Terminated. */
void text_fit(char *shown, size_t room, const char *p, size_t n, size_t columns);

/* Appends to a buffer. False: out of memory; the buffer keeps its content and stays usable. */
bool text_add(strbuf *to, const char *p, size_t n);

/* ---- numbers ---- */

enum { TEXT_NUMBER_BYTES = 48 };

/* Each returns `buffer`, which has TEXT_NUMBER_BYTES bytes. */
const char *text_count(char *buffer, uint64_t n); /* "3 070" */
/* "1 token", "3 070 tokens": `noun` forms its plural with s */
const char *text_counted(char *buffer, uint64_t n, const char *noun);
const char *text_bytes(char *buffer, uint64_t bytes);     /* "2.7 GB" */
const char *text_seconds(char *buffer, double seconds);   /* "0.27 s", "1 m 10 s" */
const char *text_rate(char *buffer, double per_second);   /* "412", "8.0" */
const char *text_quantity(char *buffer, double quantity); /* "4.21 B", "14.9 M" */

/* ---- spelling ---- */

/* Finds the candidate nearest to a mistyped word. Start with {.word = typed}. */
typedef struct spell {
    const char *word;
    const char *best; /* NULL: no candidate is near */
    size_t distance;  /* of best */
} spell;

/* Considers one candidate, which must outlive the search. */
void spell_offer(spell *s, const char *candidate);

#endif
