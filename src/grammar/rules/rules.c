/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rules.c - builds a recursive transition network and removes its dead ends.
 *
 * While building, the edges of a state are a linked list, because they are added in any order.
 * rules_finish keeps the edges from which the end of the rule can be reached, stores the edges of
 * each state contiguously, and computes byte equivalence classes.
 */
#include "grammar/rules/rules.h"

#include "base/mem.h"

#include <string.h>

mote_status rules_new(rules **out, mote_error *err)
{
    rules *r = mem_new(1, sizeof *r);
    *out = r;
    if (r == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: grammar");
    r->json_char = r->json_string = r->json_space = r->json_integer = r->json_number = RULES_NONE;
    r->json_any = r->json_container[0] = r->json_container[1] = r->char_escape = RULES_NONE;
    return MOTE_OK;
}

void rules_free(rules *r)
{
    if (r == NULL)
        return;
    mem_free(r->nodes);
    mem_free(r->edges);
    mem_free(r->rules);
    mem_free(r->loops);
    mem_free(r->sets);
    mem_free(r);
}

void rules_fail(rules *r, mote_status status, const char *reason)
{
    if (r->status != MOTE_OK)
        return;
    r->status = status;
    r->reason = reason;
}

/* Space for item n of an array. False: a failure, this one or an earlier one. */
static bool rules_reserve(rules *r, void *items, uint32_t n, uint32_t *room, size_t each)
{
    if (!rules_ok(r))
        return false;
    if (mem_grow(items, n, room, each))
        return true;
    rules_fail(r, MOTE_E_MEMORY, "out of memory: grammar");
    return false;
}

uint32_t rules_state(rules *r)
{
    if (r->n_nodes >= RULES_MAX_STATES)
        rules_fail(r, MOTE_E_ARG, "grammar too large: more than 200,000 states");
    if (!rules_reserve(r, &r->nodes, r->n_nodes, &r->nodes_room, sizeof *r->nodes))
        return 0;
    r->nodes[r->n_nodes] = (rules_node){.first = RULES_NONE};
    return r->n_nodes++;
}

uint32_t rules_state_with_exit(rules *r, uint32_t exit)
{
    const uint32_t at = rules_state(r);
    if (rules_ok(r)) {
        r->nodes[at].has_exit = true;
        r->nodes[at].counter = exit;
    }
    return at;
}

uint32_t rules_add(rules *r)
{
    const uint32_t start = rules_state(r), end = rules_state(r);
    if (!rules_reserve(r, &r->rules, r->n_rules, &r->rules_room, sizeof *r->rules))
        return 0;
    r->nodes[end].kind = RULES_END;
    r->rules[r->n_rules] = (rules_rule){start, end};
    return r->n_rules++;
}

uint32_t rules_start_of(const rules *r, uint32_t rule)
{
    return rules_ok(r) ? r->rules[rule].start : 0;
}

uint32_t rules_end_of(const rules *r, uint32_t rule)
{
    return rules_ok(r) ? r->rules[rule].end : 0;
}

static void add_edge(rules *r, uint32_t from, rules_edge edge)
{
    if (r->n_edges >= RULES_MAX_EDGES)
        rules_fail(r, MOTE_E_ARG, "grammar too large: more than 800,000 edges");
    if (!rules_reserve(r, &r->edges, r->n_edges, &r->edges_room, sizeof *r->edges))
        return;
    edge.next = r->nodes[from].first;
    r->edges[r->n_edges] = edge;
    r->nodes[from].first = r->n_edges++;
    r->nodes[from].n++;
}

void rules_read(rules *r, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to)
{
    rules_read_into(r, from, lo, hi, RULES_NONE, to);
}

void rules_read_into(rules *r, uint32_t from, uint8_t lo, uint8_t hi, uint32_t into, uint32_t to)
{
    add_edge(r, from, (rules_edge){.kind = RULES_READ, .lo = lo, .hi = hi, .rule = into, .to = to});
}

void rules_skip(rules *r, uint32_t from, uint32_t to)
{
    add_edge(r, from, (rules_edge){.kind = RULES_SKIP, .to = to});
}

void rules_call(rules *r, uint32_t from, uint32_t rule, uint32_t to)
{
    add_edge(r, from, (rules_edge){.kind = RULES_CALL, .rule = rule, .to = to});
}

uint32_t rules_literal(rules *r, uint32_t from, str bytes)
{
    for (size_t i = 0; i < bytes.n && rules_ok(r); i++) {
        const uint32_t next = rules_state(r);
        rules_read(r, from, (uint8_t)bytes.p[i], (uint8_t)bytes.p[i], next);
        from = next;
    }
    return from;
}

void rules_literal_to(rules *r, uint32_t from, str bytes, uint32_t to)
{
    if (bytes.n == 0) {
        rules_skip(r, from, to);
        return;
    }
    from = rules_literal(r, from, (str){bytes.p, bytes.n - 1});
    const uint8_t last = (uint8_t)bytes.p[bytes.n - 1];
    rules_read(r, from, last, last, to);
}

uint32_t rules_loop_state(rules *r, uint32_t rule, uint32_t min, uint32_t max, uint32_t to)
{
    const uint32_t at = rules_state(r);
    if (!rules_reserve(r, &r->loops, r->n_loops, &r->loops_room, sizeof *r->loops))
        return 0;
    r->loops[r->n_loops] = (rules_loop_info){rule, min, max, to};
    r->nodes[at].kind = RULES_LOOP;
    r->nodes[at].counter = r->n_loops++;
    return at;
}

void rules_loop(rules *r, uint32_t from, uint32_t rule, uint32_t min, uint32_t max, uint32_t to)
{
    rules_skip(r, from, rules_loop_state(r, rule, min, max, to));
}

void rules_enter(rules *r, uint32_t from, uint32_t loop, uint32_t begin)
{
    const uint32_t at = rules_state(r);
    if (!rules_ok(r))
        return;
    r->nodes[at].kind = RULES_ENTER;
    r->nodes[at].counter = loop;
    r->nodes[at].begin = begin;
    rules_skip(r, from, at);
}

void rules_set(rules *r, uint32_t from, const rules_set_info *set)
{
    const uint32_t at = rules_state(r);
    if (set->n > RULES_MAX_MEMBERS)
        rules_fail(r, MOTE_E_ARG, "a set of the grammar has more than 32 members");
    if (!rules_reserve(r, &r->sets, r->n_sets, &r->sets_room, sizeof *r->sets))
        return;
    r->sets[r->n_sets] = *set;
    r->nodes[at].kind = RULES_SET;
    r->nodes[at].counter = r->n_sets++;
    rules_skip(r, from, at);
}

/* ---- liveness: from which states can the end of the rule be reached? ----
 *
 * A worklist from the end states backwards. A state that becomes live makes the states that depend
 * on it be checked again. */

/* The states that depend on each state, as linked lists in two arrays. */
typedef struct dependents {
    uint32_t *head;  /* [n_nodes], entry or RULES_NONE */
    uint32_t *next;  /* [entries] */
    uint32_t *state; /* [entries], the dependent state */
    uint32_t n;
    bool *alive;     /* [n_nodes]: an end can be reached */
    uint32_t *queue; /* [n_nodes] */
} dependents;

static bool rule_alive(const rules *r, const dependents *d, uint32_t rule)
{
    return rule != RULES_NONE && d->alive[r->rules[rule].start];
}

static bool set_alive(const rules *r, const dependents *d, const rules_set_info *set)
{
    uint32_t n_alive = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        n_alive += rule_alive(r, d, set->member[i]);
        if ((set->required >> i & 1) != 0 && !rule_alive(r, d, set->member[i]))
            return false;
    }
    const uint32_t required = (uint32_t)__builtin_popcount(set->required);
    return d->alive[set->exit] && n_alive >= set->min && set->min <= set->max &&
           required <= set->max;
}

