/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf_check.c - which parts of a grammar can read nothing, and which rules come to themselves
 * before they have read anything.
 *
 * Both are linear in the tree. The first goes upwards from what is empty by itself: each node waits
 * for as many of its children as it needs. The second is a walk in depth along what can come first;
 * a rule that is met while the walk is inside it is left recursive.
 */
#include "grammar/rules/gbnf.h"

#include "grammar/rules/gbnf_ast.h"
#include "base/mem.h"
#include "grammar/rules/dfa.h"

/* ---- what can read nothing ---- */

typedef struct emptiness {
    gbnf_tree *t;
    uint32_t *parent;  /* [n_nodes]; of a rule's body: RULES_NONE */
    uint32_t *waiting; /* [n_nodes], children of a sequence that are not known to be empty */
    uint32_t *of_rule; /* [n_nodes], of a body: its rule */
    uint32_t *call;    /* [n_rules], the first call of a rule, or RULES_NONE */
    uint32_t *next;    /* [n_nodes], of a call: the next of the same rule */
    uint32_t *queue;   /* [n_nodes] */
    uint32_t n_queue;
} emptiness;

static void mark_empty(emptiness *x, uint32_t node)
{
    if (x->t->nodes[node].empty)
        return;
    x->t->nodes[node].empty = true;
    x->queue[x->n_queue++] = node;
}

static void note_node(emptiness *x, uint32_t i)
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
        mark_empty(x, i);
}

/* A node has turned out to be empty: what does that say about those who use it? */
static void pass_on(emptiness *x, uint32_t node)
{
    const uint32_t up = x->parent[node];
    if (up == RULES_NONE) {
        for (uint32_t c = x->call[x->of_rule[node]]; c != RULES_NONE; c = x->next[c])
            mark_empty(x, c);
        return;
    }
    x->waiting[up]--;
    if (x->t->nodes[up].kind != GBNF_SEQUENCE || x->waiting[up] == 0)
        mark_empty(x, up);
}

static void find_empty(emptiness *x)
{
    for (uint32_t i = 0; i < x->t->n_nodes; i++)
        x->parent[i] = RULES_NONE;
    for (uint32_t i = 0; i < x->t->n_rules; i++) {
        x->call[i] = RULES_NONE;
        x->of_rule[x->t->rules[i].body] = i;
    }
    for (uint32_t i = 0; i < x->t->n_nodes; i++)
        note_node(x, i);
    for (uint32_t i = 0; i < x->n_queue; i++)
        pass_on(x, x->queue[i]);
}

static mote_status check_empty(gbnf_tree *t, mote_error *err)
{
    emptiness x = {.t = t,
                   .parent = mem_new(t->n_nodes, sizeof *x.parent),
                   .waiting = mem_new(t->n_nodes, sizeof *x.waiting),
                   .of_rule = mem_new(t->n_nodes, sizeof *x.of_rule),
                   .call = mem_new(t->n_rules, sizeof *x.call),
                   .next = mem_new(t->n_nodes, sizeof *x.next),
                   .queue = mem_new(t->n_nodes, sizeof *x.queue)};
    const bool ok = x.parent != NULL && x.waiting != NULL && x.of_rule != NULL && x.call != NULL &&
                    x.next != NULL && x.queue != NULL;
    if (ok)
        find_empty(&x);
    mem_free(x.parent);
    mem_free(x.waiting);
    mem_free(x.of_rule);
    mem_free(x.call);
    mem_free(x.next);
    mem_free(x.queue);
    return ok ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "no memory for a grammar");
}

/* ---- what comes first ---- */

typedef struct first_walk {
    const gbnf_tree *t;
    uint8_t *met; /* [n_nodes], enum met */
    struct {
        uint32_t node, next; /* next: the child to look at, RULES_NONE: done */
    } * stack;               /* [n_nodes] */
    uint32_t n;
    mote_error *err;
} first_walk;

enum met { MET_NOT = 0, MET_INSIDE, MET_DONE };

static void enter(first_walk *w, uint32_t node)
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

/* The child to look at after this one. */
static uint32_t next_after(const first_walk *w, uint32_t node, uint32_t child)
{
    const gbnf_kind kind = (gbnf_kind)w->t->nodes[node].kind;
    if (kind == GBNF_ANY_OF || (kind == GBNF_SEQUENCE && w->t->nodes[child].empty))
        return w->t->nodes[child].sibling;
    return RULES_NONE;
}

