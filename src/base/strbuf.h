/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strbuf.h - a growing string buffer.
 *
 * Failure is sticky: after a failed allocation nothing is appended any more. A writer appends
 * without checks and calls strbuf_check once at the end.
 */
#ifndef MOTE_BASE_STRBUF_H
#define MOTE_BASE_STRBUF_H

#include "base/err.h"
#include "base/str.h"

/* Zero-initialised: empty. */
typedef struct strbuf {
    char *p; /* [room], of which n are used; not zero-terminated */
    size_t n;
    size_t room;
    bool failed;
} strbuf;

void strbuf_fini(strbuf *b);

void strbuf_put(strbuf *b, str text);
void strbuf_text(strbuf *b, const char *terminated);
void strbuf_byte(strbuf *b, char byte);

/* Makes room for `bytes` more, so that following appends do not move the text. */
bool strbuf_reserve(strbuf *b, size_t bytes);

static inline str strbuf_view(const strbuf *b)
{
    return (str){b->n > 0 ? b->p : "", b->n};
}

/* MOTE_E_MEMORY if any append has failed. */
mote_status strbuf_check(const strbuf *b, mote_error *err);

#endif
