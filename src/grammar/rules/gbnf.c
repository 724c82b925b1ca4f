/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf.c - checks the syntax tree of a GBNF grammar and compiles it to byte rules.
 *
 * Checks: which nodes are nullable (match the empty string), and which rules are left recursive.
 * Both take linear time. Nullability propagates upwards from nodes that are nullable by themselves.
 * Left recursion is found by a depth-first search over the elements that can come first.
 *
 * Compilation: each element becomes edges from one state to another. An unlimited repetition is a
 * cycle of states. A counted repetition is a loop over a rule, and one run of a loop must not match
 * the empty string. So a nullable element is compiled there in a second form, "nonempty", which
 * matches the same strings except the empty one. A rule of the grammar is compiled when it is first
 * referenced, in one or both forms.
 */
#include "grammar/rules/gbnf.h"

#include "grammar/rules/gbnf_ast.h"
#include "base/mem.h"
#include "grammar/rules/dfa.h"

/* ---- nullable nodes ---- */

typedef struct nullability {
    gbnf_tree *t;
    uint32_t *parent;  /* [n_nodes]; of a rule's body: RULES_NONE */
    uint32_t *waiting; /* [n_nodes], children that are not known to be nullable */
    uint32_t *of_rule; /* [n_nodes], of a body: its rule */
    uint32_t *call;    /* [n_rules], first call of a rule, or RULES_NONE */
    uint32_t *next;    /* [n_nodes], of a call: next call of the same rule */
    uint32_t *queue;   /* [n_nodes] */
    uint32_t n_queue;
} nullability;

static void mark_nullable(nullability *x, uint32_t node)
{
    if (x->t->nodes[node].nullable)
        return;
    x->t->nodes[node].nullable = true;
    x->queue[x->n_queue++] = node;
}

static void init_node(nullability *x, uint32_t i)
{
    const gbnf_node *node = &x->t->nodes[i];
    for (uint32_t c = node->child; c != RULES_NONE; c = x->t->nodes[c].sibling) {
        x->parent[c] = i;
        x->waiting[i]++;
    }
    if (node->kind == GBNF_CALL) {
        x->next[i] = x->call[node->first];
        x->call[node->first] = i;
    }
    if ((node->kind == GBNF_TEXT && node->n == 0) ||
        (node->kind == GBNF_REPEAT && node->min == 0) ||
        (node->kind == GBNF_SEQUENCE && node->child == RULES_NONE))
        mark_nullable(x, i);
}

/* `node` is nullable: marks its parent, or the calls of its rule. A sequence is nullable if all
 * children are, any other parent if one is. */
static void propagate_nullable(nullability *x, uint32_t node)
{
    const uint32_t up = x->parent[node];
    if (up == RULES_NONE) {
        for (uint32_t c = x->call[x->of_rule[node]]; c != RULES_NONE; c = x->next[c])
            mark_nullable(x, c);
        return;
    }
    x->waiting[up]--;
    if (x->t->nodes[up].kind != GBNF_SEQUENCE || x->waiting[up] == 0)
        mark_nullable(x, up);
}

static void find_nullable(nullability *x)
{
    for (uint32_t i = 0; i < x->t->n_nodes; i++)
        x->parent[i] = RULES_NONE;
    for (uint32_t i = 0; i < x->t->n_rules; i++) {
        x->call[i] = RULES_NONE;
        x->of_rule[x->t->rules[i].body] = i;
    }
    for (uint32_t i = 0; i < x->t->n_nodes; i++)
        init_node(x, i);
    for (uint32_t i = 0; i < x->n_queue; i++)
        propagate_nullable(x, x->queue[i]);
}

static mote_status mark_nullable_nodes(gbnf_tree *t, mote_error *err)
{
    nullability x = {.t = t,
                     .parent = mem_new(t->n_nodes, sizeof *x.parent),
                     .waiting = mem_new(t->n_nodes, sizeof *x.waiting),
                     .of_rule = mem_new(t->n_nodes, sizeof *x.of_rule),
                     .call = mem_new(t->n_rules, sizeof *x.call),
                     .next = mem_new(t->n_nodes, sizeof *x.next),
                     .queue = mem_new(t->n_nodes, sizeof *x.queue)};
    const bool ok = x.parent != NULL && x.waiting != NULL && x.of_rule != NULL && x.call != NULL &&
                    x.next != NULL && x.queue != NULL;
    if (ok)
        find_nullable(&x);
    mem_free(x.parent);
    mem_free(x.waiting);
    mem_free(x.of_rule);
    mem_free(x.call);
    mem_free(x.next);
    mem_free(x.queue);
    return ok ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "out of memory: grammar");
}

