/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex.c - syntax tree to NFA (Thompson construction), NFA to DFA (subset construction).
 *
 * The NFA has a few states per tree node; repetitions are unrolled. Anchors are epsilon arcs that
 * can be taken only at the start or only at the end of the string. The states of the DFA are sets
 * of NFA states, found breadth first. A set stores only the members that matter: states that read
 * a character, states with an end anchor, and the goal.
 */
#include "grammar/rules/regex.h"
#include "grammar/rules/regex_ast.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

typedef enum arc_kind { ARC_CHARS, ARC_EMPTY, ARC_AT_START, ARC_AT_END } arc_kind;

typedef struct arc {
    uint8_t kind;
    uint32_t lo, hi, to;
    uint32_t next; /* arc of the same state */
} arc;

/* An NFA. State 0 is the start, state 1 the goal. */
typedef struct regex_nfa {
    uint32_t *head; /* [n], first arc or RULES_NONE */
    arc *arcs;
    uint32_t n, room, n_arcs, arcs_room;
    const regex_tree *tree;
    mote_error *err;
} regex_nfa;

enum { START = 0, GOAL = 1 };

static mote_status regex_no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory: pattern");
}

static mote_status nfa_state(regex_nfa *m, uint32_t *out)
{
    if (m->n >= REGEX_MAX_NODES)
        return err_set(m->err, MOTE_E_ARG,
                       "pattern too large: more than 40,000 states with its repetitions unrolled");
    if (!mem_grow(&m->head, m->n, &m->room, sizeof *m->head))
        return regex_no_memory(m->err);
    m->head[m->n] = RULES_NONE;
    *out = m->n++;
    return MOTE_OK;
}

static mote_status nfa_arc(regex_nfa *m, uint32_t from, arc_kind kind, char_range x, uint32_t to)
{
    if (!mem_grow(&m->arcs, m->n_arcs, &m->arcs_room, sizeof *m->arcs))
        return regex_no_memory(m->err);
    m->arcs[m->n_arcs] = (arc){(uint8_t)kind, x.lo, x.hi, to, m->head[from]};
    m->head[from] = m->n_arcs++;
    return MOTE_OK;
}

static mote_status nfa_skip(regex_nfa *m, uint32_t from, uint32_t to)
{
    return nfa_arc(m, from, ARC_EMPTY, (char_range){0, 0}, to);
}

/* ---- tree to NFA; recursion is as deep as the groups, at most REGEX_MAX_DEPTH ---- */

static mote_status nfa_build(regex_nfa *m, uint32_t node, uint32_t from, uint32_t to);

static mote_status nfa_class(regex_nfa *m, const regex_node *node, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < node->n; i++)
        TRY(nfa_arc(m, from, ARC_CHARS, m->tree->ranges.all[node->first + i], to));
    return MOTE_OK;
}

static mote_status nfa_concat(regex_nfa *m, const regex_node *node, uint32_t from, uint32_t to)
{
    for (uint32_t c = node->child; c != RULES_NONE; c = m->tree->nodes[c].sibling) {
        uint32_t next;
        TRY(nfa_state(m, &next));
        TRY(nfa_build(m, c, from, next));
        from = next;
    }
    return nfa_skip(m, from, to);
}

static mote_status nfa_repeat(regex_nfa *m, const regex_node *node, uint32_t from, uint32_t to)
{
    uint32_t next;
    for (uint32_t i = 0; i < node->min; i++) {
        TRY(nfa_state(m, &next));
        TRY(nfa_build(m, node->child, from, next));
        from = next;
    }
    if (node->max == RULES_NO_LIMIT) {
        TRY(nfa_state(m, &next));
        TRY(nfa_skip(m, from, next));
        TRY(nfa_build(m, node->child, next, next));
        return nfa_skip(m, next, to);
    }
    for (uint32_t i = node->min; i < node->max; i++) {
        TRY(nfa_skip(m, from, to));
        TRY(nfa_state(m, &next));
        TRY(nfa_build(m, node->child, from, next));
        from = next;
    }
    return nfa_skip(m, from, to);
}

