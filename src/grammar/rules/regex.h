/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.h - compiles a regular expression to a DFA.
 *
 * The syntax is the regular subset of ECMAScript: classes, groups, alternatives, quantifiers
 * (greedy and lazy match the same set of strings), anchors anywhere, escapes. Not supported, and
 * rejected by name: backreferences, lookaround, word boundaries (\b), Unicode properties (\p).
 * \w, \d and \s match the characters on which ECMAScript and Python agree.
 */
#ifndef MOTE_GRAMMAR_RULES_REGEX_H
#define MOTE_GRAMMAR_RULES_REGEX_H

#include "grammar/rules/dfa.h"

enum {
    REGEX_MAX_BYTES = 16384,
    REGEX_MAX_DEPTH = 64,    /* nested groups */
    REGEX_MAX_NODES = 40000, /* NFA states, with repetitions unrolled */
    REGEX_MAX_REPEAT = 10000
};

typedef enum regex_mode {
    REGEX_SEARCH, /* unanchored: the expression may match any part of the string (JSON Schema) */
    REGEX_WHOLE   /* the expression must match the whole string */
} regex_mode;

/* MOTE_E_ARG: invalid pattern, or a limit was exceeded. MOTE_E_UNSUPPORTED: not regular. */
mote_status regex_compile(dfa *out, str pattern, regex_mode mode, dfa_fuel *fuel, mote_error *err);

#endif