static bool edge_alive(const rules *r, const dependents *d, const rules_edge *e)
{
    if (e->kind == RULES_READ)
        return d->alive[e->to] && (e->rule >= RULES_ANY_TAIL || d->alive[e->rule]);
    return d->alive[e->to] && (e->kind != RULES_CALL || rule_alive(r, d, e->rule));
}

/* Is the end reachable from `state`, given the states that are known to be alive? */
static bool state_alive(const rules *r, const dependents *d, uint32_t state)
{
    const rules_node *node = &r->nodes[state];
    if (node->kind == RULES_LOOP) {
        const rules_loop_info *loop = &r->loops[node->counter];
        return d->alive[loop->exit] && loop->min <= loop->max &&
               (loop->min == 0 || rule_alive(r, d, loop->rule));
    }
    if (node->kind == RULES_SET)
        return set_alive(r, d, &r->sets[node->counter]);
    if (node->kind == RULES_ENTER)
        return d->alive[node->counter] && d->alive[node->begin];
    if (node->has_exit)
        return d->alive[node->counter];
    for (uint32_t e = node->first; e != RULES_NONE; e = r->edges[e].next)
        if (edge_alive(r, d, &r->edges[e]))
            return true;
    return node->kind == RULES_END;
}

static void add_dependent(dependents *d, uint32_t state, uint32_t on)
{
    d->next[d->n] = d->head[on];
    d->state[d->n] = state;
    d->head[on] = d->n++;
}

