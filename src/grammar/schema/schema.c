/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.c - the schema compiler: writes the rules of conjunctions and of tool call arguments.
 *
 * Every conjunction becomes one rule. The rule is created when it is first called, and its body is
 * written from a work list. So recursive schemas terminate, and the call stack does not grow with
 * the nesting of the document.
 */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"
#include "grammar/rules/rules.h"
#include "grammar/rules/regex.h"

#include <stdio.h>
#include <string.h>

/* ---- rules ---- */

/* The rule that writes the texts of a set as a value: a string with quotes, or a number. Values
 * with the same set share the rule. */
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

static mote_status put_text_value(schema_compiler *c, const schema_shape *shape, uint32_t from,
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
    /* Not for other numbers: the text of a constant may have an exponent. */
    if (shape->type == SCHEMA_STRING || shape->integer)
        TRY(schema_text_set(c, shape, &set));
    if (shape->type == SCHEMA_NUMBER)
        TRY(schema_number_limit(c, set, &set));
    TRY(set_rule(c, set, shape->type == SCHEMA_STRING, &rule));
    rules_call(r, from, rule, to);
    return MOTE_OK;
}

static mote_status put_shape(schema_compiler *c, const schema_shape *shape, uint32_t from,
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
    default: return put_text_value(c, shape, from, to);
    }
}

static mote_status write_body(schema_compiler *c, uint32_t conj)
{
    const uint32_t rule = c->conjs[conj].rule;
    schema_shapes shapes = {0};
    schema_set_where(c, conj);
    mote_status status = schema_shapes_of(c, conj, &shapes);
    for (uint32_t i = 0; status == MOTE_OK && i < shapes.n; i++)
        status =
            put_shape(c, &shapes.items[i], rules_start_of(c->r, rule), rules_end_of(c->r, rule));
    schema_shapes_fini(&shapes);
    if (status == MOTE_OK && !rules_ok(c->r))
        return err_set(c->err, c->r->status, "%s", c->r->reason);
    return status;
}

/* ---- arguments of a tool call ----
 *
 *     <parameter=NAME>
 *     VALUE
 *     </parameter>
 *
 * One block per argument, each at most once, in any order; required ones must be present. A string
 * is raw text up to the line that closes the block. Other values are JSON; true, false
 * and null may also have their Python spelling, because the model's chat template shows them so. */

static const char closing[] = "\n</parameter>\n";

enum { MAX_RAW_LENGTH = 2000 }; /* limit of minLength and maxLength of raw strings */

/*
 * All strings that do not contain "\n</parameter>". State i: the last i characters match the start
 * of it. It has only one line break, the first character. So after a mismatch the match starts
 * over: with length 1 after a line break, 0 after any other character.
 */
static mote_status raw_text_set(schema_compiler *c, uint32_t *set)
{
    const uint32_t n = sizeof closing - 2; /* without the last line break */
    dfa text = {0};
    mote_status status = MOTE_OK;
    for (uint32_t i = 0; i < n && status == MOTE_OK; i++) {
        status = dfa_add_state(&text, true, c->err);
        const uint32_t next = (uint8_t)closing[i];
        uint32_t from = 0;
        for (uint32_t k = 0; k < 2 && status == MOTE_OK; k++) {
            /* The line break and the expected character, in ascending order; they may be equal. */
            const uint32_t at = k == 0 ? '\n' : next;
            if (at < from)
                continue;
            if (at > from)
                status = dfa_add_range(&text, from, at - 1, 0, c->err);
            const uint32_t to = at == next ? i + 1 : 1;
            if (status == MOTE_OK && to < n)
                status = dfa_add_range(&text, at, at, to, c->err);
            from = at + 1;
        }
        if (status == MOTE_OK)
            status = dfa_add_range(&text, from, 0xD7FF, 0, c->err);
        if (status == MOTE_OK)
            status = dfa_add_range(&text, 0xE000, DFA_LAST, 0, c->err);
    }
    if (status != MOTE_OK) {
        dfa_fini(&text);
        return status;
    }
    return schema_add_set(c, &text, set);
}

static mote_status put_raw_string(schema_compiler *c, const schema_shape *shape, uint32_t from,
                                  uint32_t to)
{
    uint32_t set, texts = shape->set;
    schema_shape own = *shape;
    TRY(raw_text_set(c, &set));
    if (own.max != RULES_NO_LIMIT && own.max > MAX_RAW_LENGTH) {
        schema_warn(c, c->where, "maxLength", "is not enforced above 2,000");
        own.max = RULES_NO_LIMIT;
    }
    if (own.min > MAX_RAW_LENGTH)
        own.min = MAX_RAW_LENGTH;
    if (own.set != SCHEMA_NONE || own.min > 0 || own.max != RULES_NO_LIMIT)
        TRY(schema_text_set(c, &own, &texts));
    TRY(schema_intersect_sets(c, set, texts, &set));
    return dfa_put_raw(c->r, &c->sets[set].texts, from, to, c->err);
}

