/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_object.c - objects: listed members in the order of the schema, then unlisted ones.
 *
 * Members that are not required may be skipped. The states form two chains along the list of
 * names: after a member, and after a comma (a member must follow). If the number of members is
 * limited, each chain exists once per count.
 *
 * Unlisted members: those that match patternProperties, and those that additionalProperties
 * allows. Without additionalProperties an object with `properties` has no others (schema_closes),
 * unless minProperties needs more members than are listed.
 *
 * Unlisted names may be generated twice; no finite automaton can prevent that. So only one unlisted
 * member counts towards minProperties, while all of them count towards maxProperties.
 */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"
#include "grammar/rules/rules.h"

enum { MAX_CELLS = 20000, MAX_REGIONS = 256 };

/* ---- unlisted names ----
 *
 * The set of unlisted names is divided into regions: names that match the same patterns of
 * patternProperties and therefore have the same value schema. */

typedef struct region {
    uint32_t set; /* of names */
    uint32_t conj;
    bool named;    /* a pattern of the current layer matches them */
    bool declared; /* a pattern of any layer matches them */
} region;

typedef struct member {
    str name;
    uint32_t rule; /* the name, a colon and the value */
    bool required;
    bool never; /* no value is allowed */
} member;

typedef struct object {
    schema_compiler *c;
    const schema_shape *shape;
    member *members;
    uint32_t n;
    region *regions;
    uint32_t n_regions, regions_room;
    uint32_t other; /* rule of an unlisted member, or RULES_NONE */
    bool closed;    /* only declared names */
} object;

/* Splits a region by a set of names. Names in the set stay and must satisfy `conj` too; the others
 * become a new region. */
static mote_status cut_region(object *o, uint32_t i, uint32_t set, uint32_t conj)
{
    schema_compiler *c = o->c;
    dfa inside, outside;
    uint32_t in, out;
    TRY(dfa_combine(&inside, &c->sets[o->regions[i].set].texts, DFA_INTERSECT, &c->sets[set].texts,
                    c->fuel, c->err));
    const bool has_inside = !dfa_empty(&inside);
    TRY(schema_add_set(c, &inside, &in));
    if (!has_inside)
        return MOTE_OK;
    TRY(dfa_combine(&outside, &c->sets[o->regions[i].set].texts, DFA_SUBTRACT, &c->sets[set].texts,
                    c->fuel, c->err));
    const bool has_outside = !dfa_empty(&outside);
    TRY(schema_add_set(c, &outside, &out));
    if (has_outside && o->n_regions == MAX_REGIONS)
        return err_set(c->err, MOTE_E_ARG,
                       "schema too complex: patternProperties overlap in more than %d ways",
                       MAX_REGIONS);
    if (has_outside) {
        if (!mem_grow(&o->regions, o->n_regions, &o->regions_room, sizeof *o->regions))
            return schema_no_memory(c);
        o->regions[o->n_regions] = o->regions[i];
        o->regions[o->n_regions++].set = out;
    }
    o->regions[i].set = in;
    o->regions[i].named = o->regions[i].declared = true;
    return schema_conj_and(c, o->regions[i].conj, conj, &o->regions[i].conj);
}

/* Splits the regions by the patterns of a layer and adds its value schemas to them. */
static mote_status cut_by_layer(object *o, const schema_layer *layer)
{
    schema_compiler *c = o->c;
    for (uint32_t i = 0; i < o->n_regions; i++)
        o->regions[i].named = false;
    for (const json_node *p = json_node_first(layer->patterns); p != NULL; p = json_node_next(p)) {
        uint32_t set, conj;
        TRY(schema_pattern_set(c, p, json_node_name(p), "patternProperties", &set));
        TRY(schema_conj_one(c, p, TERM_SCHEMA, &conj));
        o->closed = o->closed && set != SCHEMA_NONE; /* an ignored pattern: names are not known */
        const uint32_t n = o->n_regions;
        for (uint32_t i = 0; i < n && set != SCHEMA_NONE; i++)
            TRY(cut_region(o, i, set, conj));
    }
    for (uint32_t i = 0; i < o->n_regions; i++)
        if (!o->regions[i].named)
            TRY(schema_conj_and(c, o->regions[i].conj, layer->additional, &o->regions[i].conj));
    return MOTE_OK;
}

