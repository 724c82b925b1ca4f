/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfa.h - sets of strings, as deterministic automata over code points.
 *
 * Patterns, formats, lengths, lists of words and the ranges of numbers are all
 * sets of strings, so whatever a schema says about one string is a chain of the
 * operations here: both, one but not the other, either. Every operation pays
 * with fuel, which bounds the work a stranger's text can cause; the result
 * never depends on the speed of the machine.
 */
#ifndef MOTE_GRAMMAR_RULES_DFA_H
#define MOTE_GRAMMAR_RULES_DFA_H

#include "grammar/rules/rules.h"
#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum { DFA_LAST = 0x10FFFF, DFA_MAX_STATES = 60000, DFA_MAX_RANGES = 400000 };

/* Steps of work that are left. About 100 million are a second. */
typedef struct dfa_fuel {
    uint64_t left;
} dfa_fuel;

typedef struct dfa_range {
    uint32_t lo, hi, to;
} dfa_range;

/* All zero is the empty set. Every state leads to one that accepts. */
typedef struct dfa {
    uint32_t n; /* states; the first is the start */
    uint32_t n_ranges;
    uint32_t *first;   /* [n + 1], into ranges */
    dfa_range *ranges; /* [n_ranges]; those of a state ascend and do not overlap */
    bool *accepts;     /* [n] */
    uint32_t states_room, first_room, char_class_room;
} dfa;

void dfa_fini(dfa *c);

static inline bool dfa_empty(const dfa *c)
{
    return c->n == 0;
}

typedef enum dfa_op {
    DFA_BOTH,
    DFA_BUT_NOT, /* in the first and not in the second */
    DFA_EITHER
} dfa_op;

/* All of these write *out, which need not be initialised, and leave it empty on failure.
 * MOTE_E_ARG: out of fuel or over a limit. */
mote_status dfa_combine(dfa *out, const dfa *a, dfa_op op, const dfa *b, dfa_fuel *fuel,
                        mote_error *err);
/* Replaces *a by the combination. */
mote_status dfa_apply(dfa *a, dfa_op op, const dfa *b, dfa_fuel *fuel, mote_error *err);
/* All strings of min to max code points; RULES_NO_LIMIT is no limit. */
mote_status dfa_length(dfa *out, uint32_t min, uint32_t max, dfa_fuel *fuel, mote_error *err);
/* The n words, which are well-formed UTF-8. */
mote_status dfa_words(dfa *out, const str *words, size_t n, dfa_fuel *fuel, mote_error *err);

/* ---- making one by hand: states in order, each with its ranges in order ---- */

/* Starts the next state. */
mote_status dfa_add_state(dfa *c, bool accepts, mote_error *err);
/* A range of the latest state. */
mote_status dfa_add_range(dfa *c, uint32_t lo, uint32_t hi, uint32_t to, mote_error *err);
/* Checks nothing but takes away what leads nowhere. */
mote_status dfa_seal(dfa *c, dfa_fuel *fuel, mote_error *err);

/* ---- reading it ---- */

/* Where c leads from a state; RULES_NONE: nowhere. */
uint32_t dfa_step(const dfa *c, uint32_t state, uint32_t code_point);
bool dfa_has(const dfa *c, str text);
/* Are there only so many strings in it? True only for states that stand in the order they are
 * passed in, as those of words and what is made of them do. */
bool dfa_finite(const dfa *c);
/* all[state]: every string is accepted from there. all is [c->n]. */
void dfa_find_all(const dfa *c, bool *all);
/* The code point at *at, which moves on; false: the text is not well-formed there. */
bool dfa_decode(str text, size_t *at, uint32_t *code_point);
/* Writes a code point in UTF-8; returns its length. */
size_t dfa_encode(unsigned char out[4], uint32_t code_point);

/* ---- as text of a grammar (chars_rules.c) ---- */

/* The strings as they stand, in UTF-8. */
mote_status dfa_put_raw(rules *r, const dfa *c, uint32_t from, uint32_t to, mote_error *err);
/* What stands between the quotes of a JSON string: characters that must be escaped in
 * their shortest form, all others as they are. */
mote_status dfa_put_json(rules *r, const dfa *c, uint32_t from, uint32_t to, mote_error *err);

typedef struct char_range {
    uint32_t lo, hi;
} char_range;

/* All zero is an empty list. */
typedef struct char_class {
    char_range *all; /* [n] */
    uint32_t n, room;
} char_class;

void char_class_fini(char_class *x);
mote_status char_class_add(char_class *x, uint32_t lo, uint32_t hi, mote_error *err);
/* Ends a class: puts its ranges, those from `from` on, in order and merges them; if negated, the
 * characters that are in none of them take their place. */
mote_status char_class_settle(char_class *x, uint32_t from, bool negated, mote_error *err);

/* One digit more at the end of *value; false: c is none. */
static inline bool hex_add(uint32_t *value, unsigned char c)
{
    if (c >= '0' && c <= '9')
        *value = *value * 16 + (c - '0');
    else if ((c | 32) >= 'a' && (c | 32) <= 'f')
        *value = *value * 16 + (uint32_t)((c | 32) - 'a' + 10);
    else
        return false;
    return true;
}

/* Exactly n digits of the text, from byte `at` on. */
static inline bool hex_read(str text, size_t at, size_t n, uint32_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++)
        if (at + i >= text.n || !hex_add(value, (unsigned char)text.p[at + i]))
            return false;
    return true;
}

typedef struct pairs_item {
    uint32_t a, b;
} pairs_item;

/* All zero is an empty one. */
typedef struct pairs {
    pairs_item *items; /* [n] */
    uint32_t n, room;
    uint32_t *slots; /* [mask + 1], number + 1 of a pair, 0: free; at most half full */
    uint32_t mask;
} pairs;

void pairs_fini(pairs *p);
/* The number of a pair, new or known; UINT32_MAX: no memory. */
uint32_t pairs_number(pairs *p, uint32_t a, uint32_t b);

#endif
