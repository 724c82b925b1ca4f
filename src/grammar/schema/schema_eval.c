/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_eval.c - evaluates a schema to shapes, keyword by keyword.
 *
 * Evaluation starts with one unconstrained shape per type. Keywords about one type narrow the
 * shapes of that type (schema_keywords.c). const, enum, $ref, allOf, anyOf, oneOf, not, if and
 * dependencies evaluate to shapes of their own, which are intersected or subtracted.
 *
 * The nesting of these keywords is limited. A schema that refers to itself without a property or
 * item in between has no finite value: it evaluates to no shapes.
 */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"

#include <string.h>

/* ---- const and enum ---- */

static mote_status const_text_set(schema_compiler *c, const json_node *value, uint32_t *set)
{
    if (json_node_is(value, JSON_IS_NUMBER) && c->wide)
        return schema_number_equal(c, json_node_text(value), set);
    strbuf plain = {0};
    str text = json_node_text(value);
    mote_status status = MOTE_OK;
    if (json_node_is(value, JSON_IS_NUMBER)) {
        status = schema_number_plain(c, text, &plain);
        text = strbuf_view(&plain);
    }
    dfa words = {0};
    if (status == MOTE_OK)
        status = dfa_words(&words, &text, 1, c->fuel, c->err);
    strbuf_fini(&plain);
    TRY(status);
    return schema_add_set(c, &words, set);
}

static mote_status const_array(schema_compiler *c, const json_node *value, schema_shape *shape)
{
    const uint32_t n = json_node_size(value);
    if (!mem_grow(&c->lists, c->n_lists + n, &c->lists_room, sizeof *c->lists))
        return schema_no_memory(c);
    shape->prefix = c->n_lists;
    shape->n_prefix = shape->min = shape->max = n;
    shape->items = CONJ_NEVER;
    c->n_lists += n;
    uint32_t i = shape->prefix;
    for (const json_node *item = json_node_first(value); item != NULL;
         item = json_node_next(item)) {
        uint32_t conj;
        TRY(schema_conj_one(c, item, TERM_CONST, &conj));
        c->lists[i++] = conj;
    }
    return MOTE_OK;
}

static mote_status const_object(schema_compiler *c, const json_node *value, schema_shape *shape)
{
    TRY(schema_add_layer(
        c, shape, (schema_layer){.properties = value, .additional = CONJ_NEVER, .constant = true}));
    for (const json_node *m = json_node_first(value); m != NULL; m = json_node_next(m))
        TRY(schema_add_name(c, shape, json_node_name(m)));
    return MOTE_OK;
}

static mote_status add_const(schema_compiler *c, const json_node *value, schema_shapes *out)
{
    static const schema_type types[] = {
        [JSON_IS_NULL] = SCHEMA_NULL,     [JSON_IS_BOOL] = SCHEMA_BOOL,
        [JSON_IS_NUMBER] = SCHEMA_NUMBER, [JSON_IS_STRING] = SCHEMA_STRING,
        [JSON_IS_ARRAY] = SCHEMA_ARRAY,   [JSON_IS_OBJECT] = SCHEMA_OBJECT};
    schema_shape shape = schema_shape_any(types[json_node_kind(value)]);
    switch (shape.type) {
    case SCHEMA_NULL: break;
    case SCHEMA_BOOL:
        shape.is_true = json_node_truth(value);
        shape.is_false = !shape.is_true;
        break;
    case SCHEMA_ARRAY: TRY(const_array(c, value, &shape)); break;
    case SCHEMA_OBJECT: TRY(const_object(c, value, &shape)); break;
    default: TRY(const_text_set(c, value, &shape.set)); break;
    }
    return schema_shapes_add(c, out, &shape);
}

/* All strings of an enum in one DFA. */
static mote_status enum_strings(schema_compiler *c, const json_node *values, schema_shapes *out)
{
    str *words = mem_new((size_t)json_node_size(values) + 1, sizeof *words);
    size_t n = 0;
    if (words == NULL)
        return schema_no_memory(c);
    for (const json_node *v = json_node_first(values); v != NULL; v = json_node_next(v))
        if (json_node_is(v, JSON_IS_STRING))
            words[n++] = json_node_text(v);
    dfa set = {0};
    mote_status status = n > 0 ? dfa_words(&set, words, n, c->fuel, c->err) : MOTE_OK;
    mem_free(words);
    TRY(status);
    if (n == 0)
        return MOTE_OK;
    schema_shape shape = schema_shape_any(SCHEMA_STRING);
    TRY(schema_add_set(c, &set, &shape.set));
    return schema_shapes_add(c, out, &shape);
}

