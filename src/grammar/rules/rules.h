/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.h - a context-free language over bytes, as a recursive transition network.
 *
 * A rule (nonterminal) is a small automaton with one start state and one end state. An edge reads
 * a byte range, reads nothing (epsilon), or calls another rule and continues when that rule has
 * ended; the matcher therefore is a pushdown automaton (configs.c). Two kinds of state count: a
 * loop runs a rule `min` to `max` times, a set runs each of its members at most once, in any
 * order. Counters live in stack frames, so x{5000} has as many states as x{5}.
 *
 * Builder functions return no error. After the first failure (out of memory, a limit) they do
 * nothing, and rules_finish reports it. rules_finish also removes states from which no end can be
 * reached. After that every accepted prefix can be completed.
 *
 * The second part of this header declares the rules of JSON itself (json_rules.c).
 *
 * Not thread-safe. Read-only after rules_finish.
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
    RULES_TAILS = 7         /* kinds of UTF-8 continuation, see char_tail */
};
#define RULES_NO_LIMIT UINT32_MAX
#define RULES_NONE     UINT32_MAX
#define RULES_ANY_TAIL (UINT32_MAX - 1) /* as `into`: rules_tail_of the byte that was read */

typedef enum rules_kind {
    RULES_PLAIN = 0,
    RULES_END,  /* of its rule: no edges */
    RULES_LOOP, /* `counter` is an index into `loops` */
    RULES_SET,  /* `counter` is an index into `sets` */
    RULES_ENTER /* first run of the loop at state `counter`, starting at state `begin` */
} rules_kind;

/* A state. */
typedef struct rules_node {
    uint32_t first; /* edge */
    uint32_t n;     /* edges */
    uint32_t counter;
    uint32_t begin; /* of RULES_ENTER */
    uint8_t kind;
    bool reads;    /* has edges that read a byte */
    bool has_exit; /* every path from here leads to the state `counter`: no dead ends */
} rules_node;

typedef enum rules_edge_kind { RULES_READ, RULES_SKIP, RULES_CALL } rules_edge_kind;

typedef struct rules_edge {
    uint8_t kind;
    uint8_t lo, hi; /* bytes read */
    uint32_t rule;  /* RULES_CALL: the rule. RULES_READ: state at which the bytes after this one
                     * are read before `to`, RULES_ANY_TAIL, or RULES_NONE */
    uint32_t to;
    uint32_t next; /* while building: next edge of the same state */
} rules_edge;

typedef struct rules_loop_info {
    uint32_t rule, min, max, exit;
} rules_loop_info;

typedef struct rules_set_info {
    uint32_t member[RULES_MAX_MEMBERS]; /* rules; RULES_NONE: matches nothing */
    uint32_t n;
    uint32_t required; /* bit i: member i is required */
    uint32_t min, max; /* number of members present */
    uint32_t exit;
} rules_set_info;

typedef struct rules_rule {
    uint32_t start, end;
} rules_rule;