static void collect_dependents(const rules *r, dependents *d)
{
    for (uint32_t s = 0; s < r->n_nodes; s++) {
        const rules_node *node = &r->nodes[s];
        if (node->has_exit) {
            add_dependent(d, s, node->counter);
            continue;
        }
        if (node->kind == RULES_LOOP) {
            const rules_loop_info *loop = &r->loops[node->counter];
            add_dependent(d, s, loop->exit);
            add_dependent(d, s, r->rules[loop->rule].start);
        }
        if (node->kind == RULES_SET) {
            const rules_set_info *set = &r->sets[node->counter];
            add_dependent(d, s, set->exit);
            for (uint32_t i = 0; i < set->n; i++)
                add_dependent(d, s, r->rules[set->member[i]].start);
        }
        if (node->kind == RULES_ENTER) {
            add_dependent(d, s, node->counter);
            add_dependent(d, s, node->begin);
        }
        for (uint32_t e = node->first; e != RULES_NONE; e = r->edges[e].next) {
            add_dependent(d, s, r->edges[e].to);
            if (r->edges[e].kind == RULES_CALL)
                add_dependent(d, s, r->rules[r->edges[e].rule].start);
            if (r->edges[e].kind == RULES_READ && r->edges[e].rule < RULES_ANY_TAIL)
                add_dependent(d, s, r->edges[e].rule);
        }
    }
}

static void find_alive(const rules *r, dependents *d)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < r->n_nodes; s++)
        if (r->nodes[s].kind == RULES_END) {
            d->alive[s] = true;
            d->queue[n++] = s;
        }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = d->head[d->queue[i]]; k != RULES_NONE; k = d->next[k]) {
            const uint32_t s = d->state[k];
            if (!d->alive[s] && state_alive(r, d, s)) {
                d->alive[s] = true;
                d->queue[n++] = s;
            }
        }
}

/* ---- final form ---- */

/* Keeps the live edges, contiguous for each state, in the order in which they were added. */
static void compact_edges(rules *r, const dependents *d, rules_edge *edges)
{
    uint32_t n = 0;
    for (uint32_t s = 0; s < r->n_nodes; s++) {
        rules_node *node = &r->nodes[s];
        const uint32_t first = n;
        for (uint32_t e = node->first; e != RULES_NONE; e = r->edges[e].next)
            if (edge_alive(r, d, &r->edges[e]))
                edges[n++] = r->edges[e];
        node->first = first;
        node->n = n - first;
        for (uint32_t i = first, j = n; i + 1 < j; i++) {
            const rules_edge swap = edges[--j];
            edges[j] = edges[i];
            edges[i] = swap;
        }
        for (uint32_t i = first; i < n; i++)
            node->reads |= edges[i].kind == RULES_READ;
    }
    mem_free(r->edges);
    r->edges = edges;
    r->n_edges = r->edges_room = n;
}

