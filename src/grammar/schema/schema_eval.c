/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_eval.c - what a schema says, keyword by keyword, as alternatives.
 *
 * A schema begins as "anything": one shape per type. Keywords about one type
 * narrow the shapes of that type (schema_keywords.c); keywords that combine schemas work out their
 * parts and join them. The depth of that is bounded, and a schema that leads back
 * to itself without a property or item between is a circle, in which no value
 * can be found.
 */
#include "grammar/schema/schema_int.h"

/* ---- type ---- */

/* Is a type name allowed for the shape? *integer: only as an integer. */
static bool type_names(str name, uint8_t type, bool *integer)
{
    static const char *const names[SCHEMA_TYPES] = {"null",   "boolean", "number",
                                                    "string", "array",   "object"};
    *integer = type == SCHEMA_NUMBER && str_is(name, "integer");
    return *integer || str_is(name, names[type]);
}

static bool known_type(const json_node *name)
{
    static const char *const names[] = {"null",  "boolean", "number", "string",
                                        "array", "object",  "integer"};
    for (size_t i = 0; i < 7; i++)
        if (json_node_is(name, JSON_IS_STRING) && str_is(json_node_text(name), names[i]))
            return true;
    return false;
}

static mote_status apply_type(schema_compiler *c, const json_node *schema, const json_node *type,
                              schema_shapes *shapes)
{
    const json_node *first = json_node_is(type, JSON_IS_ARRAY) ? json_node_first(type) : type;
    const bool list = first != type;
    for (const json_node *t = first; t != NULL; t = list ? json_node_next(t) : NULL)
        if (!known_type(t))
            return schema_malformed(c, schema, "type");
    uint32_t n = 0;
    for (uint32_t i = 0; i < shapes->n; i++) {
        bool allowed = false, only_integer = true;
        for (const json_node *t = first; t != NULL; t = list ? json_node_next(t) : NULL) {
            bool integer;
            if (!type_names(json_node_text(t), shapes->items[i].type, &integer))
                continue;
            allowed = true;
            only_integer = only_integer && integer;
        }
        if (!allowed)
            continue;
        shapes->items[n] = shapes->items[i];
        if (shapes->items[n].type == SCHEMA_NUMBER)
            shapes->items[n].integer = shapes->items[n].integer || only_integer;
        n++;
    }
    shapes->n = n;
    return MOTE_OK;
}

/* Constrain, and are not held. */
static const char *const unsupported[] = {
    "contains", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties",
};

static mote_status check_unsupported(schema_compiler *c, const json_node *schema)
{
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (json_node_get(schema, unsupported[i]) != NULL)
            TRY(schema_leave_out(c, schema, unsupported[i], NULL));
    return MOTE_OK;
}

static mote_status apply_ref(schema_compiler *c, const json_node *schema, const json_node *ref,
                             schema_shapes *shapes)
{
    const json_node *target;
    if (!json_node_is(ref, JSON_IS_STRING))
        return schema_malformed(c, schema, "$ref");
    const mote_status status = schema_resolve(c, schema, json_node_text(ref), &target);
    if (status == MOTE_E_UNSUPPORTED && schema_may_leave_out(c))
        return schema_leave_out(c, schema, "$ref", "that leads outside");
    TRY(status);
    return schema_join(c, target, shapes);
}

/* ---- all of it ---- */

/* Keywords that may name members of an object, in the order of the text: so will the members be. */
static mote_status eval_parts(schema_compiler *c, const json_node *schema, schema_shapes *out)
{
    bool members = false;
    for (const json_node *k = json_node_first(schema); k != NULL; k = json_node_next(k)) {
        const str name = json_node_name(k);
        if (str_is(name, "$ref"))
            TRY(apply_ref(c, schema, k, out));
        if (str_is(name, "allOf"))
            TRY(schema_apply_all_of(c, schema, out));
        if (str_is(name, "anyOf") || str_is(name, "oneOf"))
            TRY(schema_apply_alternatives(c, schema, name.p, out));
        if (!members && (str_is(name, "properties") || str_is(name, "patternProperties") ||
                         str_is(name, "additionalProperties"))) {
            members = true;
            TRY(schema_apply_members(c, schema, out));
        }
    }
    return MOTE_OK;
}

