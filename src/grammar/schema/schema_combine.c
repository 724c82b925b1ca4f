/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_combine.c - schemas made of schemas: all, any or one of several, none of
 * one, conditions and dependencies.
 */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"

#include <string.h>

mote_status schema_join(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    schema_shapes other = {0};
    mote_status status = schema_eval(c, schema, &other);
    if (status == MOTE_OK)
        status = schema_shapes_both(c, shapes, &other);
    schema_shapes_fini(&other);
    return status;
}

static mote_status any_of(schema_compiler *c, const json_node *list, schema_shapes *out)
{
    for (const json_node *s = json_node_first(list); s != NULL; s = json_node_next(s)) {
        schema_shapes one = {0};
        mote_status status = schema_eval(c, s, &one);
        if (status == MOTE_OK)
            status = schema_shapes_either(c, out, &one);
        schema_shapes_fini(&one);
        TRY(status);
    }
    return MOTE_OK;
}

/* Takes away from shapes what satisfies a schema. */
mote_status schema_remove_schema(schema_compiler *c, const json_node *from, const json_node *schema,
                                 const char *name, schema_shapes *shapes)
{
    schema_shapes other = {0};
    const bool wide = c->wide;
    c->wide = true;
    mote_status status = schema_eval(c, schema, &other);
    c->wide = wide;
    if (status == MOTE_OK)
        status = schema_shapes_without(c, shapes, &other, from, name);
    schema_shapes_fini(&other);
    return status;
}

/* Each alternative without all the others; `wide` holds what each takes at most. */
static mote_status each_alone(schema_compiler *c, const json_node *schema, const json_node *list,
                              const schema_shapes *wide, schema_shapes *out)
{
    const uint32_t n = json_node_size(list);
    uint32_t own = 0;
    for (const json_node *s = json_node_first(list); s != NULL; s = json_node_next(s), own++) {
        schema_shapes one = {0};
        mote_status status = schema_eval(c, s, &one);
        for (uint32_t i = 0; status == MOTE_OK && i < n; i++)
            if (i != own)
                status = schema_shapes_without(c, &one, &wide[i], schema, "oneOf");
        if (status == MOTE_OK)
            status = schema_shapes_either(c, out, &one);
        schema_shapes_fini(&one);
        TRY(status);
    }
    return MOTE_OK;
}

static mote_status one_of(schema_compiler *c, const json_node *schema, const json_node *list,
                          schema_shapes *out)
{
    const uint32_t n = json_node_size(list);
    schema_shapes *wide = mem_new(n, sizeof *wide);
    if (wide == NULL)
        return schema_no_memory(c);
    mote_status status = MOTE_OK;
    uint32_t i = 0;
    const bool was_wide = c->wide;
    c->wide = true;
    for (const json_node *s = json_node_first(list); status == MOTE_OK && s != NULL;
         s = json_node_next(s))
        status = schema_eval(c, s, &wide[i++]);
    c->wide = was_wide;
    if (status == MOTE_OK)
        status = each_alone(c, schema, list, wide, out);
    for (i = 0; i < n; i++)
        schema_shapes_fini(&wide[i]);
    mem_free(wide);
    return status;
}

/* In lenient mode alternatives that overlap are all allowed, and in a comparison all of them. */
static mote_status one_or_any_of(schema_compiler *c, const json_node *schema, const json_node *list,
                                 schema_shapes *out)
{
    if (c->loose)
        return any_of(c, list, out);
    const mote_status status = one_of(c, schema, list, out);
    if (status != MOTE_E_UNSUPPORTED || !schema_may_leave_out(c))
        return status;
    schema_warn(c, schema, "oneOf", "is held as anyOf: its alternatives may overlap");
    schema_shapes_fini(out);
    return any_of(c, list, out);
}

mote_status schema_apply_alternatives(schema_compiler *c, const json_node *schema, const char *name,
                                      schema_shapes *shapes)
{
    const json_node *list = json_node_get(schema, name);
    if (list == NULL)
        return MOTE_OK;
    if (!json_node_is(list, JSON_IS_ARRAY) || json_node_size(list) == 0)
        return schema_malformed(c, schema, name);
    schema_shapes either = {0};
    const bool one = strcmp(name, "oneOf") == 0;
    mote_status status = one && json_node_size(list) > 1 ? one_or_any_of(c, schema, list, &either)
                                                         : any_of(c, list, &either);
    if (status == MOTE_OK)
        status = schema_shapes_both(c, shapes, &either);
    schema_shapes_fini(&either);
    return status;
}