/* All names except the listed ones. */
static mote_status other_names(object *o, uint32_t *set)
{
    schema_compiler *c = o->c;
    str *words = mem_new((size_t)o->n + 1, sizeof *words);
    if (words == NULL)
        return schema_no_memory(c);
    for (uint32_t i = 0; i < o->n; i++)
        words[i] = o->members[i].name;
    dfa listed, all;
    mote_status status = dfa_words(&listed, words, o->n, c->fuel, c->err);
    mem_free(words);
    TRY(status);
    status = dfa_length(&all, 0, RULES_NO_LIMIT, c->fuel, c->err);
    if (status == MOTE_OK)
        status = dfa_apply(&all, DFA_SUBTRACT, &listed, c->fuel, c->err);
    dfa_fini(&listed);
    if (status != MOTE_OK) {
        dfa_fini(&all);
        return status;
    }
    TRY(schema_add_set(c, &all, set));
    return schema_intersect_sets(c, *set, o->shape->names, set);
}

/* ---- members as rules ---- */

static mote_status put_member_value(schema_compiler *c, uint32_t from, uint32_t conj, uint32_t rule)
{
    uint32_t value;
    TRY(schema_rule(c, conj, &value));
    rules_call(c->r, json_rules_open(c->r, from, ':'), value, rules_end_of(c->r, rule));
    return MOTE_OK;
}

static mote_status put_region(object *o, const region *x)
{
    schema_compiler *c = o->c;
    if (x->conj == CONJ_NEVER || dfa_empty(&c->sets[x->set].texts))
        return MOTE_OK;
    if (o->other == RULES_NONE)
        o->other = rules_add(c->r);
    const uint32_t open = rules_state(c->r), close = rules_state(c->r), after = rules_state(c->r);
    rules_read(c->r, rules_start_of(c->r, o->other), '"', '"', open);
    TRY(dfa_put_json(c->r, &c->sets[x->set].texts, open, close, c->err));
    rules_read(c->r, close, '"', '"', after);
    return put_member_value(c, after, x->conj, o->other);
}

/* Computes the regions of the unlisted names and writes the rule o->other. */
static mote_status find_others(object *o)
{
    schema_compiler *c = o->c;
    o->other = RULES_NONE;
    if (!mem_grow(&o->regions, 0, &o->regions_room, sizeof *o->regions))
        return schema_no_memory(c);
    o->n_regions = 1;
    o->regions[0] = (region){.conj = CONJ_ANY};
    TRY(other_names(o, &o->regions[0].set));
    for (uint32_t i = o->shape->layers; i != SCHEMA_NONE; i = c->layers[i].next) {
        const schema_layer layer = c->layers[i];
        TRY(cut_by_layer(o, &layer));
    }
    for (uint32_t i = 0; i < o->n_regions; i++)
        if (!o->closed || o->regions[i].declared)
            TRY(put_region(o, &o->regions[i]));
    return MOTE_OK;
}

static mote_status put_object_member(object *o, member *m)
{
    schema_compiler *c = o->c;
    uint32_t conj;
    TRY(schema_member_conj(c, o->shape, m->name, &conj));
    m->rule = rules_add(c->r);
    m->never = conj == CONJ_NEVER;
    if (m->never)
        return MOTE_OK; /* a rule that matches nothing */
    strbuf quoted = {0};
    json_put_string(&quoted, m->name);
    mote_status status = strbuf_check(&quoted, c->err);
    const uint32_t after = rules_literal(c->r, rules_start_of(c->r, m->rule), strbuf_view(&quoted));
    strbuf_fini(&quoted);
    TRY(status);
    return put_member_value(c, after, conj, m->rule);
}

static mote_status names_add(schema_compiler *c, schema_names *names, str name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (str_eq(names->items[i], name))
            return MOTE_OK;
    if (!mem_grow(&names->items, names->n, &names->room, sizeof *names->items))
        return schema_no_memory(c);
    names->items[names->n++] = name;
    return MOTE_OK;
}

