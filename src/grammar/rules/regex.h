/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.h - a regular expression as the set of strings it finds something in.
 *
 * The dialect is ECMAScript's as far as it is regular: classes, groups,
 * alternatives, quantifiers (greedy or not makes no difference for a set),
 * anchors anywhere, escapes. What is not regular, or depends on Unicode's
 * properties, is refused by name: references to groups, lookaround, word
 * borders, \p. Letters, digits and spaces of \w, \d and \s are those that
 * ECMAScript and Python agree on.
 */
#ifndef MOTE_GRAMMAR_RULES_REGEX_H
#define MOTE_GRAMMAR_RULES_REGEX_H

#include "grammar/rules/dfa.h"

enum {
    REGEX_MAX_BYTES = 16384,
    REGEX_MAX_DEPTH = 64,    /* groups inside each other */
    REGEX_MAX_NODES = 40000, /* after repetitions are written out */
    REGEX_MAX_REPEAT = 10000
};

typedef enum regex_mode {
    REGEX_SEARCH, /* the expression may match anywhere in the string, as JSON Schema has it */
    REGEX_WHOLE   /* it must match all of it */
} regex_mode;

/* MOTE_E_ARG says what in the pattern is wrong, MOTE_E_UNSUPPORTED what is not regular. */
mote_status regex_compile(dfa *out, str pattern, regex_mode mode, dfa_fuel *fuel, mote_error *err);

#endif
