/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf_check.c - which parts of a grammar can read nothing, and which rules come to themselves
 * before they have read anything.
 *
 * Both are linear in the tree. The first goes upwards from what is empty by itself: each node waits
 * for as many of its children as it needs. The second is a walk in depth along what can come first;
 * a rule that is met while the walk is inside it is left recursive.
 */
#include "grammar/rules/gbnf_ast.h"

#include "base/mem.h"

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

mote_status gbnf_check(gbnf_tree *t, mote_error *err)
{
    TRY(check_empty(t, err));
    return check_first(t, err);
}
