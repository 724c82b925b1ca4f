/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_terms.c - the lowest layer of the schema compiler: diagnostics, interned conjunctions,
 * DFAs of texts, the conjunction of an object member, the rule of a conjunction.
 */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"
#include "grammar/rules/regex.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- diagnostics ---- */

/* Appends a name to a JSON pointer. */
static size_t pointer_append(char *out, size_t room, str name)
{
    size_t n = 0;
    out[n++] = '/';
    for (size_t i = 0; i < name.n && n + 3 < room; i++) {
        const char c = name.p[i];
        out[n++] = c == '~' || c == '/' ? '~' : c;
        if (c == '~' || c == '/')
            out[n++] = c == '~' ? '0' : '1';
    }
    out[n] = 0;
    return n;
}

/* Writes the JSON pointer of a node ("#/properties/a"), truncated if it is long. */
static void pointer_write(const schema_compiler *c, const json_node *goal, char *out, size_t room)
{
    size_t n = 0;
    const json_node *at = c->root;
    out[n++] = '#';
    out[n] = 0;
    while (goal != NULL && at != NULL && at != goal && n + 16 < room) {
        const json_node *child = json_node_first(at);
        unsigned index = 0;
        for (const json_node *next; child != NULL; child = next, index++) {
            next = json_node_next(child);
            if (next == NULL || next > goal)
                break;
        }
        if (child == NULL || child > goal)
            return;
        if (json_node_is(at, JSON_IS_ARRAY))
            n += (size_t)snprintf(out + n, room - n, "/%u", index);
        else
            n += pointer_append(out + n, room - n, json_node_name(child));
        at = child;
    }
}

/* "#/properties/a/pattern": the JSON pointer of a keyword of `schema`, cut if it is long; if it has
 * no such keyword, of the schema itself. */
typedef struct schema_place {
    char text[200];
} schema_place;
static schema_place schema_place_of(const schema_compiler *c, const json_node *schema,
                                    const char *keyword)
{
    schema_place place;
    pointer_write(c, schema, place.text, sizeof place.text);
    const size_t n = strlen(place.text);
    if (json_node_get(schema, keyword) != NULL && n + 16 < sizeof place.text)
        pointer_append(place.text + n, sizeof place.text - n, str_of(keyword));
    return place;
}

mote_status schema_unsupported(schema_compiler *c, const json_node *schema, const char *keyword,
                               const char *why)
{
    return err_set(c->err, MOTE_E_UNSUPPORTED, "schema: '%s' at '%s' is not supported%s%s", keyword,
                   schema_place_of(c, schema, keyword).text, why != NULL ? ": " : "",
                   why != NULL ? why : "");
}

void schema_warn(schema_compiler *c, const json_node *schema, const char *keyword, const char *why)
{
    char place[200];
    if (c->warnings == NULL)
        return;
    pointer_write(c, schema, place, sizeof place);
    strbuf_text(c->warnings, "'");
    strbuf_text(c->warnings, keyword);
    strbuf_text(c->warnings, "' at '");
    strbuf_text(c->warnings, place);
    strbuf_text(c->warnings, "' ");
    strbuf_text(c->warnings, why);
    strbuf_byte(c->warnings, '\n');
}

mote_status schema_ignore(schema_compiler *c, const json_node *schema, const char *keyword,
                          const char *why)
{
    if (!schema_may_ignore(c))
        return schema_unsupported(c, schema, keyword, why);
    if (!c->loose)
        schema_warn(c, schema, keyword, "is not supported and is ignored");
    return MOTE_OK;
}

mote_status schema_invalid(schema_compiler *c, const json_node *schema, const char *keyword)
{
    char place[200];
    pointer_write(c, schema, place, sizeof place);
    if (keyword == NULL)
        return err_set(c->err, MOTE_E_FORMAT,
                       "invalid schema: '%s' must be an object, true or false", place);
    return err_set(c->err, MOTE_E_FORMAT, "invalid schema: invalid value of '%s' at '%s'", keyword,
                   schema_place_of(c, schema, keyword).text);
}

/* ---- conjunctions ---- */

static int compare_terms(const void *a, const void *b)
{
    const schema_term *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Sorts; removes duplicates and schemas that are `true`. Returns the number left. */
static uint32_t normalize_terms(schema_term *terms, uint32_t n)
{
    uint32_t kept = 0;
    if (n > 1)
        qsort(terms, n, sizeof *terms, compare_terms);
    for (uint32_t i = 0; i < n; i++) {
        const bool again = kept > 0 && compare_terms(&terms[i], &terms[kept - 1]) == 0;
        const bool any = terms[i].kind == TERM_SCHEMA && json_node_truth(terms[i].node);
        if (!again && !any)
            terms[kept++] = terms[i];
    }
    return kept;
}

static uint32_t terms_slot(const schema_term *terms, uint32_t n)
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
        if (compare_terms(&a[i], &b[i]) != 0)
            return false;
    return true;
}