/* Only a call leads back to where the walk is inside already. */
static mote_status left_recursive(const first_walk *w, uint32_t call)
{
    const gbnf_rule *rule = &w->t->rules[w->t->nodes[call].first];
    return err_set(w->err, MOTE_E_ARG,
                   "the grammar, %s: the rule '%.*s' is left recursive: it can come to itself "
                   "before it has read anything. Write it with a repetition, as in a (\"+\" a)*",
                   gbnf_place_of(w->t->text, rule->at).text, STR_ARG(rule->name));
}

static mote_status walk_from(first_walk *w, uint32_t node)
{
    if (w->met[node] == MET_NOT)
        enter(w, node);
    while (w->n > 0) {
        const uint32_t at = w->stack[w->n - 1].node, child = w->stack[w->n - 1].next;
        if (child == RULES_NONE) {
            w->met[at] = MET_DONE;
            w->n--;
            continue;
        }
        w->stack[w->n - 1].next = next_after(w, at, child);
        if (w->met[child] == MET_INSIDE)
            return left_recursive(w, at);
        if (w->met[child] == MET_NOT)
            enter(w, child);
    }
    return MOTE_OK;
}

static mote_status check_first(const gbnf_tree *t, mote_error *err)
{
    first_walk w = {.t = t,
                    .met = mem_new(t->n_nodes, sizeof *w.met),
                    .stack = mem_new(t->n_nodes, sizeof *w.stack),
                    .err = err};
    mote_status status = MOTE_OK;
    if (w.met == NULL || w.stack == NULL)
        status = err_set(err, MOTE_E_MEMORY, "no memory for a grammar");
    for (uint32_t i = 0; i < t->n_rules && status == MOTE_OK; i++)
        status = walk_from(&w, t->rules[i].body);
    mem_free(w.met);
    mem_free(w.stack);
    return status;
}

/* Finds out which nodes can read nothing, and refuses left recursion. */
static mote_status gbnf_check(gbnf_tree *t, mote_error *err)
{
    TRY(check_empty(t, err));
    return check_first(t, err);
}

typedef struct maker {
    rules *r;
    const gbnf_tree *t;
    uint32_t *made[2]; /* [n_rules], rules; the second ones are hungry; RULES_NONE: not called */
    uint32_t *queue;   /* [2 * n_rules], rules to put: 2 * rule + hungry */
    uint32_t n_queue;
    mote_error *err;
} maker;

/* The depth of the calls is that of the groups, which is bounded. */
static mote_status put(maker *m, uint32_t node, uint32_t from, uint32_t to, bool hungry);

static uint32_t rule_of(maker *m, uint32_t rule, bool hungry)
{
    uint32_t *made = &m->made[hungry][rule];
    if (*made == RULES_NONE) {
        *made = rules_add(m->r);
        m->queue[m->n_queue++] = 2 * rule + hungry;
    }
    return *made;
}

/* ---- parts ---- */

/* Has it a character? What a negation leaves may be surrogates only, or nothing. */
static bool any_char(const char_range *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i].lo < 0xD800 || x[i].hi >= 0xE000)
            return true;
    return false;
}

