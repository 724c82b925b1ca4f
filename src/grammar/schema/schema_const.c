/* SPDX-License-Identifier: Apache-2.0 */
/* schema_const.c - constants and enumerations, as alternatives. */
#include "grammar/schema/schema_int.h"

#include "grammar/rules/grow.h"

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
    if (!grow_for(&c->lists, c->n_lists + n, &c->lists_room, sizeof *c->lists))
        return schema_no_memory(c);
    shape->prefix = c->n_lists;
    shape->n_prefix = shape->min = shape->max = n;
    shape->rest = CONJ_NEVER;
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

/* All strings of an enum together: a list of a thousand is one automaton. */
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

mote_status schema_apply_enum(schema_compiler *c, const json_node *schema, const json_node *values,
                              schema_shapes *shapes)
{
    if (!json_node_is(values, JSON_IS_ARRAY))
        return schema_malformed(c, schema, "enum");
    schema_shapes constants = {0};
    mote_status status = enum_shapes(c, values, &constants);
    if (status == MOTE_OK)
        status = schema_shapes_both(c, shapes, &constants);
    schema_shapes_fini(&constants);
    return status;
}

mote_status schema_apply_const(schema_compiler *c, const json_node *value, schema_shapes *shapes)
{
    schema_shapes constant = {0};
    mote_status status = add_const(c, value, &constant);
    if (status == MOTE_OK)
        status = schema_shapes_both(c, shapes, &constant);
    schema_shapes_fini(&constant);
    return status;
}
