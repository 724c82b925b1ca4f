/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.c - compiles a schema: every conjunction it meets becomes a rule.
 *
 * A rule is made when it is first called and gets its body from a list of things
 * to do, so a schema that calls itself ends, and no depth of a document is a depth
 * of calls.
 */
#include "grammar/schema/schema_int.h"

#include "grammar/rules/grow.h"
#include "grammar/rules/json_rules.h"

#include <stdio.h>
#include <string.h>

/* ---- messages ---- */

/* A name as a part of a JSON pointer. */
static size_t put_part(char *out, size_t room, str name)
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

/* "#/properties/a", a JSON pointer, cut if it is long. */
static void describe_place(const schema_compiler *c, const json_node *goal, char *out, size_t room)
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
            n += put_part(out + n, room - n, json_node_name(child));
        at = child;
    }
}

schema_place schema_place_of(const schema_compiler *c, const json_node *schema, const char *keyword)
{
    schema_place place;
    describe_place(c, schema, place.text, sizeof place.text);
    const size_t n = strlen(place.text);
    if (json_node_get(schema, keyword) != NULL && n + 16 < sizeof place.text)
        put_part(place.text + n, sizeof place.text - n, str_of(keyword));
    return place;
}

mote_status schema_unsupported(schema_compiler *c, const json_node *schema, const char *keyword,
                               const char *why)
{
    return err_set(c->err, MOTE_E_UNSUPPORTED,
                   "the schema uses '%s'%s%s at '%s', which is not supported", keyword,
                   why != NULL ? " " : "", why != NULL ? why : "",
                   schema_place_of(c, schema, keyword).text);
}

void schema_warn(schema_compiler *c, const json_node *schema, const char *keyword, const char *why)
{
    char place[200];
    if (c->warnings == NULL)
        return;
    describe_place(c, schema, place, sizeof place);
    strbuf_text(c->warnings, "the '");
    strbuf_text(c->warnings, keyword);
    strbuf_text(c->warnings, "' at '");
    strbuf_text(c->warnings, place);
    strbuf_text(c->warnings, "' ");
    strbuf_text(c->warnings, why);
    strbuf_byte(c->warnings, '\n');
}

mote_status schema_leave_out(schema_compiler *c, const json_node *schema, const char *keyword,
                             const char *why)
{
    if (!schema_may_leave_out(c))
        return schema_unsupported(c, schema, keyword, why);
    if (!c->loose)
        schema_warn(c, schema, keyword, "is not supported and not held");
    return MOTE_OK;
}

mote_status schema_malformed(schema_compiler *c, const json_node *schema, const char *keyword)
{
    char place[200];
    describe_place(c, schema, place, sizeof place);
    if (keyword == NULL)
        return err_set(c->err, MOTE_E_FORMAT,
                       "what stands at '%s' is no schema: neither an object nor true or false",
                       place);
    return err_set(c->err, MOTE_E_FORMAT, "the '%s' at '%s' of the schema is not what it has to be",
                   keyword, schema_place_of(c, schema, keyword).text);
}

/* ---- rules ---- */

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
            if (!grow_for(&c->todo, c->n_todo, &c->todo_room, sizeof *c->todo))
                return schema_no_memory(c);
            c->todo[c->n_todo++] = conj;
        }
    }
    *rule = x->rule;
    return MOTE_OK;
}

/* The texts of a set as a value: a string with its quotes, or a number. Many members of one
 * format are one rule. */
static mote_status set_rule(schema_compiler *c, uint32_t set, bool string, uint32_t *rule)
{
    rules *r = c->r;
    if (c->sets[set].rule == RULES_NONE) {
        const uint32_t made = c->sets[set].rule = rules_add(r);
        uint32_t from = rules_start_of(r, made), to = rules_end_of(r, made);
        if (!string) {
            TRY(dfa_put_raw(r, &c->sets[set].texts, from, to, c->err));
        } else {
            const uint32_t open = rules_state(r), close = rules_state(r);
            rules_read(r, from, '"', '"', open);
            TRY(dfa_put_json(r, &c->sets[set].texts, open, close, c->err));
            rules_read(r, close, '"', '"', to);
        }
    }
    *rule = c->sets[set].rule;
    return MOTE_OK;
}

static mote_status put_texts(schema_compiler *c, const schema_shape *shape, uint32_t from,
                             uint32_t to)
{
    rules *r = c->r;
    uint32_t set = shape->set, rule;
    if (shape->type == SCHEMA_NUMBER && set == SCHEMA_NONE) {
        rules_call(r, from, shape->integer ? json_rules_integer(r) : json_rules_number(r), to);
        return MOTE_OK;
    }
    if (set == SCHEMA_NONE) {
        json_rules_put_string(r, from, shape->min, shape->max, to);
        return MOTE_OK;
    }
    /* A constant may be spelt as no other number is. */
    if (shape->type == SCHEMA_STRING || shape->integer)
        TRY(schema_text_set(c, shape, &set));
    if (shape->type == SCHEMA_NUMBER)
        TRY(schema_number_limit(c, set, &set));
    TRY(set_rule(c, set, shape->type == SCHEMA_STRING, &rule));
    rules_call(r, from, rule, to);
    return MOTE_OK;
}

