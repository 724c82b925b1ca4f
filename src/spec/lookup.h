/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lookup.h - suffix lookup: where did the last tokens of a sequence occur before?
 *
 * Three hash tables remember the latest place of the last 2, 4 and 8 tokens. A hit is compared with
 * the tokens themselves, so collisions and cut sequences cost a comparison and nothing else. Work
 * per token and memory have fixed limits.
 *
 * While the sequence repeats an earlier part token by token, the copy is followed without a search.
 * Where it deviates (an edit), the search also looks near the place where the copy would continue.
 */
#ifndef MOTE_SPEC_LOOKUP_H
#define MOTE_SPEC_LOOKUP_H

#include <mote.h>

enum { LOOKUP_KEYS = 3 };

typedef struct lookup {
    uint32_t *places[LOOKUP_KEYS]; /* [mask + 1], number of tokens before the place; 0: none */
    uint32_t mask;
    size_t indexed;  /* places below this are in the tables */
    size_t followed; /* tokens compared with the copy */
    /* The copy: token i equals token i - distance, for the last `match` tokens. */
    size_t distance, match;
    bool resumed; /* the copy was found near the end of an earlier one */
    /* Where an earlier copy ended: its distance, and the token count up to which it is searched. */
    size_t old_distance, resume_until;
} lookup;

/* `room`: tokens that the sequence can have. */
size_t lookup_bytes(size_t room);
mote_status lookup_init(lookup *l, size_t room, mote_error *err);
void lookup_fini(lookup *l);

typedef struct lookup_match {
    size_t n;      /* tokens found; 0: no match */
    size_t length; /* tokens that match before the place */
    bool resumed;
} lookup_match;

/* Writes up to `most` tokens that followed the longest earlier occurrence of the end of `tokens`.
 * The sequence may have lost tokens at its end since the last call. */
lookup_match lookup_find(lookup *l, const mote_token *tokens, size_t n, mote_token *draft,
                         size_t most);

#endif