typedef struct rules {
    rules_node *nodes;      /* [n_nodes] */
    rules_edge *edges;      /* [n_edges]; after rules_finish the edges of a state are contiguous */
    rules_rule *rules;      /* [n_rules] */
    rules_loop_info *loops; /* [n_loops] */
    rules_set_info *sets;   /* [n_sets] */
    uint32_t n_nodes, n_edges, n_rules, n_loops, n_sets;
    uint32_t nodes_room, edges_room, rules_room, loops_room, sets_room;
    uint32_t start; /* rule; set by rules_finish */
    /* Rules of json_rules.c, created on first use; RULES_NONE before. */
    uint32_t json_char, json_multi; /* json_multi: state of json_char that reads non-ASCII only */
    uint32_t json_string, json_space, json_integer, json_number, json_any;
    uint32_t json_container[2]; /* any array, any object */
    /* States of one shared rule (dfa_rules.c) that reads the remaining bytes of a character.
     * char_tail[0..2]: 1 to 3 continuation bytes; [3..6]: after E0, ED, F0, F4. char_escape: the
     * part of a JSON escape after the backslash. */
    uint32_t char_tail[RULES_TAILS], char_escape;
    bool compact;          /* JSON without white space; set before the first rule */
    uint8_t class_of[256]; /* byte equivalence classes: no edge separates bytes of one class */
    uint8_t byte_of[256];  /* [n_classes], one byte of each class */
    uint32_t n_classes;
    mote_status status; /* of the first failure */
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
/* Makes rules_finish fail with the first reason given. `reason` must be static. */
void rules_fail(rules *r, mote_status status, const char *reason);

/* A new rule: a start state, an end state, no edges. */
uint32_t rules_add(rules *r);
uint32_t rules_start_of(const rules *r, uint32_t rule);
uint32_t rules_end_of(const rules *r, uint32_t rule);
/* A new state. It belongs to the rule that has edges to it. */
uint32_t rules_state(rules *r);
/* A new state of a part without dead ends: every path from it leads to `exit`. rules_finish then
 * does not analyse its edges. */
uint32_t rules_state_with_exit(rules *r, uint32_t exit);

void rules_read(rules *r, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
/* Reads a byte, continues at `into` (a state of another rule, or RULES_ANY_TAIL), and at `to` when
 * that rule ends. */
void rules_read_into(rules *r, uint32_t from, uint8_t lo, uint8_t hi, uint32_t into, uint32_t to);
void rules_skip(rules *r, uint32_t from, uint32_t to);
void rules_call(rules *r, uint32_t from, uint32_t rule, uint32_t to);
/* Reads a byte string; returns the state after its last byte. */
uint32_t rules_literal(rules *r, uint32_t from, str bytes);
void rules_literal_to(rules *r, uint32_t from, str bytes, uint32_t to);
/* `rule`, min to max times (RULES_NO_LIMIT: no limit). The rule must not match the empty string. */
void rules_loop(rules *r, uint32_t from, uint32_t rule, uint32_t min, uint32_t max, uint32_t to);
/* Enters a loop in the middle of its first run: at `begin`, a state of the loop's rule. `loop` is
 * a state that rules_loop_state returned, without limits. */
void rules_enter(rules *r, uint32_t from, uint32_t loop, uint32_t begin);
/* Like rules_loop, without the edge that leads to it. Returns the state of the loop. */
uint32_t rules_loop_state(rules *r, uint32_t rule, uint32_t min, uint32_t max, uint32_t to);
/* Each of n <= RULES_MAX_MEMBERS rules at most once, in any order: all of `required`, and `min` to
 * `max` of them in total. Continues at set->exit. */
void rules_set(rules *r, uint32_t from, const rules_set_info *set);

/* The state of char_tail that follows the lead byte of a multi-byte character. */
static inline uint32_t rules_tail_of(const rules *r, uint8_t byte)
{
    if (byte == 0xE0 || byte == 0xED)
        return r->char_tail[byte == 0xE0 ? 3 : 4];
    if (byte == 0xF0 || byte == 0xF4)
        return r->char_tail[byte == 0xF0 ? 5 : 6];
    return r->char_tail[byte < 0xE0 ? 0 : byte < 0xF0 ? 1 : 2];
}

/* Ends building. MOTE_E_ARG: no text matches, or a limit was exceeded. */
mote_status rules_finish(rules *r, uint32_t start, mote_error *err);

/* ---- rules of JSON (json_rules.c) ----
 *
 * White space is bounded, so that a model cannot generate it forever: none, one space, or one line
 * break with indentation. It is allowed after an opening bracket, a comma and a colon, and before
 * a closing bracket. Numbers have at most JSON_RULES_DIGITS digits before and after the point and
 * an exponent below 300. Values without a schema nest at most JSON_RULES_DEPTH deep.
 *
 * The functions that return a rule create it once per grammar. */

enum {
    JSON_RULES_DIGITS = 40,
    JSON_RULES_DEPTH = 32,
    JSON_RULES_INDENT = 64, /* spaces after a line break */
    JSON_RULES_TABS = 16    /* or tabs */
};

/* One character of a string, unescaped or in any escaped form. */
uint32_t json_rules_char(rules *r);
/* A string with its quotes. */
uint32_t json_rules_string(rules *r);
/* White space; may be empty. */
uint32_t json_rules_space(rules *r);
uint32_t json_rules_integer(rules *r);
uint32_t json_rules_number(rules *r);
/* Any JSON value. */
uint32_t json_rules_any(rules *r);
uint32_t json_rules_any_array(rules *r);
uint32_t json_rules_any_object(rules *r);

/* A string of min to max characters, with its quotes. */
void json_rules_put_string(rules *r, uint32_t from, uint32_t min, uint32_t max, uint32_t to);
/* The byte `first`, then white space. Returns the state after it. */
uint32_t json_rules_open(rules *r, uint32_t from, char first);
/* White space, then the byte `last`. */
void json_rules_close(rules *r, uint32_t from, char last, uint32_t to);

#endif
