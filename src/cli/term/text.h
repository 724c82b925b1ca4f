/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - characters on their way to a person: UTF-8 checked, controls made
 * visible, numbers written as people read them.
 *
 * What a model writes, or a stranger's file contains, must not be able to drive
 * the terminal: every control character can be shown escaped.
 */
#ifndef MOTE_CLI_TERM_TEXT_H
#define MOTE_CLI_TERM_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character at p, 1 to 4; 0: what stands there is not UTF-8. n > 0. */
size_t text_char(const char *p, size_t n, uint32_t *code);

typedef enum text_style {
    TEXT_LINES, /* newline and tab stay as they are */
    TEXT_LINE,  /* they are escaped too: the result is one line */
    TEXT_QUOTED /* and so are quotes and backslashes */
} text_style;

enum { TEXT_SHOWN_BYTES = 12 };

/* Writes the character at p as it may be shown, at most TEXT_SHOWN_BYTES bytes without a
 * terminator, their number to *n_shown. Returns the bytes of p it stands for. */
size_t text_show(const char *p, size_t n, text_style style, char *shown, size_t *n_shown);

/* The whole of p on one line of at most `columns` characters and `room` bytes, cut with "..." when
 * it is longer. Room for 4 * columns + 1 bytes is always enough. The result is terminated. */
void text_fit(char *shown, size_t room, const char *p, size_t n, size_t columns);

enum { TEXT_NUMBER_BYTES = 48 };

/* Each returns `buffer`, which has TEXT_NUMBER_BYTES bytes. */
const char *text_count(char *buffer, uint64_t n); /* "3 070" */
/* "1 token", "3 070 tokens"; for short words without a plural of their own */
const char *text_counted(char *buffer, uint64_t n, const char *thing);
const char *text_bytes(char *buffer, uint64_t bytes);     /* "2.7 GB" */
const char *text_seconds(char *buffer, double seconds);   /* "0.27 s", "1 m 10 s" */
const char *text_rate(char *buffer, double per_second);   /* "412", "8.0" */
const char *text_quantity(char *buffer, double quantity); /* "4.21 B", "14.9 M" */

#endif
