/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfa.h - deterministic finite automata (DFA) over Unicode code points.
 *
 * Patterns, formats, lengths, lists of words and numeric ranges are all regular sets of strings.
 * Everything a schema says about one string or number is a chain of intersections, differences and
 * unions of DFAs. Each operation spends fuel, which bounds the work that an untrusted schema can
 * cause. Fuel counts steps, not time, so the result is the same on every machine.
 *
 * Also here, because the regex and GBNF parsers share them: character classes (char_class.c),
 * hexadecimal escapes, and a table that numbers pairs of states.
 */
#ifndef MOTE_GRAMMAR_RULES_DFA_H
#define MOTE_GRAMMAR_RULES_DFA_H

#include "grammar/rules/rules.h"
#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum { DFA_LAST = 0x10FFFF, DFA_MAX_STATES = 60000, DFA_MAX_RANGES = 400000 };

/* Steps of work left. About 100 million steps take a second. */
typedef struct dfa_fuel {
    uint64_t left;
} dfa_fuel;

typedef struct dfa_range {
    uint32_t lo, hi, to;
} dfa_range;

/* All zero is the empty set. After dfa_trim an accepting state can be reached from every state. */
typedef struct dfa {
    uint32_t n; /* states; state 0 is the start */
    uint32_t n_ranges;
    uint32_t *first;   /* [n + 1], index into ranges */
    dfa_range *ranges; /* [n_ranges], transitions; of one state: ascending, disjoint */
    bool *accepts;     /* [n] */
    uint32_t states_room, first_room, ranges_room;
} dfa;

void dfa_fini(dfa *c);

static inline bool dfa_empty(const dfa *c)
{
    return c->n == 0;
}

typedef enum dfa_op {
    DFA_INTERSECT,
    DFA_SUBTRACT, /* in the first and not in the second */
    DFA_UNION
} dfa_op;

/* These functions write *out, which need not be initialised, and leave it empty on failure.
 * MOTE_E_ARG: out of fuel, or a limit was exceeded. */
mote_status dfa_combine(dfa *out, const dfa *a, dfa_op op, const dfa *b, dfa_fuel *fuel,
                        mote_error *err);
/* *a = combination of *a and *b. */
mote_status dfa_apply(dfa *a, dfa_op op, const dfa *b, dfa_fuel *fuel, mote_error *err);
/* All strings of min to max code points (RULES_NO_LIMIT: no limit). */
mote_status dfa_length(dfa *out, uint32_t min, uint32_t max, dfa_fuel *fuel, mote_error *err);
/* A finite set of n words in UTF-8. MOTE_E_ARG: a word is not valid UTF-8. */
mote_status dfa_words(dfa *out, const str *words, size_t n, dfa_fuel *fuel, mote_error *err);

/* ---- building state by state: states in order, the ranges of each state ascending ---- */

/* Starts the next state. */
mote_status dfa_add_state(dfa *c, bool accepts, mote_error *err);
/* Adds a transition to the latest state. */
mote_status dfa_add_range(dfa *c, uint32_t lo, uint32_t hi, uint32_t to, mote_error *err);
/* Removes states from which no accepting state can be reached. */
mote_status dfa_trim(dfa *c, dfa_fuel *fuel, mote_error *err);

/* ---- queries ---- */

/* The next state; RULES_NONE: no transition. */
uint32_t dfa_step(const dfa *c, uint32_t state, uint32_t code_point);
bool dfa_accepts(const dfa *c, str text);
/* True: the set is finite. May return false for a finite set: only states in topological order
 * are recognised, which dfa_words and its combinations produce. */
bool dfa_finite(const dfa *c);
/* universal[state]: every string is accepted from there. universal is [c->n]. */
void dfa_find_universal(const dfa *c, bool *universal);
/* Decodes the code point at *at and advances; false: not valid UTF-8 there. */
bool dfa_decode(str text, size_t *at, uint32_t *code_point);
/* Writes a code point in UTF-8; returns the number of bytes. */
size_t dfa_encode(unsigned char out[4], uint32_t code_point);

/* ---- conversion to byte rules (dfa_rules.c) ---- */

/* The strings in UTF-8. */
mote_status dfa_put_raw(rules *r, const dfa *c, uint32_t from, uint32_t to, mote_error *err);
/* The strings between the quotes of a JSON string. Characters that must be escaped have their
 * shortest escape, all others none. */
mote_status dfa_put_json(rules *r, const dfa *c, uint32_t from, uint32_t to, mote_error *err);

/* ---- character classes (char_class.c): lists of code point ranges ----
 *
 * A parser keeps the ranges of all its classes in one list. A class is a contiguous part of it. */

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
/* Ends the class that starts at range `from`: sorts its ranges, merges overlaps, and replaces them
 * by their complement if negated. */
mote_status char_class_normalize(char_class *x, uint32_t from, bool negated, mote_error *err);

/* ---- hexadecimal escapes ---- */

/* Appends a digit to *value; false: c is not a hexadecimal digit. */
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

/* Reads exactly n digits at byte `at` of the text. */
static inline bool hex_read(str text, size_t at, size_t n, uint32_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++)
        if (at + i >= text.n || !hex_add(value, (unsigned char)text.p[at + i]))
            return false;
    return true;
}

/* ---- pairs: numbers pairs of 32-bit values in order of first use ---- */

typedef struct dfa_pairs_item {
    uint32_t a, b;
} dfa_pairs_item;

/* All zero is an empty table. */
typedef struct dfa_pairs {
    dfa_pairs_item *items; /* [n] */
    uint32_t n, room;
    uint32_t *slots; /* [mask + 1], hash table: number of a pair + 1, 0: free; at most half full */
    uint32_t mask;
} dfa_pairs;

void dfa_pairs_fini(dfa_pairs *p);
/* The number of a pair, which is added if it is new; UINT32_MAX: out of memory. */
uint32_t dfa_pairs_intern(dfa_pairs *p, uint32_t a, uint32_t b);

#endif
