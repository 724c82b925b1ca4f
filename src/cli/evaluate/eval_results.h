/* SPDX-License-Identifier: Apache-2.0 */
/*
 * eval_results.h - the file of `mote eval --out`: a first line that says what was measured, then one
 * line per task.
 *
 * Every line is on the disk before the next task starts, so an interrupted run continues where it
 * was. A line that was cut by a crash is removed. The file is locked: a second run with it is refused. A file of another model, task file or setting is
 * refused, because a mixture of both would be no result. So is a file that has no results.
 */
#ifndef MOTE_CLI_EVALUATE_EVAL_RESULTS_H
#define MOTE_CLI_EVALUATE_EVAL_RESULTS_H

#include "base/str.h"

#include <stdint.h>

typedef struct eval_done {
    char *id; /* zero-terminated */
    bool pass;
} eval_done;

typedef struct eval_results {
    const char *path; /* NULL: no file */
    int fd;
    eval_done *done; /* [n], as in the file */
    uint32_t n, room;
    uint32_t next; /* where the next search starts */
} eval_results;

/* Opens or creates the file; `head` is its first line, without a line break. Path NULL: keeps no
 * results. Returns an exit code. */
int eval_results_open(eval_results *r, const char *path, str head);
void eval_results_close(eval_results *r);

/* True if the task was done before; then *pass is its result. */
bool eval_results_find(eval_results *r, str id, bool *pass);
/* Appends a line, without a line break, and writes it to the disk. Returns an exit code. */
int eval_results_add(eval_results *r, str line);

/* ---- what was measured ---- */

/* SHA-256 of the size and of 64 pieces of every file of a model, in hex digits: two files of the same
 * size with other weights differ, and it takes no time. Returns an exit code. */
enum { EVAL_IDENTITY_BYTES = 65 };
int eval_model_identity(const char *path, char out[EVAL_IDENTITY_BYTES]);
/* SHA-256 of a text. */
int eval_text_identity(str text, char out[EVAL_IDENTITY_BYTES]);

#endif