static mote_status names_add_layer(schema_compiler *c, const schema_layer *layer,
                                   schema_names *names)
{
    for (const json_node *p = json_node_first(layer->properties); p != NULL; p = json_node_next(p))
        TRY(names_add(c, names, json_node_name(p)));
    if (layer->absent.p != NULL)
        TRY(names_add(c, names, layer->absent));
    if (layer->negated.p != NULL)
        TRY(names_add(c, names, layer->negated));
    return MOTE_OK;
}

/* The lists of a shape are in reverse order. Names that are only in `required` come last. */
mote_status schema_member_names(schema_compiler *c, const schema_shape *shape, schema_names *names)
{
    uint32_t order[SCHEMA_MAX_LAYERS], n = 0;
    for (uint32_t i = shape->layers; i != SCHEMA_NONE && n < SCHEMA_MAX_LAYERS;
         i = c->layers[i].next)
        order[n++] = i;
    while (n-- > 0) {
        const schema_layer layer = c->layers[order[n]];
        TRY(names_add_layer(c, &layer, names));
    }
    const uint32_t named = names->n;
    for (uint32_t i = shape->required; i != SCHEMA_NONE; i = c->names[i].next)
        TRY(names_add(c, names, c->names[i].text));
    for (uint32_t i = named, k = names->n; i + 1 < k; i++) {
        const str swap = names->items[--k];
        names->items[k] = names->items[i];
        names->items[i] = swap;
    }
    return MOTE_OK;
}

static mote_status list_members(object *o)
{
    schema_names names = {0};
    mote_status status = schema_member_names(o->c, o->shape, &names);
    if (status == MOTE_OK) {
        o->members = mem_new((size_t)names.n + 1, sizeof *o->members);
        status = o->members == NULL ? schema_no_memory(o->c) : MOTE_OK;
    }
    for (uint32_t i = 0; status == MOTE_OK && i < names.n; i++) {
        o->members[i] = (member){.name = names.items[i],
                                 .required = schema_requires(o->c, o->shape, names.items[i])};
        o->n++;
        status = put_object_member(o, &o->members[i]);
    }
    mem_free(names.items);
    return status;
}

/* Whether the object has only declared members. If minProperties needs more than the listed ones,
 * the schema requires others. */
static bool object_is_closed(const object *o)
{
    uint32_t listed = 0;
    for (uint32_t i = 0; i < o->n; i++)
        listed += !o->members[i].never;
    return schema_closes(o->c, o->shape) && o->shape->min <= listed;
}

/* ---- the chains of states ---- */

/* States by position in the list of members and by count. */
typedef struct chains {
    object *o;
    uint32_t n, cap;        /* members; counts above cap are treated as cap */
    uint32_t *after_member; /* [n + 1][cap + 1]: after a member */
    uint32_t *after_comma;  /* [n + 1][cap + 1]: after a comma, a member must follow */
    uint32_t from, to;
} chains;

static uint32_t chain_cell(const chains *x, uint32_t i, uint32_t count)
{
    return i * (x->cap + 1) + count;
}

static uint32_t chain_count(const chains *x, uint32_t count)
{
    return count + 1 < x->cap ? count + 1 : x->cap;
}

/* May another member follow `count` members? */
static bool chain_has_room(const chains *x, uint32_t count)
{
    return count < x->o->shape->max;
}

/* The position after the last required member, from which the object may be closed. */
static uint32_t last_required(const object *o)
{
    uint32_t last = 0;
    for (uint32_t i = 0; i < o->n; i++)
        if (o->members[i].required)
            last = i + 1;
    return last;
}

static void put_named(chains *x, uint32_t i, uint32_t count)
{
    rules *r = x->o->c->r;
    const member *m = &x->o->members[i];
    const uint32_t after_comma = x->after_comma[chain_cell(x, i, count)];
    if (chain_has_room(x, count))
        rules_call(r, after_comma, m->rule,
                   x->after_member[chain_cell(x, i + 1, chain_count(x, count))]);
    if (!m->required)
        rules_skip(r, after_comma, x->after_comma[chain_cell(x, i + 1, count)]);
}