/* The conjunction of the n terms after the stored ones, which is added if it is new. */
static mote_status intern_terms(schema_compiler *c, uint32_t n, uint32_t *out)
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
    uint32_t *slot = &c->conj_slots[terms_slot(terms, n)];
    for (uint32_t k = *slot; k != 0; k = c->conjs[k - 1].next) {
        const schema_conj *known = &c->conjs[k - 1];
        if (known->n == n && same_terms(c->terms + known->first, terms, n)) {
            *out = k - 1;
            return MOTE_OK;
        }
    }
    if (!mem_grow(&c->conjs, c->n_conjs, &c->conjs_room, sizeof *c->conjs))
        return schema_no_memory(c);
    c->conjs[c->n_conjs] =
        (schema_conj){.first = c->n_terms, .n = n, .rule = RULES_NONE, .next = *slot};
    c->n_terms += n;
    *out = c->n_conjs++;
    *slot = c->n_conjs;
    return MOTE_OK;
}

/* The number of the conjunction of these terms; equal conjunctions have one number. */
static mote_status schema_conj_of(schema_compiler *c, const schema_term *terms, uint32_t n,
                                  uint32_t *out)
{
    if (!mem_grow(&c->terms, c->n_terms + n, &c->terms_room, sizeof *c->terms))
        return schema_no_memory(c);
    if (n > 0)
        memcpy(c->terms + c->n_terms, terms, n * sizeof *terms);
    return intern_terms(c, normalize_terms(c->terms + c->n_terms, n), out);
}

mote_status schema_conj_one(schema_compiler *c, const json_node *schema, term_kind kind,
                            uint32_t *out)
{
    const schema_term term = {schema, (uint8_t)kind};
    return schema_conj_of(c, &term, schema != NULL, out);
}

mote_status schema_conj_and(schema_compiler *c, uint32_t a, uint32_t b, uint32_t *out)
{
    if (a == CONJ_NEVER || b == CONJ_NEVER || a == b || b == CONJ_ANY) {
        *out = a == CONJ_NEVER || b == CONJ_NEVER ? CONJ_NEVER : a;
        return MOTE_OK;
    }
    const schema_conj x = c->conjs[a], y = c->conjs[b];
    if (!mem_grow(&c->terms, c->n_terms + x.n + y.n, &c->terms_room, sizeof *c->terms))
        return schema_no_memory(c);
    schema_term *terms = c->terms + c->n_terms;
    memcpy(terms, c->terms + x.first, x.n * sizeof *terms);
    memcpy(terms + x.n, c->terms + y.first, y.n * sizeof *terms);
    return intern_terms(c, normalize_terms(terms, x.n + y.n), out);
}

mote_status schema_add_set(schema_compiler *c, dfa *set, uint32_t *out)
{
    if (!mem_grow(&c->sets, c->n_sets, &c->sets_room, sizeof *c->sets)) {
        dfa_fini(set);
        return schema_no_memory(c);
    }
    c->sets[c->n_sets] = (schema_set){*set, RULES_NONE};
    *out = c->n_sets++;
    *set = (dfa){0};
    return MOTE_OK;
}

mote_status schema_intersect_sets(schema_compiler *c, uint32_t a, uint32_t b, uint32_t *out)
{
    if (a == SCHEMA_NONE || b == SCHEMA_NONE || a == b) {
        *out = a == SCHEMA_NONE ? b : a;
        return MOTE_OK;
    }
    const uint32_t known = c->intersected.n;
    const uint32_t pair = dfa_pairs_intern(&c->intersected, a < b ? a : b, a < b ? b : a);
    if (pair == UINT32_MAX ||
        !mem_grow(&c->intersections, pair, &c->intersections_room, sizeof *c->intersections))
        return schema_no_memory(c);
    if (pair == known)
        c->intersections[pair] = SCHEMA_NONE;
    if (c->intersections[pair] == SCHEMA_NONE) {
        dfa both;
        TRY(dfa_combine(&both, &c->sets[a].texts, DFA_INTERSECT, &c->sets[b].texts, c->fuel,
                        c->err));
        TRY(schema_add_set(c, &both, &c->intersections[pair]));
    }
    *out = c->intersections[pair];
    return MOTE_OK;
}

mote_status schema_pattern_set(schema_compiler *c, const json_node *schema, str pattern,
                               const char *name, uint32_t *set)
{
    dfa found;
    for (uint32_t i = 0; i < c->n_patterns; i++)
        if (str_eq(c->patterns[i].text, pattern)) {
            *set = c->patterns[i].set;
            return MOTE_OK;
        }
    *set = SCHEMA_NONE;
    const mote_status status = regex_compile(&found, pattern, REGEX_SEARCH, c->fuel, c->err);
    if (status == MOTE_E_UNSUPPORTED && schema_may_ignore(c))
        return schema_ignore(c, schema, name, "the pattern is not regular");
    if ((status == MOTE_E_ARG || status == MOTE_E_UNSUPPORTED) && c->err != NULL)
        err_prefix(c->err, schema_place_of(c, schema, name).text);
    TRY(status);
    TRY(schema_add_set(c, &found, set));
    if (!mem_grow(&c->patterns, c->n_patterns, &c->patterns_room, sizeof *c->patterns))
        return schema_no_memory(c);
    c->patterns[c->n_patterns++] = (schema_pattern){pattern, *set};
    return MOTE_OK;
}

