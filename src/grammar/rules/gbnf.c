/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf.c - a grammar's tree to rules over bytes.
 *
 * Each part leads from one state to another. What is repeated without a limit is a circle of
 * states; what is counted is a rule of its own, and since a counted run has to read something, a
 * part that can read nothing is put there without that possibility: "hungry". A rule of the grammar
 * is made when it is first called, in one or both of these ways.
 */
#include "grammar/rules/gbnf.h"

#include "grammar/rules/dfa.h"
#include "grammar/rules/gbnf_ast.h"
#include "base/mem.h"

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
static bool any_char(const range *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i].lo < 0xD800 || x[i].hi >= 0xE000)
            return true;
    return false;
}

static mote_status put_class(maker *m, const gbnf_node *node, uint32_t from, uint32_t to)
{
    const range *x = m->t->ranges.all + node->first;
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
