/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - a language over bytes: rules that call each other.
 *
 * A rule is a small automaton from one start state to one end state. Its edges
 * read a byte, read nothing, or call another rule and go on when that one has
 * ended. Two kinds of state count: a loop runs a rule between `min` and `max`
 * times, a set runs each of its members at most once, in any order. Counting
 * costs no states: a repetition of 5,000 is as small as one of 5.
 *
 * Building is a sequence of calls that cannot fail one by one: a builder out of
 * memory or over a limit does nothing from then on, and rules_finish says why.
 * rules_finish also takes away whatever cannot be completed, so that a text
 * that the rules accept so far can always be continued to an end.
 */
#ifndef MOTE_GRAMMAR_RULES_RULES_H
#define MOTE_GRAMMAR_RULES_RULES_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum {
    RULES_MAX_STATES = 200000,
    RULES_MAX_EDGES = 800000,
    RULES_MAX_MEMBERS = 32, /* of a set */
    RULES_TAILS = 7         /* ways in which a character of several bytes can go on */
};
#define RULES_NO_LIMIT UINT32_MAX
#define RULES_NONE     UINT32_MAX
#define RULES_ANY_TAIL (UINT32_MAX - 1) /* for `into`: the byte decides, see rules_tail_of */

typedef enum rules_kind {
    RULES_PLAIN = 0,
    RULES_END,  /* of its rule: no edges */
    RULES_LOOP, /* `counter` is a rules_loop_info */
    RULES_SET,  /* `counter` is a rules_set_info */
    RULES_ENTER /* a run of the loop at the state `counter`, begun at the state `begin` */
} rules_kind;

typedef struct rules_node {
    uint32_t first; /* of its edges */
    uint32_t n;
    uint32_t counter;
    uint32_t begin; /* of RULES_ENTER */
    uint8_t kind;
    bool reads; /* has edges that read a byte */
    bool woven; /* all its ways lead to the state `counter`, none of them into a dead end */
} rules_node;

typedef enum rules_edge_kind { RULES_READ, RULES_SKIP, RULES_CALL } rules_edge_kind;

typedef struct rules_edge {
    uint8_t kind;
    uint8_t lo, hi; /* bytes read */
    uint32_t rule; /* called; or state where the rest of what is read begins, RULES_NONE: nothing */
    uint32_t to;
    uint32_t next; /* edge of the same state, while building */
} rules_edge;

typedef struct rules_loop_info {
    uint32_t rule, min, max, exit;
} rules_loop_info;

typedef struct rules_set_info {
    uint32_t member[RULES_MAX_MEMBERS]; /* rules; RULES_NONE: can never come */
    uint32_t n;
    uint32_t required; /* bit i: member i has to come */
    uint32_t min, max; /* members that come in all */
    uint32_t exit;
} rules_set_info;

typedef struct rules_rule {
    uint32_t start, end;
} rules_rule;

typedef struct rules {
    rules_node *nodes;      /* [n_nodes] */
    rules_edge *edges;      /* [n_edges]; after rules_finish those of a state stand together */
    rules_rule *rules;      /* [n_rules] */
    rules_loop_info *loops; /* [n_loops] */
    rules_set_info *sets;   /* [n_sets] */
    uint32_t n_nodes, n_edges, n_rules, n_loops, n_sets;
    uint32_t nodes_room, edges_room, rules_room, loops_room, sets_room;
    uint32_t start; /* rule; set by rules_finish */
    /* Rules of json_rules.h, made when they are first needed; RULES_NONE before. */
    uint32_t json_char, json_multi; /* the second is a state of the first's rule */
    uint32_t json_string, json_space, json_integer, json_number, json_any;
    uint32_t json_container[2]; /* any array, any object */
    /* States of a rule of chars_rules.c that ends behind the rest of a character: 1 to 3
     * continuation bytes; those after E0, ED, F0 and F4; the rest of an escape. */
    uint32_t char_tail[RULES_TAILS], char_escape;
    bool compact;          /* no white space in JSON; decided before the first rule */
    uint8_t class_of[256]; /* bytes of one class are never told apart */
    uint8_t byte_of[256];  /* a byte of each class */
    uint32_t n_classes;
    mote_status status; /* the first failure */
    const char *reason;
} rules;

mote_status rules_new(rules **out, mote_error *err);
/* NULL is allowed. */
void rules_free(rules *r);

/* ---- building ---- */

static inline bool rules_ok(const rules *r)
{
    return r->status == MOTE_OK;
}
/* Makes rules_finish fail; the first reason counts. */
void rules_fail(rules *r, mote_status status, const char *reason);

/* A rule with a start and an end and nothing between. */
uint32_t rules_add(rules *r);
uint32_t rules_start_of(const rules *r, uint32_t rule);
uint32_t rules_end_of(const rules *r, uint32_t rule);
/* A state of whichever rule leads to it. */
uint32_t rules_state(rules *r);
/* One of many that only lead to each other and on to `exit`, each of them in the end there: so much
 * the less is to be found out about them. */
uint32_t rules_woven_state(rules *r, uint32_t exit);

void rules_read(rules *r, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
/* Reads a byte and goes on at `into`, a state of another rule or RULES_ANY_TAIL; where that one
 * ends, at `to`. */
void rules_read_into(rules *r, uint32_t from, uint8_t lo, uint8_t hi, uint32_t into, uint32_t to);
void rules_skip(rules *r, uint32_t from, uint32_t to);
void rules_call(rules *r, uint32_t from, uint32_t rule, uint32_t to);
/* Reads the bytes one after the other and returns the state after the last. */
uint32_t rules_literal(rules *r, uint32_t from, str bytes);
void rules_literal_to(rules *r, uint32_t from, str bytes, uint32_t to);
/* `rule`, which must read something, min to max times; RULES_NO_LIMIT is no limit. */
void rules_loop(rules *r, uint32_t from, uint32_t rule, uint32_t min, uint32_t max, uint32_t to);
/* The first run of the loop at `loop`, a state that rules_loop_state returned, but begun at
 * `begin`, a state of its rule. The loop has no limits. */
void rules_enter(rules *r, uint32_t from, uint32_t loop, uint32_t begin);
/* Like rules_loop; the state of the loop itself. */
uint32_t rules_loop_state(rules *r, uint32_t rule, uint32_t min, uint32_t max, uint32_t to);
/* Each of n <= RULES_MAX_MEMBERS rules at most once, in any order, those of the bits of
 * `required` once, and `min` to `max` of them in all. `shape->exit` is where it leads. */
void rules_set(rules *r, uint32_t from, const rules_set_info *shape);

/* The state behind the first byte of a character of several, of the rule of char_tail. */
static inline uint32_t rules_tail_of(const rules *r, uint8_t byte)
{
    if (byte == 0xE0 || byte == 0xED)
        return r->char_tail[byte == 0xE0 ? 3 : 4];
    if (byte == 0xF0 || byte == 0xF4)
        return r->char_tail[byte == 0xF0 ? 5 : 6];
    return r->char_tail[byte < 0xE0 ? 0 : byte < 0xF0 ? 1 : 2];
}

/* Ends building. MOTE_E_ARG: no text at all is accepted, or a limit is passed. */
mote_status rules_finish(rules *r, uint32_t start, mote_error *err);

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
