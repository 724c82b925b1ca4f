/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stop_text.h - ends a stream of text at the first of several words (--stop).
 *
 * A stop word may arrive in pieces, so text that could be its beginning is held
 * back until it is certain. The stop word itself is never passed on.
 */
#ifndef MOTE_CLI_RUN_STOP_TEXT_H
#define MOTE_CLI_RUN_STOP_TEXT_H

#include "base/err.h"
#include "cli/args/command.h"

typedef struct stop_text {
    const flag_list *words;
    char *held; /* [room]: the held text, then the piece just added */
    size_t n_held;
    size_t room;
} stop_text;

enum { STOP_WORD_MAX = 1024 };

/* `words` must outlive it; none of them is empty. */
mote_status stop_text_init(stop_text *s, const flag_list *words, mote_error *err);
void stop_text_fini(stop_text *s);

/* Adds a piece of at most MOTE_PIECE_BYTES and returns how much text, from `held` on, may be
 * shown now; stop_text_shown drops it. *stopped: a stop word follows it, the stream is over. */
size_t stop_text_add(stop_text *s, const char *piece, size_t n, bool *stopped);
void stop_text_shown(stop_text *s, size_t n);

#endif
