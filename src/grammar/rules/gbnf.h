/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf.h - grammars in GBNF, the text format of llama.cpp, to byte rules.
 *
 *     root   ::= "{" ws pair ("," ws pair)* "}"     # one answer
 *     pair   ::= name ":" ws [0-9]{1,6}
 *     name   ::= [a-z_] [a-z0-9_]*
 *     ws     ::= | " " | "\n" [ \t]{0,20}
 *
 * The output matches the rule `root`. Rule names consist of letters, digits, '-' and '_'. A rule
 * body has alternatives separated by '|'; each is a sequence of elements: strings in double quotes,
 * character classes ([a-z], [^"\\]), '.' for any character, rule names, groups in parentheses. An
 * element may have a quantifier: '*', '+', '?', {n}, {n,} or {n,m}. A comment starts with '#' and
 * ends with the line. A definition starts on a new line and continues until the next definition.
 *
 * Escapes in strings and classes: \n \r \t, \xHH, \uHHHH and \UHHHHHHHH for a code point, and a
 * backslash before any ASCII punctuation character.
 *
 * Left recursion (a rule that can reach itself before it reads a character) is rejected by name.
 * Token references, lookahead and regular expressions between slashes, which other GBNF
 * implementations have, are rejected as unsupported.
 */
#ifndef MOTE_GRAMMAR_RULES_GBNF_H
#define MOTE_GRAMMAR_RULES_GBNF_H

#include "grammar/rules/rules.h"

enum {
    GBNF_MAX_BYTES = 262144,
    GBNF_MAX_RULES = 8192,
    GBNF_MAX_PARTS = 65536,    /* nodes of the syntax tree */
    GBNF_MAX_DEPTH = 64,       /* nested groups */
    GBNF_MAX_REPEAT = 1000000, /* of one element */
    GBNF_MAX_NAME = 64         /* bytes */
};

/*
 * Adds the rules of the text; *rule is `root`. MOTE_E_ARG: syntax error, with line and column, or
 * left recursion. MOTE_E_UNSUPPORTED: an unsupported element. rules_finish reports a grammar that
 * matches no text.
 */
mote_status gbnf_put(rules *r, str text, uint32_t *rule, mote_error *err);

#endif
