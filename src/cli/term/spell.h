/* SPDX-License-Identifier: Apache-2.0 */
/* spell.h - finds the word somebody probably meant. */
#ifndef MOTE_CLI_TERM_SPELL_H
#define MOTE_CLI_TERM_SPELL_H

#include <stddef.h>

/* A fresh search is {.word = what was typed}. */
typedef struct spell {
    const char *word;
    const char *best; /* NULL: nothing is near */
    size_t distance;  /* of best */
} spell;

/* Considers one candidate, which must outlive the search. */
void spell_offer(spell *s, const char *candidate);

#endif