static mote_status nfa_build(regex_nfa *m, uint32_t index, uint32_t from, uint32_t to)
{
    const regex_node *node = &m->tree->nodes[index];
    switch (node->kind) {
    case REGEX_CLASS: return nfa_class(m, node, from, to);
    case REGEX_CONCAT: return nfa_concat(m, node, from, to);
    case REGEX_REPEAT: return nfa_repeat(m, node, from, to);
    case REGEX_AT_START: return nfa_arc(m, from, ARC_AT_START, (char_range){0, 0}, to);
    case REGEX_AT_END: return nfa_arc(m, from, ARC_AT_END, (char_range){0, 0}, to);
    default: break;
    }
    for (uint32_t c = node->child; c != RULES_NONE; c = m->tree->nodes[c].sibling)
        TRY(nfa_build(m, c, from, to));
    return MOTE_OK;
}

/* The whole expression. An unanchored search allows any characters before and after it. */
static mote_status nfa_whole(regex_nfa *m, regex_mode mode)
{
    static const char_range all[] = {{0, 0xD7FF}, {0xE000, DFA_LAST}};
    uint32_t start, goal, end = GOAL;
    TRY(nfa_state(m, &start));
    TRY(nfa_state(m, &goal));
    if (mode == REGEX_WHOLE) {
        TRY(nfa_state(m, &end));
        TRY(nfa_arc(m, end, ARC_AT_END, (char_range){0, 0}, GOAL));
    }
    for (int i = 0; i < 2 && mode == REGEX_SEARCH; i++) {
        TRY(nfa_arc(m, START, ARC_CHARS, all[i], START));
        TRY(nfa_arc(m, GOAL, ARC_CHARS, all[i], GOAL));
    }
    uint32_t first;
    TRY(nfa_state(m, &first));
    TRY(nfa_arc(m, START, mode == REGEX_WHOLE ? ARC_AT_START : ARC_EMPTY, (char_range){0, 0},
                first));
    return nfa_build(m, m->tree->root, first, end);
}

/* ---- subset construction ---- */

typedef struct set_info {
    uint32_t first, n; /* in members */
    uint32_t next;     /* set of the same hash slot */
} set_info;

/* A character range and the NFA state it leads to. */
typedef struct move {
    uint32_t lo, hi, to;
} move;

typedef struct subsets {
    const regex_nfa *m;
    set_info *sets;
    uint32_t *members;
    uint32_t n_sets, sets_room, n_members, members_room;
    uint32_t *slots; /* [SLOTS], set + 1 */
    uint32_t *seen;  /* [m->n], number of the latest closure that visited the state */
    bool *matters;   /* [m->n], stored in sets */
    uint32_t round;  /* number of the current closure */
    uint32_t *stack; /* [m->n] */
    uint32_t *found; /* [m->n] */
    uint32_t n_found;
    uint32_t *borders; /* [2 * arcs of the widest set] */
    move *moves;       /* of the set being expanded, by first character */
    move *active;      /* the moves that include the current character */
    uint32_t borders_room, moves_room, active_room, n_moves, n_active;
    dfa_fuel *fuel;
    mote_error *err;
} subsets;

enum { SLOTS = 1 << 14 };

static void nfa_closure_begin(subsets *x)
{
    x->round++;
    x->n_found = 0;
}

static bool state_matters(const regex_nfa *m, uint32_t state)
{
    if (state == GOAL)
        return true;
    for (uint32_t a = m->head[state]; a != RULES_NONE; a = m->arcs[a].next)
        if (m->arcs[a].kind == ARC_CHARS || m->arcs[a].kind == ARC_AT_END)
            return true;
    return false;
}