/* ---- left recursion ---- */

/* Depth-first search over the nodes that can come first. */
typedef struct first_search {
    const gbnf_tree *t;
    uint8_t *met; /* [n_nodes], enum met */
    struct {
        uint32_t node, next; /* next: the child to visit, RULES_NONE: done */
    } * stack;               /* [n_nodes] */
    uint32_t n;
    mote_error *err;
} first_search;

enum met { MET_NOT = 0, MET_INSIDE, MET_DONE };

static void first_enter(first_search *w, uint32_t node)
{
    const gbnf_node *x = &w->t->nodes[node];
    uint32_t next = x->child;
    if (x->kind == GBNF_CALL)
        next = w->t->rules[x->first].body;
    if (x->kind == GBNF_REPEAT && x->max == 0)
        next = RULES_NONE;
    w->met[node] = MET_INSIDE;
    w->stack[w->n].node = node;
    w->stack[w->n++].next = next;
}

/* The next child that can come first, after this one. */
static uint32_t first_next(const first_search *w, uint32_t node, uint32_t child)
{
    const gbnf_kind kind = (gbnf_kind)w->t->nodes[node].kind;
    if (kind == GBNF_ANY_OF || (kind == GBNF_SEQUENCE && w->t->nodes[child].nullable))
        return w->t->nodes[child].sibling;
    return RULES_NONE;
}

/* Only a call can lead back to a node that the search is inside of. */
static mote_status left_recursion_error(const first_search *w, uint32_t call)
{
    const gbnf_rule *rule = &w->t->rules[w->t->nodes[call].first];
    return err_set(w->err, MOTE_E_ARG,
                   "invalid grammar, %s: rule '%.*s' is left recursive: it can reach itself before "
                   "it reads a character. Use a repetition instead, as in a (\"+\" a)*",
                   gbnf_place_of(w->t->text, rule->at).text, STR_ARG(rule->name));
}

/* Fails if the search returns to a node that it is inside of. */
static mote_status first_search_from(first_search *w, uint32_t node)
{
    if (w->met[node] == MET_NOT)
        first_enter(w, node);
    while (w->n > 0) {
        const uint32_t at = w->stack[w->n - 1].node, child = w->stack[w->n - 1].next;
        if (child == RULES_NONE) {
            w->met[at] = MET_DONE;
            w->n--;
            continue;
        }
        w->stack[w->n - 1].next = first_next(w, at, child);
        if (w->met[child] == MET_INSIDE)
            return left_recursion_error(w, at);
        if (w->met[child] == MET_NOT)
            first_enter(w, child);
    }
    return MOTE_OK;
}

static mote_status check_left_recursion(const gbnf_tree *t, mote_error *err)
{
    first_search w = {.t = t,
                      .met = mem_new(t->n_nodes, sizeof *w.met),
                      .stack = mem_new(t->n_nodes, sizeof *w.stack),
                      .err = err};
    mote_status status = MOTE_OK;
    if (w.met == NULL || w.stack == NULL)
        status = err_set(err, MOTE_E_MEMORY, "out of memory: grammar");
    for (uint32_t i = 0; i < t->n_rules && status == MOTE_OK; i++)
        status = first_search_from(&w, t->rules[i].body);
    mem_free(w.met);
    mem_free(w.stack);
    return status;
}

/* ---- compilation ---- */

typedef struct gbnf_compiler {
    rules *r;
    const gbnf_tree *t;
    uint32_t *made[2]; /* [n_rules], compiled rules; [1]: nonempty form; RULES_NONE: none */
    uint32_t *queue;   /* [2 * n_rules], rules to compile: 2 * rule + nonempty */
    uint32_t n_queue;
    mote_error *err;
} gbnf_compiler;

