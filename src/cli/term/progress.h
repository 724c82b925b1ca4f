/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - one line on stderr that says how far a long piece of work is.
 *
 *   reading  ██████████░░░░░░░░░░░░░░  1 824 / 3 070 tokens   412 t/s   3 s left
 *
 * Drawn only on a terminal, only when the work has taken a moment, at most ten
 * times a second, and wiped when it ends: the scroll-back keeps no trace of it.
 */
#ifndef MOTE_CLI_TERM_PROGRESS_H
#define MOTE_CLI_TERM_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum progress_unit { PROGRESS_BYTES, PROGRESS_TOKENS } progress_unit;

typedef struct progress {
    const char *label;
    progress_unit unit;
    uint64_t total;
    double started; /* os_now */
    double drawn;   /* when last; 0: not yet */
} progress;

void progress_begin(progress *p, const char *label, progress_unit unit, uint64_t total);
void progress_at(progress *p, uint64_t done);
void progress_end(progress *p);

/* A short line of the caller's own in its place. */
void progress_show(const char *line);

/* Clears the line if one is drawn, so that something else can be printed. */
void progress_wipe(void);

/* The line itself, for `seconds` of work, at most `columns` characters wide:
 * what there is no room for is left out, from the right. Terminated. */
void progress_line(char *line, size_t room, const progress *p, uint64_t done, double seconds,
                   unsigned columns, bool utf8);

#endif
