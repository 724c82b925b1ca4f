/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strbuf.h - a text that grows at its end.
 *
 * Failure is sticky: once memory is refused, nothing more is added and
 * strbuf_check says so. So a writer adds piece after piece and asks once.
 */
#ifndef MOTE_BASE_STRBUF_H
#define MOTE_BASE_STRBUF_H

#include "base/err.h"
#include "base/str.h"

/* All zero is an empty one. */
typedef struct strbuf {
    char *p; /* [room], the first n are text; no terminating zero */
    size_t n;
    size_t room;
    bool failed;
} strbuf;

void strbuf_fini(strbuf *b);

void strbuf_put(strbuf *b, str text);
void strbuf_text(strbuf *b, const char *terminated);
void strbuf_byte(strbuf *b, char byte);

/* Room for `bytes` more, so that the next puts do not move the text. */
bool strbuf_reserve(strbuf *b, size_t bytes);

static inline str strbuf_view(const strbuf *b)
{
    return (str){b->n > 0 ? b->p : "", b->n};
}

/* MOTE_E_MEMORY if a put failed since the buffer was fresh. */
mote_status strbuf_check(const strbuf *b, mote_error *err);

#endif
