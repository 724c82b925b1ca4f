/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - results on their way to standard output.
 *
 * Own buffering instead of stdio, because the reason of a failed write must
 * survive until the command ends: a reader that went away is no error, a full
 * disk is.
 */
#ifndef MOTE_CLI_TERM_OUTPUT_H
#define MOTE_CLI_TERM_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

enum { OUT_BYTES = 1 << 16 };

typedef struct cli_out {
    int fd;
    int error;      /* errno of the first write that failed; nothing is written after it */
    bool terminal;  /* a person looks at it: controls are shown escaped */
    bool line_open; /* something was written since the last newline */
    size_t n;
    char buffer[OUT_BYTES];
} cli_out;

void out_open(cli_out *o, int fd);
void out_write(cli_out *o, const void *bytes, size_t n);
void out_text(cli_out *o, const char *terminated);
/* For short lines: what is beyond 4 KiB is cut. */
void out_printf(cli_out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void out_spaces(cli_out *o, size_t n);
/* Strangers' text: exact bytes to a pipe or file, controls escaped on a terminal. */
void out_shown(cli_out *o, const char *text, size_t n);
/* The same on one line and between quotes, escaped wherever it goes. */
void out_quoted(cli_out *o, const char *text, size_t n);
/* False: there is no point in going on, nobody reads or nothing can be written. */
bool out_flush(cli_out *o);

#endif
