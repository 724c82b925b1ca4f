/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf.h - grammars written as text: rules over characters that call each other.
 *
 *     root   ::= "{" ws pair ("," ws pair)* "}"     # one answer
 *     pair   ::= name ":" ws [0-9]{1,6}
 *     name   ::= [a-z_] [a-z0-9_]*
 *     ws     ::= | " " | "\n" [ \t]{0,20}
 *
 * The answer is a text of the rule `root`. Names are of letters, digits, '-' and '_'. Behind
 * `::=` stand alternatives with '|' between them, each a sequence of parts: texts in quotes,
 * classes in brackets ([a-z], [^"\\]), '.' for any character, names of rules, groups in
 * parentheses; behind a part how often it comes: '*', '+', '?', {n}, {n,} or {n,m}. A comment
 * runs from '#' to the end of its line. A definition begins on a line of its own; until
 * the next one, lines go on.
 *
 * Escapes, in texts and classes: \n \r \t, \xHH, \uHHHH and \UHHHHHHHH for a code point, and a
 * backslash before any sign that is no letter and no digit for the sign itself.
 *
 * A rule that can come to itself again before anything is read (left recursion) is refused by
 * name, for it describes no way to go on. References to tokens, lookahead and expressions
 * between slashes, which other readers know, are refused as unsupported.
 */
#ifndef MOTE_GRAMMAR_RULES_GBNF_H
#define MOTE_GRAMMAR_RULES_GBNF_H

#include "grammar/rules/rules.h"

enum {
    GBNF_MAX_BYTES = 262144,
    GBNF_MAX_RULES = 8192,
    GBNF_MAX_PARTS = 65536,    /* texts, classes, names, groups and sequences */
    GBNF_MAX_DEPTH = 64,       /* groups inside each other */
    GBNF_MAX_REPEAT = 1000000, /* of one part */
    GBNF_MAX_NAME = 64         /* bytes */
};

/*
 * Adds the rules of the text; *rule is the one of `root`. MOTE_E_ARG says what is wrong in which
 * line and column and what was expected there, MOTE_E_UNSUPPORTED what is not supported.
 * Whether anything at all satisfies it, rules_finish finds out.
 */
mote_status gbnf_put(rules *r, str text, uint32_t *rule, mote_error *err);

#endif