static mote_status enum_shapes(schema_compiler *c, const json_node *values, schema_shapes *out)
{
    TRY(enum_strings(c, values, out));
    for (const json_node *v = json_node_first(values); v != NULL; v = json_node_next(v))
        if (!json_node_is(v, JSON_IS_STRING))
            TRY(add_const(c, v, out));
    return MOTE_OK;
}

static mote_status apply_enum(schema_compiler *c, const json_node *schema, const json_node *values,
                              schema_shapes *shapes)
{
    if (!json_node_is(values, JSON_IS_ARRAY))
        return schema_invalid(c, schema, "enum");
    schema_shapes constants = {0};
    mote_status status = enum_shapes(c, values, &constants);
    if (status == MOTE_OK)
        status = schema_shapes_intersect(c, shapes, &constants);
    schema_shapes_fini(&constants);
    return status;
}

static mote_status apply_const(schema_compiler *c, const json_node *value, schema_shapes *shapes)
{
    schema_shapes constant = {0};
    mote_status status = add_const(c, value, &constant);
    if (status == MOTE_OK)
        status = schema_shapes_intersect(c, shapes, &constant);
    schema_shapes_fini(&constant);
    return status;
}

/* ---- allOf, anyOf, oneOf, not ---- */

static mote_status intersect_schema(schema_compiler *c, const json_node *schema,
                                    schema_shapes *shapes)
{
    schema_shapes other = {0};
    mote_status status = schema_eval(c, schema, &other);
    if (status == MOTE_OK)
        status = schema_shapes_intersect(c, shapes, &other);
    schema_shapes_fini(&other);
    return status;
}

static mote_status any_of_shapes(schema_compiler *c, const json_node *list, schema_shapes *out)
{
    for (const json_node *s = json_node_first(list); s != NULL; s = json_node_next(s)) {
        schema_shapes one = {0};
        mote_status status = schema_eval(c, s, &one);
        if (status == MOTE_OK)
            status = schema_shapes_union(c, out, &one);
        schema_shapes_fini(&one);
        TRY(status);
    }
    return MOTE_OK;
}

/* Removes the values that satisfy `schema` from the shapes. `name` is the keyword of `from` that
 * requires it, for errors. The subtracted shapes must not be too small, so `schema` is evaluated in
 * mode c->wide. */
static mote_status subtract_schema(schema_compiler *c, const json_node *from,
                                   const json_node *schema, const char *name, schema_shapes *shapes)
{
    schema_shapes other = {0};
    const bool wide = c->wide;
    c->wide = true;
    mote_status status = schema_eval(c, schema, &other);
    c->wide = wide;
    if (status == MOTE_OK)
        status = schema_shapes_subtract(c, shapes, &other, from, name);
    schema_shapes_fini(&other);
    return status;
}

/* Each alternative minus all others; wide[i] is alternative i evaluated for subtraction. */
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
                status = schema_shapes_subtract(c, &one, &wide[i], schema, "oneOf");
        if (status == MOTE_OK)
            status = schema_shapes_union(c, out, &one);
        schema_shapes_fini(&one);
        TRY(status);
    }
    return MOTE_OK;
}

