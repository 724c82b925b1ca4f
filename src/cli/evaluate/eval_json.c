/* SPDX-License-Identifier: Apache-2.0 */
/* eval_json.c - equality of JSON values, and the part of JSON Schema that checks of tasks need; see
 * eval_check.h. */
#include "cli/evaluate/eval_check.h"

bool eval_json_equal(const json_node *a, const json_node *b)
{
    if (json_node_kind(a) != json_node_kind(b) || json_node_size(a) != json_node_size(b))
        return false;
    switch (json_node_kind(a)) {
    case JSON_IS_BOOL: return json_node_truth(a) == json_node_truth(b);
    case JSON_IS_NUMBER: return json_node_double(a) == json_node_double(b);
    case JSON_IS_STRING: return str_eq(json_node_text(a), json_node_text(b));
    case JSON_IS_ABSENT:
    case JSON_IS_NULL: return true;
    default: break;
    }
    const json_node *other = json_node_first(b);
    for (const json_node *c = json_node_first(a); c != NULL; c = json_node_next(c)) {
        if (json_node_is(a, JSON_IS_OBJECT))
            other = json_node_member(b, json_node_name(c));
        if (!eval_json_equal(c, other))
            return false;
        if (json_node_is(a, JSON_IS_ARRAY))
            other = json_node_next(other);
    }
    return true;
}

/* ---- schemas ---- */

static bool schema_knows(str keyword)
{
    static const char *const known[] = {
        "type",  "enum",        "const",   "properties", "required", "additionalProperties",
        "items", "minimum",     "maximum", "minItems",   "maxItems", "$schema",
        "title", "description", "default", "examples",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (str_is(keyword, known[i]))
            return true;
    return false;
}

mote_status eval_schema_valid(const json_node *schema, mote_error *err)
{
    if (!json_node_is(schema, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_ARG, "a schema must be an object");
    for (const json_node *k = json_node_first(schema); k != NULL; k = json_node_next(k))
        if (!schema_knows(json_node_name(k)))
            return err_set(err, MOTE_E_UNSUPPORTED, "the check does not know the keyword %.*s",
                           STR_ARG(json_node_name(k)));
    const json_node *properties = json_node_get(schema, "properties");
    for (const json_node *p = json_node_first(properties); p != NULL; p = json_node_next(p))
        TRY(eval_schema_valid(p, err));
    const json_node *items = json_node_get(schema, "items");
    return items != NULL ? eval_schema_valid(items, err) : MOTE_OK;
}

static bool value_is(const json_node *value, str type)
{
    switch (json_node_kind(value)) {
    case JSON_IS_NULL: return str_is(type, "null");
    case JSON_IS_BOOL: return str_is(type, "boolean");
    case JSON_IS_STRING: return str_is(type, "string");
    case JSON_IS_ARRAY: return str_is(type, "array");
    case JSON_IS_OBJECT: return str_is(type, "object");
    case JSON_IS_NUMBER:
        return str_is(type, "number") ||
               (str_is(type, "integer") && json_number_is_integer(json_node_text(value)));
    default: return false;
    }
}

static bool type_accepts(const json_node *type, const json_node *value)
{
    if (!json_node_is(type, JSON_IS_ARRAY))
        return type == NULL || value_is(value, json_node_text(type));
    for (const json_node *t = json_node_first(type); t != NULL; t = json_node_next(t))
        if (value_is(value, json_node_text(t)))
            return true;
    return false;
}

static bool enum_accepts(const json_node *list, const json_node *value)
{
    for (const json_node *e = json_node_first(list); e != NULL; e = json_node_next(e))
        if (eval_json_equal(e, value))
            return true;
    return list == NULL;
}

static bool range_accepts(const json_node *min, const json_node *max, double x)
{
    return (min == NULL || x >= json_node_double(min)) &&
           (max == NULL || x <= json_node_double(max));
}

static bool object_accepts(const json_node *schema, const json_node *value)
{
    const json_node *properties = json_node_get(schema, "properties");
    const json_node *required = json_node_get(schema, "required");
    const json_node *more = json_node_get(schema, "additionalProperties");
    const bool closed = json_node_is(more, JSON_IS_BOOL) && !json_node_truth(more);
    for (const json_node *r = json_node_first(required); r != NULL; r = json_node_next(r))
        if (json_node_member(value, json_node_text(r)) == NULL)
            return false;
    for (const json_node *m = json_node_first(value); m != NULL; m = json_node_next(m)) {
        const json_node *p = json_node_member(properties, json_node_name(m));
        if (p == NULL ? closed : !eval_schema_accepts(p, m))
            return false;
    }
    return true;
}

static bool array_accepts(const json_node *schema, const json_node *value)
{
    const json_node *items = json_node_get(schema, "items");
    if (!range_accepts(json_node_get(schema, "minItems"), json_node_get(schema, "maxItems"),
                       json_node_size(value)))
        return false;
    for (const json_node *i = json_node_first(value); i != NULL && items != NULL;
         i = json_node_next(i))
        if (!eval_schema_accepts(items, i))
            return false;
    return true;
}

bool eval_schema_accepts(const json_node *schema, const json_node *value)
{
    const json_node *constant = json_node_get(schema, "const");
    if (!type_accepts(json_node_get(schema, "type"), value) ||
        !enum_accepts(json_node_get(schema, "enum"), value) ||
        (constant != NULL && !eval_json_equal(constant, value)))
        return false;
    if (json_node_is(value, JSON_IS_NUMBER))
        return range_accepts(json_node_get(schema, "minimum"), json_node_get(schema, "maximum"),
                             json_node_double(value));
    if (json_node_is(value, JSON_IS_OBJECT))
        return object_accepts(schema, value);
    return !json_node_is(value, JSON_IS_ARRAY) || array_accepts(schema, value);
}
