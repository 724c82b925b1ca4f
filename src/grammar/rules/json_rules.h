/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_rules.h - the parts of JSON that hold whatever a schema says.
 *
 * White space is bounded, so that nobody can write blanks for ever: none, one
 * space, or one line break with its indentation. It may stand after an opening
 * bracket, after a comma or colon, and before a closing bracket. Numbers have at
 * most JSON_RULES_DIGITS digits before and after the point and an exponent below
 * 300; values of any shape nest at most JSON_RULES_DEPTH deep.
 *
 * All return a rule, made once per grammar.
 */
#ifndef MOTE_GRAMMAR_RULES_JSON_RULES_H
#define MOTE_GRAMMAR_RULES_JSON_RULES_H

#include "grammar/rules/rules.h"

enum {
    JSON_RULES_DIGITS = 40,
    JSON_RULES_DEPTH = 32,
    JSON_RULES_INDENT = 64, /* spaces after a line break */
    JSON_RULES_TABS = 16    /* or tabs */
};

/* One character between the quotes of a string, in any spelling JSON has for it. */
uint32_t json_rules_char(rules *r);
/* A string with its quotes. */
uint32_t json_rules_string(rules *r);
/* White space, which may be nothing. */
uint32_t json_rules_space(rules *r);
uint32_t json_rules_integer(rules *r);
uint32_t json_rules_number(rules *r);
/* Any value at all. */
uint32_t json_rules_any(rules *r);
uint32_t json_rules_any_array(rules *r);
uint32_t json_rules_any_object(rules *r);

/* A string of min to max characters, with its quotes. */
void json_rules_put_string(rules *r, uint32_t from, uint32_t min, uint32_t max, uint32_t to);
/* `first`, white space; and what comes after it. */
uint32_t json_rules_open(rules *r, uint32_t from, char first);
/* White space, `last`. */
void json_rules_close(rules *r, uint32_t from, char last, uint32_t to);

#endif