static void put_python_words(schema_compiler *c, const schema_shape *shape, uint32_t from,
                             uint32_t to)
{
    if (shape->type == SCHEMA_NULL)
        rules_literal_to(c->r, from, str_of("None"), to);
    if (shape->type == SCHEMA_BOOL && shape->is_true)
        rules_literal_to(c->r, from, str_of("True"), to);
    if (shape->type == SCHEMA_BOOL && shape->is_false)
        rules_literal_to(c->r, from, str_of("False"), to);
}

static mote_status put_argument_value(schema_compiler *c, const schema_shapes *shapes,
                                      uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < shapes->n; i++) {
        const schema_shape *shape = &shapes->items[i];
        put_python_words(c, shape, from, to);
        if (shape->type == SCHEMA_STRING)
            TRY(put_raw_string(c, shape, from, to));
        else
            TRY(put_shape(c, shape, from, to));
    }
    return MOTE_OK;
}

/* A rule for the block of one argument. */
static mote_status put_argument(schema_compiler *c, str name, uint32_t conj, uint32_t *rule)
{
    rules *r = c->r;
    *rule = rules_add(r);
    uint32_t at = rules_literal(r, rules_start_of(r, *rule), str_of("<parameter="));
    at = rules_literal(r, rules_literal(r, at, name), str_of(">\n"));
    const uint32_t after = rules_state(r);
    schema_shapes shapes = {0};
    mote_status status = schema_shapes_of(c, conj, &shapes);
    if (status == MOTE_OK)
        status = put_argument_value(c, &shapes, at, after);
    schema_shapes_fini(&shapes);
    rules_literal_to(r, after, str_of(closing), rules_end_of(r, *rule));
    return status;
}

/* A rule for an argument with any name, for a schema that lists none. */
static mote_status put_any_argument(schema_compiler *c, uint32_t conj, uint32_t *rule)
{
    dfa name;
    TRY(regex_compile(&name, str_of("^[^<>\\n\\r]{1,64}$"), REGEX_SEARCH, c->fuel, c->err));
    *rule = rules_add(c->r);
    const uint32_t at = rules_literal(c->r, rules_start_of(c->r, *rule), str_of("<parameter="));
    const uint32_t named = rules_state(c->r), after = rules_state(c->r);
    mote_status status = dfa_put_raw(c->r, &name, at, named, c->err);
    dfa_fini(&name);
    TRY(status);
    schema_shapes shapes = {0};
    status = schema_shapes_of(c, conj, &shapes);
    if (status == MOTE_OK)
        status = put_argument_value(c, &shapes, rules_literal(c->r, named, str_of(">\n")), after);
    schema_shapes_fini(&shapes);
    rules_literal_to(c->r, after, str_of(closing), rules_end_of(c->r, *rule));
    return status;
}

typedef struct argument {
    uint32_t rule;
    bool required;
} argument;

typedef struct argument_list {
    argument *items;
    uint32_t n, room;
} argument_list;

static mote_status add_argument(schema_compiler *c, argument_list *b, const schema_shape *shape,
                                str name)
{
    uint32_t conj;
    TRY(schema_member_conj(c, shape, name, &conj));
    if (!mem_grow(&b->items, b->n, &b->room, sizeof *b->items))
        return schema_no_memory(c);
    b->items[b->n].required = schema_requires(c, shape, name);
    schema_set_where(c, conj);
    TRY(put_argument(c, name, conj, &b->items[b->n].rule));
    b->n++;
    return MOTE_OK;
}

/* Up to 32 arguments: in any order. More: in the order of the schema. */
static void put_argument_list(schema_compiler *c, const argument_list *b, uint32_t from,
                              uint32_t to)
{
    rules *r = c->r;
    if (b->n <= RULES_MAX_MEMBERS) {
        rules_set_info set = {.n = b->n, .max = b->n, .exit = to};
        for (uint32_t i = 0; i < b->n; i++) {
            set.member[i] = b->items[i].rule;
            set.required |= (uint32_t)b->items[i].required << i;
        }
        rules_set(r, from, &set);
        return;
    }
    for (uint32_t i = 0; i < b->n; i++) {
        const uint32_t next = rules_state(r);
        rules_call(r, from, b->items[i].rule, next);
        if (!b->items[i].required)
            rules_skip(r, from, next);
        from = next;
    }
    rules_skip(r, from, to);
}

/* The arguments of a call: the listed names in order. Without `properties` any names are allowed,
 * unless additionalProperties excludes them. */
