/* SPDX-License-Identifier: Apache-2.0 */
/* stops.h - text that ends before the first of some strings, however it is cut into pieces. */
#ifndef MOTE_CHAT_TURN_STOPS_H
#define MOTE_CHAT_TURN_STOPS_H

#include "base/strbuf.h"

typedef struct chat_stops {
    const char *const *strings; /* [n], terminated, not empty */
    size_t n;
    strbuf held; /* the end of the text, as long as it may be the beginning of one */
    bool hit;
    uint32_t which; /* if hit */
} chat_stops;

/* Adds a piece. What is now certain stands at the beginning of `held`, *certain bytes of it:
 * chat_stops_take removes them. After a hit that is all before the string. */
void chat_stops_add(chat_stops *s, str piece, size_t *certain);
void chat_stops_take(chat_stops *s, size_t bytes);

#endif
