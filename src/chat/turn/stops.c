/* SPDX-License-Identifier: Apache-2.0 */
/* stops.c - see stops.h. */
#include "chat/turn/stops.h"

/* Where the text from `at` on is a whole string: which one; else s->n. Of two, the first named. */
static size_t whole_at(const chat_stops *s, size_t at)
{
    size_t i = 0;
    for (; i < s->n; i++) {
        const size_t n = strlen(s->strings[i]);
        if (s->held.n - at >= n && memcmp(s->held.p + at, s->strings[i], n) == 0)
            break;
    }
    return i;
}

/* All that is left from `at` on is the beginning of a string. */
static bool begins_at(const chat_stops *s, size_t at)
{
    const size_t left = s->held.n - at;
    for (size_t i = 0; i < s->n; i++)
        if (left < strlen(s->strings[i]) && memcmp(s->held.p + at, s->strings[i], left) == 0)
            return true;
    return false;
}

void chat_stops_add(chat_stops *s, str piece, size_t *certain)
{
    *certain = 0;
    if (s->hit)
        return;
    strbuf_put(&s->held, piece);
    for (; *certain < s->held.n; ++*certain) {
        const size_t which = whole_at(s, *certain);
        if (which < s->n) {
            s->hit = true;
            s->which = (uint32_t)which;
            return;
        }
        if (begins_at(s, *certain))
            return;
    }
}

void chat_stops_take(chat_stops *s, size_t bytes)
{
    s->held.n -= bytes;
    if (bytes > 0 && s->held.n > 0)
        memmove(s->held.p, s->held.p + bytes, s->held.n);
}
