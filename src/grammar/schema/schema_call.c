/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_call.c - the arguments of a tool call, in the form the model writes them.
 *
 *     <parameter=NAME>
 *     VALUE
 *     </parameter>
 *
 * one such block after the other, each parameter at most once, in any order, the
 * required ones always. A string stands as it is, up to the line that closes the block;
 * anything else is JSON, and true, false and null may have their Python spelling,
 * which is how the model's template shows them.
 */
#include "grammar/schema/schema_int.h"

#include "grammar/rules/grow.h"
#include "grammar/rules/regex.h"

#include <string.h>

static const char closing[] = "\n</parameter>\n";

enum { MAX_RAW_LENGTH = 2000 }; /* of a string whose length is held */

/* ---- strings as they are ---- */

/*
 * All strings without "\n</parameter>" in them: how much of it the latest characters
 * are. No part of it but the first character comes twice, so after a mistake there is
 * either that first character or nothing.
 */
static mote_status without_closing(schema_compiler *c, uint32_t *set)
{
    const uint32_t n = sizeof closing - 2; /* without the last line break */
    dfa text = {0};
    mote_status status = MOTE_OK;
    for (uint32_t i = 0; i < n && status == MOTE_OK; i++) {
        status = dfa_add_state(&text, true, c->err);
        const uint32_t next = (uint8_t)closing[i];
        uint32_t from = 0;
        for (uint32_t k = 0; k < 2 && status == MOTE_OK; k++) {
            /* The line break and the wanted character, the lower first: they may be one. */
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

static mote_status put_raw(schema_compiler *c, const schema_shape *shape, uint32_t from,
                           uint32_t to)
{
    uint32_t set, texts = shape->set;
    schema_shape own = *shape;
    TRY(without_closing(c, &set));
    if (own.max != RULES_NO_LIMIT && own.max > MAX_RAW_LENGTH) {
        schema_warn(c, c->where, "maxLength", "is not held above 2,000");
        own.max = RULES_NO_LIMIT;
    }
    if (own.min > MAX_RAW_LENGTH)
        own.min = MAX_RAW_LENGTH;
    if (own.set != SCHEMA_NONE || own.min > 0 || own.max != RULES_NO_LIMIT)
        TRY(schema_text_set(c, &own, &texts));
    TRY(schema_both_sets(c, set, texts, &set));
    return dfa_put_raw(c->r, &c->sets[set].texts, from, to, c->err);
}

/* ---- one argument ---- */

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

static mote_status put_shapes(schema_compiler *c, const schema_shapes *shapes, uint32_t from,
                              uint32_t to)
{
    for (uint32_t i = 0; i < shapes->n; i++) {
        const schema_shape *shape = &shapes->items[i];
        put_python_words(c, shape, from, to);
        if (shape->type == SCHEMA_STRING)
            TRY(put_raw(c, shape, from, to));
        else
            TRY(schema_put_shape(c, shape, from, to));
    }
    return MOTE_OK;
}

/* The whole block of one parameter as a rule. */
static mote_status put_block(schema_compiler *c, str name, uint32_t conj, uint32_t *rule)
{
    rules *r = c->r;
    *rule = rules_add(r);
    uint32_t at = rules_literal(r, rules_start_of(r, *rule), str_of("<parameter="));
    at = rules_literal(r, rules_literal(r, at, name), str_of(">\n"));
    const uint32_t behind = rules_state(r);
    schema_shapes shapes = {0};
    mote_status status = schema_shapes_of(c, conj, &shapes);
    if (status == MOTE_OK)
        status = put_shapes(c, &shapes, at, behind);
    schema_shapes_fini(&shapes);
    rules_literal_to(r, behind, str_of(closing), rules_end_of(r, *rule));
    return status;
}

/* A parameter of any name, for a schema that lists none. */
static mote_status put_any_block(schema_compiler *c, uint32_t conj, uint32_t *rule)
{
    dfa name;
    TRY(regex_compile(&name, str_of("^[^<>\\n\\r]{1,64}$"), REGEX_SEARCH, c->fuel, c->err));
    *rule = rules_add(c->r);
    const uint32_t at = rules_literal(c->r, rules_start_of(c->r, *rule), str_of("<parameter="));
    const uint32_t named = rules_state(c->r), behind = rules_state(c->r);
    mote_status status = dfa_put_raw(c->r, &name, at, named, c->err);
    dfa_fini(&name);
    TRY(status);
    schema_shapes shapes = {0};
    status = schema_shapes_of(c, conj, &shapes);
    if (status == MOTE_OK)
        status = put_shapes(c, &shapes, rules_literal(c->r, named, str_of(">\n")), behind);
    schema_shapes_fini(&shapes);
    rules_literal_to(c->r, behind, str_of(closing), rules_end_of(c->r, *rule));
    return status;
}

/* ---- all of them ---- */

typedef struct block {
    uint32_t rule;
    bool required;
} block;

typedef struct blocks {
    block *items;
    uint32_t n, room;
} blocks;

static mote_status add_block(schema_compiler *c, blocks *b, const schema_shape *shape, str name)
{
    uint32_t conj;
    TRY(schema_member_conj(c, shape, name, &conj));
    if (!grow_for(&b->items, b->n, &b->room, sizeof *b->items))
        return schema_no_memory(c);
    b->items[b->n].required = schema_requires(c, shape, name);
    schema_stand_at(c, conj);
    TRY(put_block(c, name, conj, &b->items[b->n].rule));
    b->n++;
    return MOTE_OK;
}

/* Up to 32 in any order; a tool that has more gets them in the order of its schema. */
static void put_sequence(schema_compiler *c, const blocks *b, uint32_t from, uint32_t to)
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

static mote_status put_arguments(schema_compiler *c, const schema_shape *shape, uint32_t from,
                                 uint32_t to)
{
    blocks b = {0};
    schema_names names = {0};
    mote_status status = schema_member_names(c, shape, &names);
    for (uint32_t i = 0; status == MOTE_OK && i < names.n; i++)
        status = add_block(c, &b, shape, names.items[i]);
    if (status == MOTE_OK && names.n == 0) {
        uint32_t conj, any;
        status = schema_member_conj(c, shape, (str){"", 0}, &conj);
        if (status == MOTE_OK && conj != CONJ_NEVER)
            status = put_any_block(c, conj, &any);
        if (status == MOTE_OK && conj != CONJ_NEVER)
            rules_loop(c->r, from, any, 0, RULES_MAX_MEMBERS, to);
        else
            rules_skip(c->r, from, to);
    } else if (status == MOTE_OK) {
        put_sequence(c, &b, from, to);
    }
    mem_free(names.items);
    mem_free(b.items);
    return status;
}

mote_status schema_put_call_body(schema_compiler *c, uint32_t conj, uint32_t rule)
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