mote_status schema_put_shape(schema_compiler *c, const schema_shape *shape, uint32_t from,
                             uint32_t to)
{
    switch (shape->type) {
    case SCHEMA_NULL: rules_literal_to(c->r, from, str_of("null"), to); return MOTE_OK;
    case SCHEMA_BOOL:
        if (shape->is_true)
            rules_literal_to(c->r, from, str_of("true"), to);
        if (shape->is_false)
            rules_literal_to(c->r, from, str_of("false"), to);
        return MOTE_OK;
    case SCHEMA_ARRAY: return schema_put_array(c, shape, from, to);
    case SCHEMA_OBJECT: return schema_put_object(c, shape, from, to);
    default: return put_texts(c, shape, from, to);
    }
}

void schema_stand_at(schema_compiler *c, uint32_t conj)
{
    if (conj != CONJ_ANY && conj != CONJ_NEVER)
        c->where = c->terms[c->conjs[conj].first].node;
}

static mote_status write_body(schema_compiler *c, uint32_t conj)
{
    const uint32_t rule = c->conjs[conj].rule;
    schema_shapes shapes = {0};
    schema_stand_at(c, conj);
    mote_status status = schema_shapes_of(c, conj, &shapes);
    for (uint32_t i = 0; status == MOTE_OK && i < shapes.n; i++)
        status = schema_put_shape(c, &shapes.items[i], rules_start_of(c->r, rule),
                                  rules_end_of(c->r, rule));
    schema_shapes_fini(&shapes);
    if (status == MOTE_OK && !rules_ok(c->r))
        return err_set(c->err, c->r->status, "%s", c->r->reason);
    return status;
}

/* ---- the compilation ---- */

static mote_status init(schema_compiler *c)
{
    c->conj_slots = mem_new(CONJ_SLOTS, sizeof *c->conj_slots);
    if (c->conj_slots == NULL || !grow_for(&c->conjs, CONJ_NEVER, &c->conjs_room, sizeof *c->conjs))
        return schema_no_memory(c);
    c->conjs[CONJ_ANY] = (schema_conj){.rule = RULES_NONE};
    c->conjs[CONJ_NEVER] = (schema_conj){.rule = RULES_NONE};
    c->n_conjs = 2;
    c->number_texts = c->integer_texts = c->wide_integers = c->number_limits = SCHEMA_NONE;
    const json_node *draft = json_node_get(c->root, "$schema");
    static const char *const old[] = {"draft-03", "draft-04", "draft-06", "draft-07"};
    for (size_t i = 0; i < 4 && json_node_is(draft, JSON_IS_STRING); i++)
        c->old_refs = c->old_refs || strstr(json_node_text(draft).p, old[i]) != NULL;
    return MOTE_OK;
}

static void fini(schema_compiler *c)
{
    for (uint32_t i = 0; i < c->n_sets; i++)
        dfa_fini(&c->sets[i].texts);
    mem_free(c->terms);
    mem_free(c->conjs);
    mem_free(c->conj_slots);
    mem_free(c->todo);
    mem_free(c->sets);
    mem_free(c->lists);
    mem_free(c->layers);
    mem_free(c->names);
    mem_free(c->patterns);
    mem_free(c->bounds);
    pairs_fini(&c->joined);
    mem_free(c->joints);
    for (uint32_t i = 0; i < c->loose_room; i++)
        schema_shapes_fini(&c->loose_shapes[i]);
    mem_free(c->loose_shapes);
}

static mote_status compile(schema_compiler *c, bool call, uint32_t *rule)
{
    uint32_t conj;
    TRY(schema_conj_one(c, c->root, TERM_SCHEMA, &conj));
    if (call) {
        *rule = rules_add(c->r);
        c->where = c->root;
        TRY(schema_put_call_body(c, conj, *rule));
    } else {
        TRY(schema_rule(c, conj, rule));
    }
    while (c->n_todo > 0) {
        const uint32_t next = c->todo[--c->n_todo];
        TRY(write_body(c, next));
    }
    return MOTE_OK;
}

static mote_status put(rules *r, const json_node *root, const schema_options *options, bool call,
                       uint32_t *rule, mote_error *err)
{
    static const schema_options defaults = {0};
    dfa_fuel own = {SCHEMA_FUEL};
    const schema_options *o = options != NULL ? options : &defaults;
    schema_compiler c = {.r = r,
                         .root = root,
                         .lenient = o->lenient,
                         .warnings = o->warnings,
                         .fuel = o->fuel != NULL ? o->fuel : &own,
                         .err = err};
    *rule = 0;
    mote_status status = init(&c);
    if (status == MOTE_OK)
        status = compile(&c, call, rule);
    if (status == MOTE_OK && !rules_ok(r))
        status = err_set(err, r->status, "%s", r->reason);
    fini(&c);
    return status;
}

mote_status schema_put(rules *r, const json_node *root, const schema_options *options,
                       uint32_t *rule, mote_error *err)
{
    return put(r, root, options, false, rule, err);
}

mote_status schema_put_call(rules *r, const json_node *parameters, const schema_options *options,
                            uint32_t *rule, mote_error *err)
{
    return put(r, parameters, options, true, rule, err);
}

mote_status schema_put_text(rules *r, str text, const schema_options *options, uint32_t *rule,
                            mote_error *err)
{
    json_doc *doc;
    *rule = 0;
    if (text.n > SCHEMA_MAX_BYTES)
        return err_set(err, MOTE_E_ARG, "the schema has %zu bytes, more than %d", text.n,
                       SCHEMA_MAX_BYTES);
    TRY(json_doc_read(&doc, text, err));
    const mote_status status = schema_put(r, json_doc_root(doc), options, rule, err);
    json_doc_free(doc);
    return status;
}
