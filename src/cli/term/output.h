/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h - results on stdout, messages on stderr, exit codes.
 *
 * Results use a buffer of our own instead of stdio, because errno of a failed write must survive
 * until the command ends: a closed pipe is not an error, a full disk is.
 *
 * A message is one sentence. An error also has a code in brackets. Control characters, for example
 * from a file name, are escaped. A progress line on the screen is cleared first.
 *
 * Main thread only.
 */
#ifndef MOTE_CLI_TERM_OUTPUT_H
#define MOTE_CLI_TERM_OUTPUT_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes of the program. */
enum {
    CLI_DONE = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NO_MODEL = 3,
    CLI_NO_MEMORY = 4,
    CLI_NO_NETWORK = 5,
    CLI_DAMAGED = 6,
    CLI_NO_SERVER = 7,
    CLI_NO_ROOM = 8,
    CLI_CUT = 9,
    CLI_NOT_VALID = 10,
    CLI_REFUSED = 11,
    CLI_NOT_WRITABLE = 12
};

typedef enum cli_color { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } cli_color;

/* Flags that every command has. */
typedef struct cli_common {
    bool help;
    bool json;
    bool quiet;
    uint64_t verbose;
    uint64_t color; /* cli_color */
    bool no_progress;
    bool strict;
} cli_common;

/* ---- stdout ---- */

enum { OUT_BYTES = 1 << 16 };

typedef struct cli_out {
    int fd;
    int error;      /* errno of the first failed write; nothing is written after it */
    bool terminal;  /* control characters of untrusted text are escaped */
    bool line_open; /* the last byte written is not a newline */
    size_t n;
    char buffer[OUT_BYTES];
} cli_out;

void out_open(cli_out *o, int fd);
void out_write(cli_out *o, const void *bytes, size_t n);
void out_text(cli_out *o, const char *terminated);
/* Output longer than 4 KiB is truncated. */
void out_printf(cli_out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
void out_spaces(cli_out *o, size_t n);
/* Untrusted text: the exact bytes to a pipe or file, control characters escaped on a terminal. */
void out_shown(cli_out *o, const char *text, size_t n);
/* Untrusted text in quotes on one line, always escaped. */
void out_quoted(cli_out *o, const char *text, size_t n);
/* Writes the buffer. False: the output is closed or a write failed, so more output is useless. */
bool out_flush(cli_out *o);

/* Writes a JSON document of json_writer.h and a newline, and frees `document`. DEL and C1 controls
 * are written as \u escapes: JSON allows them raw, but some terminals obey them. Returns an exit
 * code; the error is reported unless it is 0. */
int out_json(cli_out *o, strbuf *document);
/* Writes the document so far, to limit the memory of a long one. The last byte stays in `document`:
 * the JSON writer decides by it whether a comma is due. */
void out_json_part(cli_out *o, strbuf *document);

/* ---- stderr ---- */

/* "mote: sentence [code]". Returns exit_code, so a command can end with `return msg_fail(...)`. */
int msg_fail(int exit_code, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* An error of the library: its status name is the code, its status determines the exit code. */
int msg_error(const mote_error *err);
/* Wrong usage: exit code 2. */
int msg_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "out of memory: WHAT", exit code 4. */
int msg_no_memory(const char *what);

/* A note; -q suppresses it. */
void msg_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The reply to a command of the interactive chat; -q does not suppress it. */
void msg_reply(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A note that only -v shows. */
void msg_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
