/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chars.h - sets of strings, as deterministic automata over code points.
 *
 * Patterns, formats, lengths, lists of words and the ranges of numbers are all
 * sets of strings, so whatever a schema says about one string is a chain of the
 * operations here: both, one but not the other, either. Every operation pays
 * with fuel, which bounds the work a stranger's text can cause; the result
 * never depends on the speed of the machine.
 */
#ifndef MOTE_AUTOMATON_CHARS_H
#define MOTE_AUTOMATON_CHARS_H

#include "automaton/rules.h"

enum { CHARS_LAST = 0x10FFFF, CHARS_MAX_STATES = 60000, CHARS_MAX_RANGES = 400000 };

/* Steps of work that are left. About 100 million are a second. */
typedef struct chars_fuel {
    uint64_t left;
} chars_fuel;

typedef struct chars_range {
    uint32_t lo, hi, to;
} chars_range;

/* All zero is the empty set. Every state leads to one that accepts. */
typedef struct chars {
    uint32_t n; /* states; the first is the start */
    uint32_t n_ranges;
    uint32_t *first;     /* [n + 1], into ranges */
    chars_range *ranges; /* [n_ranges]; those of a state ascend and do not overlap */
    bool *accepts;       /* [n] */
    uint32_t states_room, first_room, ranges_room;
} chars;

void chars_fini(chars *c);

static inline bool chars_empty(const chars *c)
{
    return c->n == 0;
}

typedef enum chars_op {
    CHARS_BOTH,
    CHARS_BUT_NOT, /* in the first and not in the second */
    CHARS_EITHER
} chars_op;

/* All of these write *out, which need not be initialised, and leave it empty on failure.
 * MOTE_E_ARG: out of fuel or over a limit. */
mote_status chars_combine(chars *out, const chars *a, chars_op op, const chars *b, chars_fuel *fuel,
                          mote_error *err);
/* Replaces *a by the combination. */
mote_status chars_apply(chars *a, chars_op op, const chars *b, chars_fuel *fuel, mote_error *err);
/* All strings of min to max code points; RULES_NO_LIMIT is no limit. */
mote_status chars_length(chars *out, uint32_t min, uint32_t max, chars_fuel *fuel, mote_error *err);
/* The n words, which are well-formed UTF-8. */
mote_status chars_words(chars *out, const str *words, size_t n, chars_fuel *fuel, mote_error *err);

/* ---- making one by hand: states in order, each with its ranges in order ---- */

/* Starts the next state. */
mote_status chars_add_state(chars *c, bool accepts, mote_error *err);
/* A range of the latest state. */
mote_status chars_add_range(chars *c, uint32_t lo, uint32_t hi, uint32_t to, mote_error *err);
/* Checks nothing but takes away what leads nowhere. */
mote_status chars_seal(chars *c, chars_fuel *fuel, mote_error *err);

/* ---- reading it ---- */

/* Where c leads from a state; RULES_NONE: nowhere. */
uint32_t chars_step(const chars *c, uint32_t state, uint32_t code_point);
bool chars_has(const chars *c, str text);
/* Are there only so many strings in it? True only for states that stand in the order they are
 * passed in, as those of words and what is made of them do. */
bool chars_finite(const chars *c);
/* all[state]: every string is accepted from there. all is [c->n]. */
void chars_find_all(const chars *c, bool *all);
/* The code point at *at, which moves on; false: the text is not well-formed there. */
bool chars_decode(str text, size_t *at, uint32_t *code_point);
/* Writes a code point in UTF-8; returns its length. */
size_t chars_encode(unsigned char out[4], uint32_t code_point);

/* ---- as text of a grammar (chars_rules.c) ---- */

/* The strings as they stand, in UTF-8. */
mote_status chars_put_raw(rules *r, const chars *c, uint32_t from, uint32_t to, mote_error *err);
/* What stands between the quotes of a JSON string: characters that must be escaped in
 * their shortest form, all others as they are. */
mote_status chars_put_json(rules *r, const chars *c, uint32_t from, uint32_t to, mote_error *err);

#endif