static mote_status put_arguments(schema_compiler *c, const schema_shape *shape, uint32_t from,
                                 uint32_t to)
{
    argument_list b = {0};
    schema_names names = {0};
    mote_status status = schema_member_names(c, shape, &names);
    for (uint32_t i = 0; status == MOTE_OK && i < names.n; i++)
        status = add_argument(c, &b, shape, names.items[i]);
    if (status == MOTE_OK && names.n == 0) {
        uint32_t conj, any;
        status = schema_member_conj(c, shape, (str){"", 0}, &conj);
        if (schema_closes(c, shape))
            conj = CONJ_NEVER;
        if (status == MOTE_OK && conj != CONJ_NEVER)
            status = put_any_argument(c, conj, &any);
        if (status == MOTE_OK && conj != CONJ_NEVER)
            rules_loop(c->r, from, any, 0, RULES_MAX_MEMBERS, to);
        else
            rules_skip(c->r, from, to);
    } else if (status == MOTE_OK) {
        put_argument_list(c, &b, from, to);
    }
    mem_free(names.items);
    mem_free(b.items);
    return status;
}

static mote_status put_call_body(schema_compiler *c, uint32_t conj, uint32_t rule)
{
    schema_shapes shapes = {0};
    mote_status status = schema_shapes_of(c, conj, &shapes);
    for (uint32_t i = 0; status == MOTE_OK && i < shapes.n; i++)
        if (shapes.items[i].type == SCHEMA_OBJECT)
            status = put_arguments(c, &shapes.items[i], rules_start_of(c->r, rule),
                                   rules_end_of(c->r, rule));
    schema_shapes_fini(&shapes);
    return status;
}

/* ---- the compilation ---- */

static mote_status compiler_init(schema_compiler *c)
{
    c->conj_slots = mem_new(CONJ_SLOTS, sizeof *c->conj_slots);
    if (c->conj_slots == NULL || !mem_grow(&c->conjs, CONJ_NEVER, &c->conjs_room, sizeof *c->conjs))
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

static void compiler_fini(schema_compiler *c)
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
    dfa_pairs_fini(&c->intersected);
    mem_free(c->intersections);
    for (uint32_t i = 0; i < c->loose_room; i++)
        schema_shapes_fini(&c->loose_shapes[i]);
    mem_free(c->loose_shapes);
}

static mote_status compiler_run(schema_compiler *c, bool call, uint32_t *rule)
{
    uint32_t conj;
    TRY(schema_conj_one(c, c->root, TERM_SCHEMA, &conj));
    if (call) {
        *rule = rules_add(c->r);
        c->where = c->root;
        TRY(put_call_body(c, conj, *rule));
    } else {
        TRY(schema_rule(c, conj, rule));
    }
    while (c->n_todo > 0) {
        const uint32_t next = c->todo[--c->n_todo];
        TRY(write_body(c, next));
    }
    return MOTE_OK;
}

static mote_status compile_schema(rules *r, const json_node *root, const schema_options *options,
                                  bool call, uint32_t *rule, mote_error *err)
{
    static const schema_options defaults = {0};
    dfa_fuel own = {SCHEMA_FUEL};
    const schema_options *o = options != NULL ? options : &defaults;
    schema_compiler c = {.r = r,
                         .root = root,
                         .lenient = o->lenient,
                         .open_objects = o->open_objects,
                         .warnings = o->warnings,
                         .fuel = o->fuel != NULL ? o->fuel : &own,
                         .err = err};
    *rule = 0;
    mote_status status = compiler_init(&c);
    if (status == MOTE_OK)
        status = compiler_run(&c, call, rule);
    if (status == MOTE_OK && !rules_ok(r))
        status = err_set(err, r->status, "%s", r->reason);
    compiler_fini(&c);
    return status;
}

mote_status schema_put(rules *r, const json_node *root, const schema_options *options,
                       uint32_t *rule, mote_error *err)
{
    return compile_schema(r, root, options, false, rule, err);
}

mote_status schema_put_call(rules *r, const json_node *parameters, const schema_options *options,
                            uint32_t *rule, mote_error *err)
{
    return compile_schema(r, parameters, options, true, rule, err);
}

mote_status schema_put_text(rules *r, str text, const schema_options *options, uint32_t *rule,
                            mote_error *err)
{
    json_doc *doc;
    *rule = 0;
    if (text.n > SCHEMA_MAX_BYTES)
        return err_set(err, MOTE_E_ARG, "schema of %zu bytes; at most %d", text.n,
                       SCHEMA_MAX_BYTES);
    TRY(json_doc_read(&doc, text, err));
    const mote_status status = schema_put(r, json_doc_root(doc), options, rule, err);
    json_doc_free(doc);
    return status;
}
