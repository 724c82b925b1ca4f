/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - where the lines a person typed are kept: $MOTE_CACHE/history, else
 * $XDG_CACHE_HOME/mote/history, else ~/.cache/mote/history. Nobody else may read it.
 */
#ifndef MOTE_CLI_TERM_HISTORY_H
#define MOTE_CLI_TERM_HISTORY_H

#include <stdbool.h>
#include <stdio.h>

enum { HISTORY_LINES = 1000 };

/* Its name, for mem_free; the folders are made. NULL: none is to be kept (MOTE_NOHISTORY), or
 * none can be. */
char *history_path(void);

/* A new file beside `path`, for its owner only; *temporary is its name, for history_commit. NULL:
 * it cannot be. */
FILE *history_create(const char *path, char **temporary);
/* Closes it and, if all was `written`, gives it the name `path`. Frees `temporary`. */
void history_commit(FILE *file, char *temporary, const char *path, bool written);

#endif