static mote_status one_of_shapes(schema_compiler *c, const json_node *schema, const json_node *list,
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

/* oneOf. Treated as anyOf for a disjointness test, and in lenient mode if the alternatives cannot
 * be separated. */
static mote_status one_of_or_any_of(schema_compiler *c, const json_node *schema,
                                    const json_node *list, schema_shapes *out)
{
    if (c->loose)
        return any_of_shapes(c, list, out);
    const mote_status status = one_of_shapes(c, schema, list, out);
    if (status != MOTE_E_UNSUPPORTED || !schema_may_ignore(c))
        return status;
    schema_warn(c, schema, "oneOf", "is treated as anyOf: its alternatives may overlap");
    schema_shapes_fini(out);
    return any_of_shapes(c, list, out);
}

static mote_status apply_alternatives(schema_compiler *c, const json_node *schema, const char *name,
                                      schema_shapes *shapes)
{
    const json_node *list = json_node_get(schema, name);
    if (list == NULL)
        return MOTE_OK;
    if (!json_node_is(list, JSON_IS_ARRAY) || json_node_size(list) == 0)
        return schema_invalid(c, schema, name);
    schema_shapes either = {0};
    const bool one = strcmp(name, "oneOf") == 0;
    mote_status status = one && json_node_size(list) > 1
                             ? one_of_or_any_of(c, schema, list, &either)
                             : any_of_shapes(c, list, &either);
    if (status == MOTE_OK)
        status = schema_shapes_intersect(c, shapes, &either);
    schema_shapes_fini(&either);
    return status;
}

static mote_status apply_all_of(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    const json_node *list = json_node_get(schema, "allOf");
    if (list == NULL)
        return MOTE_OK;
    if (!json_node_is(list, JSON_IS_ARRAY))
        return schema_invalid(c, schema, "allOf");
    for (const json_node *s = json_node_first(list); s != NULL; s = json_node_next(s))
        TRY(intersect_schema(c, s, shapes));
    return MOTE_OK;
}

static mote_status apply_not(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    const json_node *not = json_node_get(schema, "not");
    if (not == NULL)
        return MOTE_OK;
    /* Inside a negated schema a superset would have to become a subset. */
    if (c->wide)
        return schema_ignore(c, schema, "not", "inside a negated schema");
    const mote_status status = subtract_schema(c, schema, not, "not", shapes);
    if (status == MOTE_E_UNSUPPORTED && schema_may_ignore(c))
        return schema_ignore(c, schema, "not", NULL);
    return status;
}

/* ---- if, dependentRequired, dependentSchemas, dependencies ---- */

/* (if and then) or (else without if). */
static mote_status if_shapes(schema_compiler *c, const json_node *schema, const json_node *test,
                             schema_shapes *out)
{
    const json_node *then = json_node_get(schema, "then"), *other = json_node_get(schema, "else");
    schema_shapes otherwise = {0};
    mote_status status = schema_eval(c, test, out);
    if (status == MOTE_OK && then != NULL)
        status = intersect_schema(c, then, out);
    if (status == MOTE_OK)
        status = schema_shapes_any(c, &otherwise);
    if (status == MOTE_OK)
        status = subtract_schema(c, schema, test, "if", &otherwise);
    if (status == MOTE_OK && other != NULL)
        status = intersect_schema(c, other, &otherwise);
    if (status == MOTE_OK)
        status = schema_shapes_union(c, out, &otherwise);
    schema_shapes_fini(&otherwise);
    return status;
}

static mote_status apply_if(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    const json_node *test = json_node_get(schema, "if");
    if (test == NULL ||
        (json_node_get(schema, "then") == NULL && json_node_get(schema, "else") == NULL))
        return MOTE_OK;
    if (c->wide)
        return schema_ignore(c, schema, "if", "inside a negated schema");
    schema_shapes constraint = {0};
    mote_status status = if_shapes(c, schema, test, &constraint);
    if (status == MOTE_OK)
        status = schema_shapes_intersect(c, shapes, &constraint);
    schema_shapes_fini(&constraint);
    if (status == MOTE_E_UNSUPPORTED && schema_may_ignore(c))
        return schema_ignore(c, schema, "if", NULL);
    return status;
}

/* The member is absent, or its dependency holds. Types other than object are not
 * constrained. */
static mote_status dependency_shapes(schema_compiler *c, const json_node *schema,
                                     const json_node *what, schema_shapes *out)
{
    const str name = json_node_name(what);
    TRY(schema_shapes_any(c, out));
    schema_shape with_member = schema_shape_any(SCHEMA_OBJECT);
    TRY(schema_add_layer(c, &out->items[SCHEMA_OBJECT],
                         (schema_layer){.additional = CONJ_ANY, .absent = name}));
    TRY(schema_add_name(c, &with_member, name));
    schema_shapes present = {0};
    mote_status status = MOTE_OK;
    if (json_node_is(what, JSON_IS_ARRAY))
        for (const json_node *n = json_node_first(what); n != NULL && status == MOTE_OK;
             n = json_node_next(n)) {
            if (!json_node_is(n, JSON_IS_STRING))
                return schema_invalid(c, schema, "dependentRequired");
            if (!schema_requires(c, &with_member, json_node_text(n)))
                status = schema_add_name(c, &with_member, json_node_text(n));
        }
    if (status == MOTE_OK)
        status = schema_shapes_add(c, &present, &with_member);
    if (status == MOTE_OK && !json_node_is(what, JSON_IS_ARRAY))
        status = intersect_schema(c, what, &present);
    if (status == MOTE_OK)
        status = schema_shapes_union(c, out, &present);
    schema_shapes_fini(&present);
    return status;
}

static mote_status apply_dependencies(schema_compiler *c, const json_node *schema, const char *name,
                                      schema_shapes *shapes)
{
    const json_node *map = json_node_get(schema, name);
    if (map == NULL)
        return MOTE_OK;
    if (!json_node_is(map, JSON_IS_OBJECT))
        return schema_invalid(c, schema, name);
    if (c->wide)
        return schema_ignore(c, schema, name, "inside a negated schema");
    for (const json_node *what = json_node_first(map); what != NULL; what = json_node_next(what)) {
        schema_shapes constraint = {0};
        mote_status status = dependency_shapes(c, schema, what, &constraint);
        if (status == MOTE_OK)
            status = schema_shapes_intersect(c, shapes, &constraint);
        schema_shapes_fini(&constraint);
        TRY(status);
    }
    return MOTE_OK;
}

/* ---- type ---- */

/* Does a type name include the type of a shape? *integer: integers only. */
static bool type_matches(str name, uint8_t type, bool *integer)
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
            return schema_invalid(c, schema, "type");
    uint32_t n = 0;
    for (uint32_t i = 0; i < shapes->n; i++) {
        bool allowed = false, only_integer = true;
        for (const json_node *t = first; t != NULL; t = list ? json_node_next(t) : NULL) {
            bool integer;
            if (!type_matches(json_node_text(t), shapes->items[i].type, &integer))
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

/* Keywords that constrain values and are not implemented. */
static const char *const unsupported[] = {
    "contains", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties",
};

static mote_status check_unsupported(schema_compiler *c, const json_node *schema)
{
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (json_node_get(schema, unsupported[i]) != NULL)
            TRY(schema_ignore(c, schema, unsupported[i], NULL));
    return MOTE_OK;
}

static mote_status apply_ref(schema_compiler *c, const json_node *schema, const json_node *ref,
                             schema_shapes *shapes)
{
    const json_node *target;
    if (!json_node_is(ref, JSON_IS_STRING))
        return schema_invalid(c, schema, "$ref");
    const mote_status status = schema_resolve(c, schema, json_node_text(ref), &target);
    if (status == MOTE_E_UNSUPPORTED && schema_may_ignore(c))
        return schema_ignore(c, schema, "$ref", "not found in the document");
    TRY(status);
    return intersect_schema(c, target, shapes);
}

/* ---- evaluation ---- */

/* Keywords that can name members of an object, in the order of the text: it decides the order of
 * the members. */
static mote_status eval_parts(schema_compiler *c, const json_node *schema, schema_shapes *out)
{
    bool members = false;
    for (const json_node *k = json_node_first(schema); k != NULL; k = json_node_next(k)) {
        const str name = json_node_name(k);
        if (str_is(name, "$ref"))
            TRY(apply_ref(c, schema, k, out));
        if (str_is(name, "allOf"))
            TRY(apply_all_of(c, schema, out));
        if (str_is(name, "anyOf") || str_is(name, "oneOf"))
            TRY(apply_alternatives(c, schema, name.p, out));
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
        TRY(apply_enum(c, schema, value, out));
    if ((value = json_node_get(schema, "const")) != NULL)
        TRY(apply_const(c, value, out));
    TRY(schema_apply_keywords(c, schema, out));
    TRY(schema_apply_items(c, schema, out));
    TRY(eval_parts(c, schema, out));
    TRY(apply_dependencies(c, schema, "dependentRequired", out));
    TRY(apply_dependencies(c, schema, "dependentSchemas", out));
    TRY(apply_dependencies(c, schema, "dependencies", out));
    TRY(apply_if(c, schema, out));
    return apply_not(c, schema, out);
}

static bool is_open(const schema_compiler *c, const json_node *schema)
{
    for (uint32_t i = c->first_open; i < c->n_open; i++)
        if (c->open[i] == schema)
            return true;
    return false;
}

mote_status schema_eval(schema_compiler *c, const json_node *schema, schema_shapes *out)
{
    if (json_node_is(schema, JSON_IS_BOOL))
        return json_node_truth(schema) ? schema_shapes_any(c, out) : MOTE_OK;
    if (!json_node_is(schema, JSON_IS_OBJECT))
        return schema_invalid(c, schema, NULL);
    if (is_open(c, schema))
        return MOTE_OK;
    if (c->n_open == SCHEMA_MAX_NESTING)
        return err_set(c->err, MOTE_E_ARG,
                       "schema nests allOf, anyOf, oneOf, not and $ref more than %d deep",
                       SCHEMA_MAX_NESTING);
    if (c->fuel->left < 1000)
        return err_set(c->err, MOTE_E_ARG, "schema too complex: work limit reached");
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
        return apply_const(c, term->node, shapes);
    if (term->kind == TERM_NOT && c->loose)
        return MOTE_OK;
    if (term->kind == TERM_SCHEMA)
        return intersect_schema(c, term->node, shapes);
    const mote_status status = subtract_schema(c, term->node, term->node, "not", shapes);
    if (status == MOTE_E_UNSUPPORTED && schema_may_ignore(c))
        return schema_ignore(c, term->node, "not", NULL);
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