/* ---- members of objects ---- */

bool schema_requires(const schema_compiler *c, const schema_shape *shape, str name)
{
    for (uint32_t i = shape->required; i != SCHEMA_NONE; i = c->names[i].next)
        if (str_eq(c->names[i].text, name))
            return true;
    return false;
}

bool schema_closes(const schema_compiler *c, const schema_shape *shape)
{
    bool closes = false;
    if (c->open_objects)
        return false;
    for (uint32_t i = shape->layers; i != SCHEMA_NONE; i = c->layers[i].next) {
        if (c->layers[i].opens)
            return false;
        closes = closes || c->layers[i].closes;
    }
    return closes;
}

mote_status schema_declares(schema_compiler *c, const schema_shape *shape, str name, bool *out)
{
    *out = schema_requires(c, shape, name);
    for (uint32_t i = shape->layers; i != SCHEMA_NONE && !*out; i = c->layers[i].next) {
        const schema_layer layer = c->layers[i];
        *out = json_node_member(layer.properties, name) != NULL;
        for (const json_node *p = json_node_first(layer.patterns); p != NULL && !*out;
             p = json_node_next(p)) {
            uint32_t set;
            TRY(schema_pattern_set(c, p, json_node_name(p), "patternProperties", &set));
            *out = set == SCHEMA_NONE || dfa_accepts(&c->sets[set].texts, name);
        }
    }
    return MOTE_OK;
}

static mote_status add_conj(schema_compiler *c, uint32_t *conj, const json_node *schema,
                            term_kind kind)
{
    uint32_t one;
    TRY(schema_conj_one(c, schema, kind, &one));
    return schema_conj_and(c, *conj, one, conj);
}

/* Adds to *conj what a layer requires of the member `name`: its schema in `properties` and those of
 * all matching patterns; if there are none, `additional`. */
static mote_status layer_member(schema_compiler *c, const schema_layer *layer, str name,
                                uint32_t *conj)
{
    if (layer->absent.p != NULL && str_eq(layer->absent, name)) {
        *conj = CONJ_NEVER;
        return MOTE_OK;
    }
    if (layer->negated.p != NULL && str_eq(layer->negated, name))
        return add_conj(c, conj, layer->negated_by, TERM_NOT);
    const json_node *own = json_node_member(layer->properties, name);
    bool named = own != NULL;
    if (named)
        TRY(add_conj(c, conj, own, layer->constant ? TERM_CONST : TERM_SCHEMA));
    for (const json_node *p = json_node_first(layer->patterns); p != NULL; p = json_node_next(p)) {
        uint32_t set;
        TRY(schema_pattern_set(c, p, json_node_name(p), "patternProperties", &set));
        if (set == SCHEMA_NONE || !dfa_accepts(&c->sets[set].texts, name))
            continue;
        named = true;
        TRY(add_conj(c, conj, p, TERM_SCHEMA));
    }
    return named ? MOTE_OK : schema_conj_and(c, *conj, layer->additional, conj);
}

mote_status schema_member_conj(schema_compiler *c, const schema_shape *shape, str name,
                               uint32_t *conj)
{
    *conj = CONJ_ANY;
    for (uint32_t i = shape->layers; i != SCHEMA_NONE && *conj != CONJ_NEVER;
         i = c->layers[i].next) {
        const schema_layer layer = c->layers[i];
        TRY(layer_member(c, &layer, name, conj));
    }
    if (shape->names != SCHEMA_NONE && !dfa_accepts(&c->sets[shape->names].texts, name))
        *conj = CONJ_NEVER;
    return MOTE_OK;
}

/* ---- rules ---- */

void schema_set_where(schema_compiler *c, uint32_t conj)
{
    if (conj != CONJ_ANY && conj != CONJ_NEVER)
        c->where = c->terms[c->conjs[conj].first].node;
}

mote_status schema_rule(schema_compiler *c, uint32_t conj, uint32_t *rule)
{
    schema_conj *x = &c->conjs[conj];
    if (conj == CONJ_ANY) {
        *rule = json_rules_any(c->r);
        return MOTE_OK;
    }
    if (x->rule == RULES_NONE) {
        x->rule = rules_add(c->r);
        if (conj != CONJ_NEVER) {
            if (!mem_grow(&c->todo, c->n_todo, &c->todo_room, sizeof *c->todo))
                return schema_no_memory(c);
            c->todo[c->n_todo++] = conj;
        }
    }
    *rule = x->rule;
    return MOTE_OK;
}