/* Adds a state and its epsilon closure to `found`. */
static void nfa_closure_add(subsets *x, uint32_t state, bool at_start, bool at_end)
{
    const regex_nfa *m = x->m;
    uint32_t depth = 0;
    if (x->seen[state] == x->round)
        return;
    x->seen[state] = x->round;
    x->stack[depth++] = state;
    while (depth > 0) {
        const uint32_t s = x->stack[--depth];
        if (x->matters[s])
            x->found[x->n_found++] = s;
        for (uint32_t a = m->head[s]; a != RULES_NONE; a = m->arcs[a].next) {
            const arc *e = &m->arcs[a];
            const bool open = e->kind == ARC_EMPTY || (e->kind == ARC_AT_START && at_start) ||
                              (e->kind == ARC_AT_END && at_end);
            if (open && x->seen[e->to] != x->round) {
                x->seen[e->to] = x->round;
                x->stack[depth++] = e->to;
            }
        }
    }
}

static int compare_states(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* The number of the set in `found`, which is added if it is new. */
static mote_status intern_set(subsets *x, uint32_t *out)
{
    qsort(x->found, x->n_found, sizeof *x->found, compare_states);
    uint64_t hash = 0;
    for (uint32_t i = 0; i < x->n_found; i++)
        hash = (hash ^ x->found[i]) * 0x9E3779B97F4A7C15u;
    uint32_t *slot = &x->slots[hash >> 50];
    for (uint32_t s = *slot; s != 0; s = x->sets[s - 1].next) {
        const set_info *known = &x->sets[s - 1];
        if (known->n == x->n_found &&
            memcmp(x->members + known->first, x->found, known->n * sizeof *x->found) == 0) {
            *out = s - 1;
            return MOTE_OK;
        }
    }
    if (!mem_grow(&x->sets, x->n_sets, &x->sets_room, sizeof *x->sets) ||
        !mem_grow(&x->members, x->n_members + x->n_found, &x->members_room, sizeof *x->members))
        return regex_no_memory(x->err);
    memcpy(x->members + x->n_members, x->found, x->n_found * sizeof *x->found);
    x->sets[x->n_sets] = (set_info){x->n_members, x->n_found, *slot};
    x->n_members += x->n_found;
    *slot = ++x->n_sets;
    *out = x->n_sets - 1;
    return MOTE_OK;
}

/* Is the string accepted if it ends in this set? */
static bool set_accepts(subsets *x, const set_info *set, bool at_start)
{
    nfa_closure_begin(x);
    for (uint32_t i = 0; i < set->n; i++)
        nfa_closure_add(x, x->members[set->first + i], at_start, true);
    return x->seen[GOAL] == x->round;
}

static int compare_moves(const void *a, const void *b)
{
    const move *x = a, *y = b;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Collects the character arcs of a set, and the borders between their ranges. */
static mote_status collect_moves(subsets *x, const set_info *set, uint32_t *n_borders)
{
    x->n_moves = *n_borders = 0;
    for (uint32_t i = 0; i < set->n; i++)
        for (uint32_t a = x->m->head[x->members[set->first + i]]; a != RULES_NONE;
             a = x->m->arcs[a].next) {
            const arc *e = &x->m->arcs[a];
            if (e->kind != ARC_CHARS)
                continue;
            if (!mem_grow(&x->moves, x->n_moves, &x->moves_room, sizeof *x->moves) ||
                !mem_grow(&x->borders, *n_borders + 1, &x->borders_room, sizeof *x->borders))
                return regex_no_memory(x->err);
            x->moves[x->n_moves++] = (move){e->lo, e->hi, e->to};
            x->borders[(*n_borders)++] = e->lo;
            x->borders[(*n_borders)++] = e->hi + 1;
        }
    if (*n_borders > 0) {
        qsort(x->borders, *n_borders, sizeof *x->borders, compare_states);
        qsort(x->moves, x->n_moves, sizeof *x->moves, compare_moves);
    }
    return MOTE_OK;
}

/* Updates `active` for a character. Characters must ascend from call to call. *next is the first
 * move that was not considered yet. */
static mote_status activate_moves(subsets *x, uint32_t character, uint32_t *next)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->n_active; i++)
        if (x->active[i].hi >= character)
            x->active[n++] = x->active[i];
    for (; *next < x->n_moves && x->moves[*next].lo <= character; ++*next) {
        if (!mem_grow(&x->active, n, &x->active_room, sizeof *x->active))
            return regex_no_memory(x->err);
        if (x->moves[*next].hi >= character)
            x->active[n++] = x->moves[*next];
    }
    x->n_active = n;
    return MOTE_OK;
}

