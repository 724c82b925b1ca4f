/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_messages.h - what the program tells its user, on stderr.
 *
 * An error is one sentence and a code in brackets. Control characters in it,
 * say from a file's name, are escaped. A progress line on the screen is wiped
 * before anything is said.
 */
#ifndef MOTE_CLI_TERM_OUTPUT_MESSAGES_H
#define MOTE_CLI_TERM_OUTPUT_MESSAGES_H

#include "base/err.h"

/* "mote: sentence [code]"; returns exit_code, so that a command ends with `return msg_fail(...)`.
 */
int msg_fail(int exit_code, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The library's error, its name as the code, the exit code that belongs to it. */
int msg_error(const mote_error *err);

/* Wrong usage: exit code 2. */
int msg_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A remark; -q silences it. */
void msg_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What somebody has just asked for, as a remark that -q does not silence. */
void msg_reply(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A remark for -v. */
void msg_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