static mote_status eval_keywords(schema_compiler *c, const json_node *schema, schema_shapes *out)
{
    const json_node *ref = json_node_get(schema, "$ref");
    if (ref != NULL && c->old_refs)
        return apply_ref(c, schema, ref, out);
    TRY(check_unsupported(c, schema));
    const json_node *value;
    if ((value = json_node_get(schema, "type")) != NULL)
        TRY(apply_type(c, schema, value, out));
    if ((value = json_node_get(schema, "enum")) != NULL)
        TRY(schema_apply_enum(c, schema, value, out));
    if ((value = json_node_get(schema, "const")) != NULL)
        TRY(schema_apply_const(c, value, out));
    TRY(schema_apply_keywords(c, schema, out));
    TRY(schema_apply_items(c, schema, out));
    TRY(eval_parts(c, schema, out));
    TRY(schema_apply_dependencies(c, schema, "dependentRequired", out));
    TRY(schema_apply_dependencies(c, schema, "dependentSchemas", out));
    TRY(schema_apply_dependencies(c, schema, "dependencies", out));
    TRY(schema_apply_if(c, schema, out));
    return schema_apply_not(c, schema, out);
}

static bool is_open(const schema_compiler *c, const json_node *schema)
{
    for (uint32_t i = c->first_open; i < c->n_open; i++)
        if (c->open[i] == schema)
            return true;
    return false;
}

/* out is empty before and initialised after, also on failure. */
mote_status schema_eval(schema_compiler *c, const json_node *schema, schema_shapes *out)
{
    if (json_node_is(schema, JSON_IS_BOOL))
        return json_node_truth(schema) ? schema_shapes_any(c, out) : MOTE_OK;
    if (!json_node_is(schema, JSON_IS_OBJECT))
        return schema_malformed(c, schema, NULL);
    if (is_open(c, schema))
        return MOTE_OK;
    if (c->n_open == SCHEMA_MAX_NESTING)
        return err_set(c->err, MOTE_E_ARG, "the schema combines schemas more than %d deep",
                       SCHEMA_MAX_NESTING);
    if (c->fuel->left < 1000)
        return err_set(c->err, MOTE_E_ARG, "the schema takes too much work");
    c->fuel->left -= 1000;
    c->open[c->n_open++] = schema;
    mote_status status = schema_shapes_any(c, out);
    if (status == MOTE_OK)
        status = eval_keywords(c, schema, out);
    c->n_open--;
    return status;
}

static mote_status apply_term(schema_compiler *c, const schema_term *term, schema_shapes *shapes)
{
    if (term->kind == TERM_CONST)
        return schema_apply_const(c, term->node, shapes);
    if (term->kind == TERM_NOT && c->loose)
        return MOTE_OK;
    if (term->kind == TERM_SCHEMA)
        return schema_join(c, term->node, shapes);
    const mote_status status = schema_remove_schema(c, term->node, term->node, "not", shapes);
    if (status == MOTE_E_UNSUPPORTED && schema_may_leave_out(c))
        return schema_leave_out(c, term->node, "not", NULL);
    return status;
}

mote_status schema_shapes_of(schema_compiler *c, uint32_t conj, schema_shapes *out)
{
    if (conj == CONJ_NEVER)
        return MOTE_OK;
    TRY(schema_shapes_any(c, out));
    for (uint32_t i = 0; i < c->conjs[conj].n; i++) {
        const schema_term term = c->terms[c->conjs[conj].first + i];
        TRY(apply_term(c, &term, out));
    }
    return MOTE_OK;
}