/* Unlisted members, after `named` listed ones. */
static void put_others(chains *x, uint32_t after_comma, uint32_t named)
{
    object *o = x->o;
    rules *r = o->c->r;
    const uint32_t max = o->shape->max;
    if (o->other == RULES_NONE || named >= max || named + 1 < o->shape->min)
        return;
    const uint32_t first = rules_state(r), after = rules_state(r), further = rules_add(r);
    rules_call(r, after_comma, o->other, first);
    rules_call(r, json_rules_open(r, rules_start_of(r, further), ','), o->other,
               rules_end_of(r, further));
    rules_loop(r, first, further, 0, max == RULES_NO_LIMIT ? max : max - named - 1, after);
    json_rules_close(r, after, '}', x->to);
}

static void put_chains(chains *x)
{
    object *o = x->o;
    rules *r = o->c->r;
    const uint32_t cells = (x->n + 1) * (x->cap + 1), closable = last_required(o);
    for (uint32_t i = 0; i < cells && rules_ok(r); i++) {
        x->after_member[i] = rules_state(r);
        x->after_comma[i] = rules_state(r);
    }
    /* The start is like the state after a comma, except that the object may be closed. */
    const uint32_t open = json_rules_open(r, x->from, '{');
    rules_skip(r, open, x->after_comma[chain_cell(x, 0, 0)]);
    if (closable == 0 && o->shape->min == 0)
        rules_read(r, open, '}', '}', x->to);
    for (uint32_t count = 0; count <= x->cap && rules_ok(r); count++) {
        for (uint32_t i = 0; i < x->n; i++)
            put_named(x, i, count);
        put_others(x, x->after_comma[chain_cell(x, x->n, count)], count);
        for (uint32_t i = 0; i <= x->n; i++) {
            const uint32_t at = x->after_member[chain_cell(x, i, count)];
            if (chain_has_room(x, count))
                rules_skip(r, json_rules_open(r, at, ','), x->after_comma[chain_cell(x, i, count)]);
            if (i >= closable && count >= o->shape->min)
                json_rules_close(r, at, '}', x->to);
        }
    }
}

static mote_status put_members(object *o, uint32_t from, uint32_t to)
{
    const schema_shape *shape = o->shape;
    chains x = {.o = o, .n = o->n, .from = from, .to = to};
    const uint32_t most = o->n + 1;
    /* Counts matter up to the larger limit. */
    const uint32_t limit = shape->max == RULES_NO_LIMIT ? shape->min : shape->max;
    x.cap = limit < most ? limit : most;
    if ((uint64_t)(o->n + 1) * (x.cap + 1) > MAX_CELLS)
        return schema_unsupported(o->c, o->c->where, "minProperties and maxProperties",
                                  "too many properties");
    const size_t cells = (size_t)(x.n + 1) * (x.cap + 1);
    x.after_member = mem_new(cells, sizeof *x.after_member);
    x.after_comma = mem_new(cells, sizeof *x.after_comma);
    const bool ok = x.after_member != NULL && x.after_comma != NULL;
    if (ok)
        put_chains(&x);
    mem_free(x.after_member);
    mem_free(x.after_comma);
    return ok ? MOTE_OK : schema_no_memory(o->c);
}

/* A minimum above the listed members plus one would need several different unlisted names. */
static mote_status check_minimum(object *o, schema_shape *shape)
{
    if (shape->min <= o->n + 1 || o->other == RULES_NONE)
        return MOTE_OK;
    TRY(schema_ignore(o->c, o->c->where, "minProperties",
                      "larger than the number of listed properties plus one"));
    shape->min = o->n + 1;
    return MOTE_OK;
}

mote_status schema_put_object(schema_compiler *c, const schema_shape *shape, uint32_t from,
                              uint32_t to)
{
    schema_shape own = *shape;
    if (own.layers == SCHEMA_NONE && own.required == SCHEMA_NONE && own.names == SCHEMA_NONE &&
        own.min == 0 && own.max == RULES_NO_LIMIT) {
        rules_call(c->r, from, json_rules_any_object(c->r), to);
        return MOTE_OK;
    }
    object o = {.c = c, .shape = &own};
    mote_status status = list_members(&o);
    o.closed = object_is_closed(&o);
    if (status == MOTE_OK)
        status = find_others(&o);
    if (status == MOTE_OK)
        status = check_minimum(&o, &own);
    if (status == MOTE_OK)
        status = put_members(&o, from, to);
    mem_free(o.members);
    mem_free(o.regions);
    return status;
}
