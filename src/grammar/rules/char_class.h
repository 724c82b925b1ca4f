/* SPDX-License-Identifier: Apache-2.0 */
/*
 * char_class.h - classes of characters, as lists of ranges of code points.
 *
 * Many classes share one list: whoever adds to it remembers where its own begins.
 */
#ifndef MOTE_GRAMMAR_RULES_CHAR_CLASS_H
#define MOTE_GRAMMAR_RULES_CHAR_CLASS_H

#include "base/err.h"

#include <stdint.h>

typedef struct range {
    uint32_t lo, hi;
} range;

/* All zero is an empty list. */
typedef struct char_class {
    range *all; /* [n] */
    uint32_t n, room;
} char_class;

void char_class_fini(char_class *x);
mote_status char_class_add(char_class *x, uint32_t lo, uint32_t hi, mote_error *err);
/* Ends a class: puts its ranges, those from `from` on, in order and merges them; if negated, the
 * characters that are in none of them take their place. */
mote_status char_class_settle(char_class *x, uint32_t from, bool negated, mote_error *err);

#endif