static mote_status put_class(maker *m, const gbnf_node *node, uint32_t from, uint32_t to)
{
    const char_range *x = m->t->ranges.all + node->first;
    if (!any_char(x, node->n))
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

static mote_status put_sequence(maker *m, const gbnf_node *node, uint32_t from, uint32_t to)
{
    if (node->child == RULES_NONE)
        rules_skip(m->r, from, to);
    for (uint32_t c = node->child; c != RULES_NONE; c = m->t->nodes[c].sibling) {
        const uint32_t next = m->t->nodes[c].sibling == RULES_NONE ? to : rules_state(m->r);
        TRY(put(m, c, from, next, false));
        from = next;
    }
    return MOTE_OK;
}

/* All parts can read nothing, and one of them must not: states before it has come, and behind. */
static mote_status put_hungry_sequence(maker *m, const gbnf_node *node, uint32_t from, uint32_t to)
{
    uint32_t before = from, behind = RULES_NONE;
    for (uint32_t c = node->child; c != RULES_NONE; c = m->t->nodes[c].sibling) {
        const bool last = m->t->nodes[c].sibling == RULES_NONE;
        const uint32_t fed = last ? to : rules_state(m->r);
        TRY(put(m, c, before, fed, true));
        if (behind != RULES_NONE)
            TRY(put(m, c, behind, fed, false));
        behind = fed;
        if (last)
            break;
        const uint32_t next = rules_state(m->r);
        rules_skip(m->r, before, next);
        before = next;
    }
    return MOTE_OK;
}

/* Any number of times, or hungry: at least once. */
static mote_status put_circle(maker *m, const gbnf_node *node, uint32_t from, uint32_t to,
                              bool hungry)
{
    const bool once = node->min > 0 || hungry;
    const uint32_t before = rules_state(m->r), behind = once ? rules_state(m->r) : before;
    rules_skip(m->r, from, before);
    TRY(put(m, node->child, before, behind, hungry));
    if (once)
        rules_skip(m->r, behind, before);
    rules_skip(m->r, behind, to);
    return MOTE_OK;
}

/* A rule of one run, which reads something. */
static mote_status run_of(maker *m, uint32_t node, uint32_t *rule)
{
    const gbnf_node *body = &m->t->nodes[node];
    if (body->kind == GBNF_CALL) {
        *rule = rule_of(m, body->first, body->empty);
        return MOTE_OK;
    }
    *rule = rules_add(m->r);
    return put(m, node, rules_start_of(m->r, *rule), rules_end_of(m->r, *rule), true);
}

static mote_status put_repeat(maker *m, const gbnf_node *node, uint32_t from, uint32_t to,
                              bool hungry)
{
    if (node->max == RULES_NO_LIMIT && node->min <= 1)
        return put_circle(m, node, from, to, hungry);
    if (node->max <= 1) {
        if (node->min == 0 && !hungry)
            rules_skip(m->r, from, to);
        return node->max == 1 ? put(m, node->child, from, to, hungry) : MOTE_OK;
    }
    /* Runs that read nothing need not be counted. */
    uint32_t run, min = m->t->nodes[node->child].empty ? 0 : node->min;
    if (hungry && min == 0)
        min = 1;
    TRY(run_of(m, node->child, &run));
    rules_loop(m->r, from, run, min, node->max, to);
    return MOTE_OK;
}

static mote_status put(maker *m, uint32_t index, uint32_t from, uint32_t to, bool hungry)
{
    const gbnf_node *node = &m->t->nodes[index];
    hungry = hungry && node->empty;
    switch ((gbnf_kind)node->kind) {
    case GBNF_TEXT:
        if (!hungry) /* else it is "" */
            rules_literal_to(m->r, from, (str){strbuf_view(&m->t->bytes).p + node->first, node->n},
                             to);
        return MOTE_OK;
    case GBNF_CLASS: return put_class(m, node, from, to);
    case GBNF_CALL: rules_call(m->r, from, rule_of(m, node->first, hungry), to); return MOTE_OK;
    case GBNF_REPEAT: return put_repeat(m, node, from, to, hungry);
    case GBNF_SEQUENCE:
        return hungry ? put_hungry_sequence(m, node, from, to) : put_sequence(m, node, from, to);
    case GBNF_ANY_OF: break;
    }
    for (uint32_t c = node->child; c != RULES_NONE; c = m->t->nodes[c].sibling)
        TRY(put(m, c, from, to, hungry));
    return MOTE_OK;
}

/* ---- all of it ---- */

static mote_status put_rules(maker *m, uint32_t *rule)
{
    for (uint32_t i = 0; i < m->t->n_rules; i++)
        m->made[0][i] = m->made[1][i] = RULES_NONE;
    *rule = rule_of(m, m->t->root, false);
    for (uint32_t i = 0; i < m->n_queue && rules_ok(m->r); i++) {
        const uint32_t which = m->queue[i] / 2, hungry = m->queue[i] % 2;
        const uint32_t made = m->made[hungry][which];
        TRY(put(m, m->t->rules[which].body, rules_start_of(m->r, made), rules_end_of(m->r, made),
                hungry != 0));
    }
    return MOTE_OK;
}

static mote_status make(rules *r, const gbnf_tree *t, uint32_t *rule, mote_error *err)
{
    maker m = {.r = r,
               .t = t,
               .made = {mem_new(t->n_rules, sizeof **m.made), mem_new(t->n_rules, sizeof **m.made)},
               .queue = mem_new(2 * (size_t)t->n_rules, sizeof *m.queue),
               .err = err};
    const bool ok = m.made[0] != NULL && m.made[1] != NULL && m.queue != NULL;
    const mote_status status =
        ok ? put_rules(&m, rule) : err_set(err, MOTE_E_MEMORY, "no memory for a grammar");
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
        status = gbnf_check(&t, err);
    if (status == MOTE_OK)
        status = make(r, &t, rule, err);
    gbnf_tree_fini(&t);
    return status;
}
