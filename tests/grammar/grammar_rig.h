/* SPDX-License-Identifier: Apache-2.0 */
/*
 * grammar_rig.h - a small vocabulary, and the questions tests ask of a grammar.
 *
 * All 256 bytes are tokens, so nothing is impossible to write; beside them
 * stand pieces of JSON, of words in several scripts, of tags, and tokens that
 * cut a character in two.
 */
#ifndef MOTE_TESTS_GRAMMAR_GRAMMAR_RIG_H
#define MOTE_TESTS_GRAMMAR_GRAMMAR_RIG_H

#include "grammar/rules/dfa.h"
#include "grammar/grammar.h"

enum { RIG_FUEL = 20000000 };

/* The vocabulary of all tests, made once. */
const token_trie *rig_vocab(void);
uint32_t rig_end_token(void);
/* A control token and one without text. */
uint32_t rig_control_token(void);

/* Takes the rules; the start is `start`. Fails the test if there is no grammar. */
grammar *rig_grammar(rules *r, uint32_t start);

/* Does the grammar describe the text? */
bool rig_fits(grammar *g, const char *text);

/* At every place of a text, in whichever tokens it is cut: is the mask exactly the tokens that
 * one by one turn out to be allowed? Fails the test if not. */
void rig_check_masks(grammar *g, str text, uint64_t seed);

/* A text the grammar describes, by choosing among the allowed tokens; n bytes in out. False: it
 * did not end within `room` bytes. */
bool rig_random_text(grammar *g, uint64_t seed, char *out, size_t room, size_t *n);

#endif