mote_status schema_apply_all_of(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    const json_node *list = json_node_get(schema, "allOf");
    if (list == NULL)
        return MOTE_OK;
    if (!json_node_is(list, JSON_IS_ARRAY))
        return schema_malformed(c, schema, "allOf");
    for (const json_node *s = json_node_first(list); s != NULL; s = json_node_next(s))
        TRY(schema_join(c, s, shapes));
    return MOTE_OK;
}

mote_status schema_apply_not(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    const json_node *not = json_node_get(schema, "not");
    if (not == NULL)
        return MOTE_OK;
    /* Inside of something negated the sides are swapped, and what may be left out with them. */
    if (c->wide)
        return schema_leave_out(c, schema, "not", "inside of something negated");
    const mote_status status = schema_remove_schema(c, schema, not, "not", shapes);
    if (status == MOTE_E_UNSUPPORTED && schema_may_leave_out(c))
        return schema_leave_out(c, schema, "not", NULL);
    return status;
}

/* ---- conditions ---- */

/* What satisfies `if` and `then`, or does not satisfy `if` and satisfies `else`. */
static mote_status condition(schema_compiler *c, const json_node *schema, const json_node *test,
                             schema_shapes *out)
{
    const json_node *then = json_node_get(schema, "then"), *other = json_node_get(schema, "else");
    schema_shapes not_so = {0};
    mote_status status = schema_eval(c, test, out);
    if (status == MOTE_OK && then != NULL)
        status = schema_join(c, then, out);
    if (status == MOTE_OK)
        status = schema_shapes_any(c, &not_so);
    if (status == MOTE_OK)
        status = schema_remove_schema(c, schema, test, "if", &not_so);
    if (status == MOTE_OK && other != NULL)
        status = schema_join(c, other, &not_so);
    if (status == MOTE_OK)
        status = schema_shapes_either(c, out, &not_so);
    schema_shapes_fini(&not_so);
    return status;
}

mote_status schema_apply_if(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    const json_node *test = json_node_get(schema, "if");
    if (test == NULL ||
        (json_node_get(schema, "then") == NULL && json_node_get(schema, "else") == NULL))
        return MOTE_OK;
    if (c->wide)
        return schema_leave_out(c, schema, "if", "inside of something negated");
    schema_shapes said = {0};
    mote_status status = condition(c, schema, test, &said);
    if (status == MOTE_OK)
        status = schema_shapes_both(c, shapes, &said);
    schema_shapes_fini(&said);
    if (status == MOTE_E_UNSUPPORTED && schema_may_leave_out(c))
        return schema_leave_out(c, schema, "if", NULL);
    return status;
}

/* Either the member is not there, or what depends on it holds; other types do not care. */
static mote_status dependency(schema_compiler *c, const json_node *schema, const json_node *what,
                              schema_shapes *out)
{
    const str name = json_node_name(what);
    TRY(schema_shapes_any(c, out));
    schema_shape there = schema_shape_any(SCHEMA_OBJECT);
    TRY(schema_add_layer(c, &out->items[SCHEMA_OBJECT],
                         (schema_layer){.additional = CONJ_ANY, .absent = name}));
    TRY(schema_add_name(c, &there, name));
    schema_shapes present = {0};
    mote_status status = MOTE_OK;
    if (json_node_is(what, JSON_IS_ARRAY))
        for (const json_node *n = json_node_first(what); n != NULL && status == MOTE_OK;
             n = json_node_next(n)) {
            if (!json_node_is(n, JSON_IS_STRING))
                return schema_malformed(c, schema, "dependentRequired");
            if (!schema_requires(c, &there, json_node_text(n)))
                status = schema_add_name(c, &there, json_node_text(n));
        }
    if (status == MOTE_OK)
        status = schema_shapes_add(c, &present, &there);
    if (status == MOTE_OK && !json_node_is(what, JSON_IS_ARRAY))
        status = schema_join(c, what, &present);
    if (status == MOTE_OK)
        status = schema_shapes_either(c, out, &present);
    schema_shapes_fini(&present);
    return status;
}

mote_status schema_apply_dependencies(schema_compiler *c, const json_node *schema, const char *name,
                                      schema_shapes *shapes)
{
    const json_node *map = json_node_get(schema, name);
    if (map == NULL)
        return MOTE_OK;
    if (!json_node_is(map, JSON_IS_OBJECT))
        return schema_malformed(c, schema, name);
    if (c->wide)
        return schema_leave_out(c, schema, name, "inside of something negated");
    for (const json_node *what = json_node_first(map); what != NULL; what = json_node_next(what)) {
        schema_shapes said = {0};
        mote_status status = dependency(c, schema, what, &said);
        if (status == MOTE_OK)
            status = schema_shapes_both(c, shapes, &said);
        schema_shapes_fini(&said);
        TRY(status);
    }
    return MOTE_OK;
}