static mote_status subsets_spend(subsets *x, uint64_t steps)
{
    if (x->fuel->left < steps) {
        x->fuel->left = 0;
        return err_set(x->err, MOTE_E_ARG, "pattern too complex: work limit reached");
    }
    x->fuel->left -= steps;
    return MOTE_OK;
}

static mote_status expand_set(subsets *x, dfa *out, uint32_t index)
{
    uint32_t n_borders;
    const set_info set = x->sets[index];
    /* Only the first set is at the start of the string. */
    TRY(subsets_spend(x, 8 * (uint64_t)set.n));
    TRY(dfa_add_state(out, set_accepts(x, &set, index == 0), x->err));
    TRY(collect_moves(x, &set, &n_borders));
    uint32_t next = 0;
    x->n_active = 0;
    for (uint32_t i = 0; i + 1 < n_borders; i++) {
        const uint32_t lo = x->borders[i], after = x->borders[i + 1];
        if (lo == after)
            continue;
        nfa_closure_begin(x);
        TRY(activate_moves(x, lo, &next));
        for (uint32_t k = 0; k < x->n_active; k++)
            nfa_closure_add(x, x->active[k].to, false, false);
        TRY(subsets_spend(x, 4 + x->n_active + 8 * (uint64_t)x->n_found));
        if (x->n_found == 0)
            continue;
        uint32_t to;
        TRY(intern_set(x, &to));
        TRY(dfa_add_range(out, lo, after - 1, to, x->err));
    }
    return MOTE_OK;
}

static mote_status subsets_build(subsets *x, dfa *out)
{
    uint32_t first;
    for (uint32_t s = 0; s < x->m->n; s++)
        x->matters[s] = state_matters(x->m, s);
    nfa_closure_begin(x);
    nfa_closure_add(x, START, true, false);
    TRY(intern_set(x, &first));
    for (uint32_t i = 0; i < x->n_sets; i++)
        TRY(expand_set(x, out, i));
    return dfa_trim(out, x->fuel, x->err);
}

static mote_status nfa_to_dfa(const regex_nfa *m, dfa *out, dfa_fuel *fuel, mote_error *err)
{
    subsets x = {.m = m, .fuel = fuel, .err = err};
    x.slots = mem_new(SLOTS, sizeof *x.slots);
    x.seen = mem_new(m->n, sizeof *x.seen);
    x.stack = mem_new(m->n, sizeof *x.stack);
    x.found = mem_new(m->n, sizeof *x.found);
    x.matters = mem_new(m->n, sizeof *x.matters);
    const bool ok = x.slots != NULL && x.seen != NULL && x.stack != NULL && x.found != NULL &&
                    x.matters != NULL;
    const mote_status status = ok ? subsets_build(&x, out) : regex_no_memory(err);
    mem_free(x.slots);
    mem_free(x.seen);
    mem_free(x.stack);
    mem_free(x.found);
    mem_free(x.matters);
    mem_free(x.sets);
    mem_free(x.members);
    mem_free(x.borders);
    mem_free(x.moves);
    mem_free(x.active);
    return status;
}

mote_status regex_compile(dfa *out, str pattern, regex_mode mode, dfa_fuel *fuel, mote_error *err)
{
    *out = (dfa){0};
    regex_tree tree;
    regex_nfa m = {.tree = &tree, .err = err};
    mote_status status = regex_parse(&tree, pattern, err);
    if (status == MOTE_OK)
        status = nfa_whole(&m, mode);
    if (status == MOTE_OK)
        status = nfa_to_dfa(&m, out, fuel, err);
    mem_free(m.head);
    mem_free(m.arcs);
    regex_tree_fini(&tree);
    if (status != MOTE_OK)
        dfa_fini(out);
    return status;
}