/* Recursion is as deep as the groups, at most GBNF_MAX_DEPTH. */
static mote_status put_node(gbnf_compiler *m, uint32_t node, uint32_t from, uint32_t to,
                            bool nonempty);

static uint32_t compiled_rule(gbnf_compiler *m, uint32_t rule, bool nonempty)
{
    uint32_t *made = &m->made[nonempty][rule];
    if (*made == RULES_NONE) {
        *made = rules_add(m->r);
        m->queue[m->n_queue++] = 2 * rule + nonempty;
    }
    return *made;
}

/* Does the class contain a character? A negated class may be empty or have surrogates only. */
static bool class_has_char(const char_range *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i].lo < 0xD800 || x[i].hi >= 0xE000)
            return true;
    return false;
}

static mote_status put_class(gbnf_compiler *m, const gbnf_node *node, uint32_t from, uint32_t to)
{
    const char_range *x = m->t->ranges.all + node->first;
    if (!class_has_char(x, node->n))
        return MOTE_OK;
    if (x[node->n - 1].hi < 0x80) {
        for (uint32_t i = 0; i < node->n; i++)
            rules_read(m->r, from, (uint8_t)x[i].lo, (uint8_t)x[i].hi, to);
        return MOTE_OK;
    }
    dfa set = {0};
    mote_status status = dfa_add_state(&set, false, m->err);
    for (uint32_t i = 0; i < node->n && status == MOTE_OK; i++)
        status = dfa_add_range(&set, x[i].lo, x[i].hi, 1, m->err);
    if (status == MOTE_OK)
        status = dfa_add_state(&set, true, m->err);
    if (status == MOTE_OK)
        status = dfa_put_raw(m->r, &set, from, to, m->err);
    dfa_fini(&set);
    return status;
}

static mote_status put_sequence(gbnf_compiler *m, const gbnf_node *node, uint32_t from, uint32_t to)
{
    if (node->child == RULES_NONE)
        rules_skip(m->r, from, to);
    for (uint32_t c = node->child; c != RULES_NONE; c = m->t->nodes[c].sibling) {
        const uint32_t next = m->t->nodes[c].sibling == RULES_NONE ? to : rules_state(m->r);
        TRY(put_node(m, c, from, next, false));
        from = next;
    }
    return MOTE_OK;
}

/* A sequence of nullable elements, without the empty string: one element must be nonempty. There
 * are states before and states after that element. */
static mote_status put_nonempty_sequence(gbnf_compiler *m, const gbnf_node *node, uint32_t from,
                                         uint32_t to)
{
    uint32_t before = from, after = RULES_NONE;
    for (uint32_t c = node->child; c != RULES_NONE; c = m->t->nodes[c].sibling) {
        const bool last = m->t->nodes[c].sibling == RULES_NONE;
        const uint32_t done = last ? to : rules_state(m->r);
        TRY(put_node(m, c, before, done, true));
        if (after != RULES_NONE)
            TRY(put_node(m, c, after, done, false));
        after = done;
        if (last)
            break;
        const uint32_t next = rules_state(m->r);
        rules_skip(m->r, before, next);
        before = next;
    }
    return MOTE_OK;
}

/* '*' and '+'. */
static mote_status put_unlimited(gbnf_compiler *m, const gbnf_node *node, uint32_t from,
                                 uint32_t to, bool nonempty)
{
    const bool once = node->min > 0 || nonempty;
    const uint32_t before = rules_state(m->r), after = once ? rules_state(m->r) : before;
    rules_skip(m->r, from, before);
    TRY(put_node(m, node->child, before, after, nonempty));
    if (once)
        rules_skip(m->r, after, before);
    rules_skip(m->r, after, to);
    return MOTE_OK;
}

/* The rule of one run of a loop, which does not match the empty string. */
static mote_status run_rule(gbnf_compiler *m, uint32_t node, uint32_t *rule)
{
    const gbnf_node *body = &m->t->nodes[node];
    if (body->kind == GBNF_CALL) {
        *rule = compiled_rule(m, body->first, body->nullable);
        return MOTE_OK;
    }
    *rule = rules_add(m->r);
    return put_node(m, node, rules_start_of(m->r, *rule), rules_end_of(m->r, *rule), true);
}