/* Loops and sets must not run rules that match nothing. */
static void disable_dead_rules(rules *r, const dependents *d)
{
    for (uint32_t i = 0; i < r->n_loops; i++)
        if (!rule_alive(r, d, r->loops[i].rule))
            r->loops[i].max = 0;
    for (uint32_t i = 0; i < r->n_sets; i++)
        for (uint32_t k = 0; k < r->sets[i].n; k++)
            if (!rule_alive(r, d, r->sets[i].member[k]))
                r->sets[i].member[k] = RULES_NONE;
}

/* Bytes between two borders of edges are one equivalence class. */
static void find_byte_classes(rules *r)
{
    bool border[257] = {false}, tails = false;
    for (uint32_t e = 0; e < r->n_edges; e++)
        if (r->edges[e].kind == RULES_READ) {
            border[r->edges[e].lo] = true;
            border[r->edges[e].hi + 1] = true;
            tails |= r->edges[e].rule == RULES_ANY_TAIL;
        }
    for (unsigned byte = 0xC3; byte <= 0xF4 && tails; byte++)
        border[byte] |= rules_tail_of(r, (uint8_t)byte) != rules_tail_of(r, (uint8_t)(byte - 1));
    border[0] = false;
    uint32_t class = 0;
    r->byte_of[0] = 0;
    for (uint32_t byte = 0; byte < 256; byte++) {
        if (border[byte])
            r->byte_of[++class] = (uint8_t)byte;
        r->class_of[byte] = (uint8_t) class;
    }
    r->n_classes = class + 1;
}

/* Removes edges that cannot lead to the end of their rule. MOTE_E_ARG: nothing is left. */
static mote_status remove_dead_ends(rules *r, mote_error *err)
{
    uint32_t entries = 2 * r->n_loops;
    for (uint32_t i = 0; i < r->n_sets; i++)
        entries += 1 + r->sets[i].n;
    for (uint32_t s = 0; s < r->n_nodes; s++)
        entries += r->nodes[s].kind == RULES_ENTER ? 2
                   : r->nodes[s].has_exit          ? 1
                                                   : 2 * r->nodes[s].n;
    dependents d = {
        .head = mem_new(r->n_nodes, sizeof *d.head),
        .next = mem_new(entries, sizeof *d.next),
        .state = mem_new(entries, sizeof *d.state),
        .alive = mem_new(r->n_nodes, sizeof *d.alive),
        .queue = mem_new(r->n_nodes, sizeof *d.queue),
    };
    rules_edge *edges = mem_new((size_t)r->n_edges + 1, sizeof *edges);
    mote_status status = MOTE_OK;
    if (!d.head || !d.next || !d.state || !d.alive || !d.queue || !edges) {
        status = err_set(err, MOTE_E_MEMORY, "out of memory: grammar");
        mem_free(edges);
    } else {
        memset(d.head, 0xFF, r->n_nodes * sizeof *d.head);
        collect_dependents(r, &d);
        find_alive(r, &d);
        compact_edges(r, &d, edges);
        disable_dead_rules(r, &d);
        if (!rule_alive(r, &d, r->start))
            status = err_set(err, MOTE_E_ARG, "no text satisfies this schema, pattern or grammar");
    }
    mem_free(d.head);
    mem_free(d.next);
    mem_free(d.state);
    mem_free(d.alive);
    mem_free(d.queue);
    return status;
}

mote_status rules_finish(rules *r, uint32_t start, mote_error *err)
{
    if (!rules_ok(r))
        return err_set(err, r->status, "%s", r->reason);
    r->start = start;
    TRY(remove_dead_ends(r, err));
    find_byte_classes(r);
    return MOTE_OK;
}
