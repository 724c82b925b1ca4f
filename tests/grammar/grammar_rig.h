/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_rig.h - a small vocabulary and helpers for tests of grammars.
 *
 * All 256 single bytes are tokens, so every text can be generated. Other tokens are pieces of JSON,
 * words in several scripts, tags, and parts of multi-byte characters.
 */
#ifndef MOTE_TESTS_GRAMMAR_GRAMMAR_RIG_H
#define MOTE_TESTS_GRAMMAR_GRAMMAR_RIG_H

#include "grammar/rules/dfa.h"
#include "grammar/grammar.h"

enum { RIG_FUEL = 20000000 };

/* The vocabulary of all tests, created on first use. */
const token_trie *rig_vocab(void);
uint32_t rig_end_token(void);
/* A control token and one without text. */
uint32_t rig_control_token(void);

/* Takes ownership of the rules. Fails the test if they are no grammar. */
grammar *rig_grammar(rules *r, uint32_t start);

/* Does the grammar accept the text? */
bool rig_fits(grammar *g, const char *text);

/* Splits the text into tokens, which the seed selects, and compares the mask before each token with
 * grammar_allows of every token. Fails the test if they differ. */
void rig_check_masks(grammar *g, str text, uint64_t seed);

/* A text of the grammar: a random walk over allowed tokens; n bytes in out. False: it did not end
 * within `room` bytes. */
bool rig_random_text(grammar *g, uint64_t seed, char *out, size_t room, size_t *n);

#endif