static mote_status put_repeat(gbnf_compiler *m, const gbnf_node *node, uint32_t from, uint32_t to,
                              bool nonempty)
{
    if (node->max == RULES_NO_LIMIT && node->min <= 1)
        return put_unlimited(m, node, from, to, nonempty);
    if (node->max <= 1) {
        if (node->min == 0 && !nonempty)
            rules_skip(m->r, from, to);
        return node->max == 1 ? put_node(m, node->child, from, to, nonempty) : MOTE_OK;
    }
    /* Runs that match the empty string can satisfy any minimum. */
    uint32_t run, min = m->t->nodes[node->child].nullable ? 0 : node->min;
    if (nonempty && min == 0)
        min = 1;
    TRY(run_rule(m, node->child, &run));
    rules_loop(m->r, from, run, min, node->max, to);
    return MOTE_OK;
}

static mote_status put_node(gbnf_compiler *m, uint32_t index, uint32_t from, uint32_t to,
                            bool nonempty)
{
    const gbnf_node *node = &m->t->nodes[index];
    nonempty = nonempty && node->nullable;
    switch ((gbnf_kind)node->kind) {
    case GBNF_TEXT:
        if (!nonempty) /* else it is "" */
            rules_literal_to(m->r, from, (str){strbuf_view(&m->t->bytes).p + node->first, node->n},
                             to);
        return MOTE_OK;
    case GBNF_CLASS: return put_class(m, node, from, to);
    case GBNF_CALL:
        rules_call(m->r, from, compiled_rule(m, node->first, nonempty), to);
        return MOTE_OK;
    case GBNF_REPEAT: return put_repeat(m, node, from, to, nonempty);
    case GBNF_SEQUENCE:
        return nonempty ? put_nonempty_sequence(m, node, from, to)
                        : put_sequence(m, node, from, to);
    case GBNF_ANY_OF: break;
    }
    for (uint32_t c = node->child; c != RULES_NONE; c = m->t->nodes[c].sibling)
        TRY(put_node(m, c, from, to, nonempty));
    return MOTE_OK;
}

/* Compiles the root rule and all rules it refers to. An entry of the queue is 2 * rule + nonempty.
 */
static mote_status put_rules(gbnf_compiler *m, uint32_t *rule)
{
    for (uint32_t i = 0; i < m->t->n_rules; i++)
        m->made[0][i] = m->made[1][i] = RULES_NONE;
    *rule = compiled_rule(m, m->t->root, false);
    for (uint32_t i = 0; i < m->n_queue && rules_ok(m->r); i++) {
        const uint32_t which = m->queue[i] / 2, nonempty = m->queue[i] % 2;
        const uint32_t made = m->made[nonempty][which];
        TRY(put_node(m, m->t->rules[which].body, rules_start_of(m->r, made),
                     rules_end_of(m->r, made), nonempty != 0));
    }
    return MOTE_OK;
}

static mote_status gbnf_compile(rules *r, const gbnf_tree *t, uint32_t *rule, mote_error *err)
{
    gbnf_compiler m = {
        .r = r,
        .t = t,
        .made = {mem_new(t->n_rules, sizeof **m.made), mem_new(t->n_rules, sizeof **m.made)},
        .queue = mem_new(2 * (size_t)t->n_rules, sizeof *m.queue),
        .err = err};
    const bool ok = m.made[0] != NULL && m.made[1] != NULL && m.queue != NULL;
    const mote_status status =
        ok ? put_rules(&m, rule) : err_set(err, MOTE_E_MEMORY, "out of memory: grammar");
    mem_free(m.made[0]);
    mem_free(m.made[1]);
    mem_free(m.queue);
    return status;
}

mote_status gbnf_put(rules *r, str text, uint32_t *rule, mote_error *err)
{
    gbnf_tree t;
    *rule = RULES_NONE;
    mote_status status = gbnf_parse(&t, text, err);
    if (status == MOTE_OK)
        status = mark_nullable_nodes(&t, err);
    if (status == MOTE_OK)
        status = check_left_recursion(&t, err);
    if (status == MOTE_OK)
        status = gbnf_compile(r, &t, rule, err);
    gbnf_tree_fini(&t);
    return status;
}
