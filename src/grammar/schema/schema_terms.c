/* SPDX-License-Identifier: Apache-2.0 */
/* schema_terms.c - conjunctions of schemas, each with its number; and the sets of texts. */
#include "grammar/schema/schema_int.h"

#include "grammar/rules/grow.h"

#include <stdlib.h>
#include <string.h>

static int by_node(const void *a, const void *b)
{
    const schema_term *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* In order, without repetitions and without schemas that say nothing. */
static uint32_t settle(schema_term *terms, uint32_t n)
{
    uint32_t kept = 0;
    if (n > 1)
        qsort(terms, n, sizeof *terms, by_node);
    for (uint32_t i = 0; i < n; i++) {
        const bool again = kept > 0 && by_node(&terms[i], &terms[kept - 1]) == 0;
        const bool any = terms[i].kind == TERM_SCHEMA && json_node_truth(terms[i].node);
        if (!again && !any)
            terms[kept++] = terms[i];
    }
    return kept;
}

static uint32_t slot_of(const schema_term *terms, uint32_t n)
{
    uint64_t h = n;
    for (uint32_t i = 0; i < n; i++)
        h = (h ^ ((uintptr_t)terms[i].node + terms[i].kind)) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 40) % CONJ_SLOTS;
}

static bool is_never(const schema_term *t)
{
    return t->kind == TERM_SCHEMA && json_node_is(t->node, JSON_IS_BOOL) &&
           !json_node_truth(t->node);
}

static bool same_terms(const schema_term *a, const schema_term *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (by_node(&a[i], &b[i]) != 0)
            return false;
    return true;
}

/* The terms from n_terms on are the new conjunction's, if there is no equal one. */
static mote_status number_terms(schema_compiler *c, uint32_t n, uint32_t *out)
{
    const schema_term *terms = c->terms + c->n_terms;
    if (n == 0) {
        *out = CONJ_ANY;
        return MOTE_OK;
    }
    for (uint32_t i = 0; i < n; i++)
        if (is_never(&terms[i])) {
            *out = CONJ_NEVER;
            return MOTE_OK;
        }
    uint32_t *slot = &c->conj_slots[slot_of(terms, n)];
    for (uint32_t k = *slot; k != 0; k = c->conjs[k - 1].next) {
        const schema_conj *known = &c->conjs[k - 1];
        if (known->n == n && same_terms(c->terms + known->first, terms, n)) {
            *out = k - 1;
            return MOTE_OK;
        }
    }
    if (!grow_for(&c->conjs, c->n_conjs, &c->conjs_room, sizeof *c->conjs))
        return schema_no_memory(c);
    c->conjs[c->n_conjs] =
        (schema_conj){.first = c->n_terms, .n = n, .rule = RULES_NONE, .next = *slot};
    c->n_terms += n;
    *out = c->n_conjs++;
    *slot = c->n_conjs;
    return MOTE_OK;
}

mote_status schema_conj_of(schema_compiler *c, const schema_term *terms, uint32_t n, uint32_t *out)
{
    if (!grow_for(&c->terms, c->n_terms + n, &c->terms_room, sizeof *c->terms))
        return schema_no_memory(c);
    if (n > 0)
        memcpy(c->terms + c->n_terms, terms, n * sizeof *terms);
    return number_terms(c, settle(c->terms + c->n_terms, n), out);
}

mote_status schema_conj_one(schema_compiler *c, const json_node *schema, term_kind kind,
                            uint32_t *out)
{
    const schema_term term = {schema, (uint8_t)kind};
    return schema_conj_of(c, &term, schema != NULL, out);
}

mote_status schema_conj_both(schema_compiler *c, uint32_t a, uint32_t b, uint32_t *out)
{
    if (a == CONJ_NEVER || b == CONJ_NEVER || a == b || b == CONJ_ANY) {
        *out = a == CONJ_NEVER || b == CONJ_NEVER ? CONJ_NEVER : a;
        return MOTE_OK;
    }
    const schema_conj x = c->conjs[a], y = c->conjs[b];
    if (!grow_for(&c->terms, c->n_terms + x.n + y.n, &c->terms_room, sizeof *c->terms))
        return schema_no_memory(c);
    schema_term *terms = c->terms + c->n_terms;
    memcpy(terms, c->terms + x.first, x.n * sizeof *terms);
    memcpy(terms + x.n, c->terms + y.first, y.n * sizeof *terms);
    return number_terms(c, settle(terms, x.n + y.n), out);
}

mote_status schema_add_set(schema_compiler *c, dfa *set, uint32_t *out)
{
    if (!grow_for(&c->sets, c->n_sets, &c->sets_room, sizeof *c->sets)) {
        dfa_fini(set);
        return schema_no_memory(c);
    }
    c->sets[c->n_sets] = (schema_set){*set, RULES_NONE};
    *out = c->n_sets++;
    *set = (dfa){0};
    return MOTE_OK;
}

mote_status schema_both_sets(schema_compiler *c, uint32_t a, uint32_t b, uint32_t *out)
{
    if (a == SCHEMA_NONE || b == SCHEMA_NONE || a == b) {
        *out = a == SCHEMA_NONE ? b : a;
        return MOTE_OK;
    }
    const uint32_t known = c->joined.n;
    const uint32_t joint = pairs_number(&c->joined, a < b ? a : b, a < b ? b : a);
    if (joint == UINT32_MAX || !grow_for(&c->joints, joint, &c->joints_room, sizeof *c->joints))
        return schema_no_memory(c);
    if (joint == known)
        c->joints[joint] = SCHEMA_NONE;
    if (c->joints[joint] == SCHEMA_NONE) {
        dfa both;
        TRY(dfa_combine(&both, &c->sets[a].texts, DFA_BOTH, &c->sets[b].texts, c->fuel, c->err));
        TRY(schema_add_set(c, &both, &c->joints[joint]));
    }
    *out = c->joints[joint];
    return MOTE_OK;
}
