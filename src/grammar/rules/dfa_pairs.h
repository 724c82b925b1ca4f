/* SPDX-License-Identifier: Apache-2.0 */
/* dfa_pairs.h - numbers pairs of 32-bit values in the order they first come. */
#ifndef MOTE_GRAMMAR_RULES_DFA_PAIRS_H
#define MOTE_GRAMMAR_RULES_DFA_PAIRS_H

#include <stdint.h>

typedef struct pairs_item {
    uint32_t a, b;
} pairs_item;

/* All zero is an empty one. */
typedef struct pairs {
    pairs_item *items; /* [n] */
    uint32_t n, room;
    uint32_t *slots; /* [mask + 1], number + 1 of a pair, 0: free; at most half full */
    uint32_t mask;
} pairs;

void pairs_fini(pairs *p);
/* The number of a pair, new or known; UINT32_MAX: no memory. */
uint32_t pairs_number(pairs *p, uint32_t a, uint32_t b);

#endif
