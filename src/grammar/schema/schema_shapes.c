/* SPDX-License-Identifier: Apache-2.0 */
/* schema_shapes.c - lists of alternatives: creation, union, intersection. */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"

void schema_shapes_fini(schema_shapes *s)
{
    mem_free(s->items);
    *s = (schema_shapes){0};
}

mote_status schema_shapes_add(schema_compiler *c, schema_shapes *s, const schema_shape *shape)
{
    if (s->n >= SCHEMA_MAX_SHAPES)
        return err_set(c->err, MOTE_E_ARG,
                       "schema too complex: a value has more than %d alternatives",
                       SCHEMA_MAX_SHAPES);
    if (!mem_grow(&s->items, s->n, &s->room, sizeof *s->items))
        return schema_no_memory(c);
    s->items[s->n++] = *shape;
    return MOTE_OK;
}

schema_shape schema_shape_any(schema_type type)
{
    return (schema_shape){.type = (uint8_t)type,
                          .is_true = true,
                          .is_false = true,
                          .set = SCHEMA_NONE,
                          .max = RULES_NO_LIMIT,
                          .items = CONJ_ANY,
                          .layers = SCHEMA_NONE,
                          .required = SCHEMA_NONE,
                          .names = SCHEMA_NONE};
}

mote_status schema_shapes_any(schema_compiler *c, schema_shapes *out)
{
    for (int type = 0; type < SCHEMA_TYPES; type++) {
        const schema_shape shape = schema_shape_any((schema_type)type);
        TRY(schema_shapes_add(c, out, &shape));
    }
    return MOTE_OK;
}

mote_status schema_shapes_union(schema_compiler *c, schema_shapes *a, schema_shapes *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        TRY(schema_shapes_add(c, a, &b->items[i]));
    b->n = 0;
    return MOTE_OK;
}

mote_status schema_text_set(schema_compiler *c, const schema_shape *shape, uint32_t *set)
{
    if (shape->type == SCHEMA_NUMBER) {
        uint32_t texts;
        if (!shape->integer)
            TRY(schema_number_texts(c, &texts));
        else if (c->wide)
            TRY(schema_wide_integers(c, &texts));
        else
            TRY(schema_integer_texts(c, &texts));
        return schema_intersect_sets(c, texts, shape->set, set);
    }
    if (shape->min == 0 && shape->max == RULES_NO_LIMIT && shape->set != SCHEMA_NONE) {
        *set = shape->set;
        return MOTE_OK;
    }
    dfa length;
    uint32_t lengths;
    TRY(dfa_length(&length, shape->min, shape->max, c->fuel, c->err));
    TRY(schema_add_set(c, &length, &lengths));
    return schema_intersect_sets(c, shape->set, lengths, set);
}

mote_status schema_add_layer(schema_compiler *c, schema_shape *shape, schema_layer layer)
{
    if (!mem_grow(&c->layers, c->n_layers, &c->layers_room, sizeof *c->layers))
        return schema_no_memory(c);
    layer.next = shape->layers;
    c->layers[c->n_layers] = layer;
    shape->layers = c->n_layers++;
    return MOTE_OK;
}

mote_status schema_add_name(schema_compiler *c, schema_shape *shape, str name)
{
    if (!mem_grow(&c->names, c->n_names, &c->names_room, sizeof *c->names))
        return schema_no_memory(c);
    c->names[c->n_names] = (schema_name){name, shape->required};
    shape->required = c->n_names++;
    return MOTE_OK;
}

/* ---- intersection ---- */

static mote_status intersect_arrays(schema_compiler *c, schema_shape *a, const schema_shape *b)
{
    const uint32_t n = a->n_prefix > b->n_prefix ? a->n_prefix : b->n_prefix;
    if (!mem_grow(&c->lists, c->n_lists + n, &c->lists_room, sizeof *c->lists))
        return schema_no_memory(c);
    const uint32_t prefix = c->n_lists;
    c->n_lists += n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t x = i < a->n_prefix ? c->lists[a->prefix + i] : a->items;
        const uint32_t y = i < b->n_prefix ? c->lists[b->prefix + i] : b->items;
        uint32_t both;
        TRY(schema_conj_and(c, x, y, &both));
        c->lists[prefix + i] = both;
    }
    a->prefix = prefix;
    a->n_prefix = n;
    a->unique = a->unique || b->unique;
    return schema_conj_and(c, a->items, b->items, &a->items);
}

/* Adds the required names of b that a does not have, in their order. */
static mote_status intersect_required(schema_compiler *c, schema_shape *a, const schema_shape *b)
{
    uint32_t n = 0;
    for (uint32_t i = b->required; i != SCHEMA_NONE; i = c->names[i].next)
        n++;
    str *names = mem_new(n, sizeof *names);
    if (names == NULL)
        return schema_no_memory(c);
    uint32_t at = n;
    for (uint32_t i = b->required; i != SCHEMA_NONE; i = c->names[i].next)
        names[--at] = c->names[i].text;
    mote_status status = MOTE_OK;
    for (; at < n && status == MOTE_OK; at++)
        if (!schema_requires(c, a, names[at]))
            status = schema_add_name(c, a, names[at]);
    mem_free(names);
    return status;
}

/* Prepends the layers of b to those of a, in their order. */
static mote_status intersect_objects(schema_compiler *c, schema_shape *a, const schema_shape *b)
{
    uint32_t order[SCHEMA_MAX_LAYERS], n = 0;
    for (uint32_t i = b->layers; i != SCHEMA_NONE && n < SCHEMA_MAX_LAYERS; i = c->layers[i].next)
        order[n++] = i;
    if (n == SCHEMA_MAX_LAYERS)
        return err_set(c->err, MOTE_E_ARG,
                       "schema too complex: %d or more sub-schemas describe one object",
                       SCHEMA_MAX_LAYERS);
    while (n-- > 0)
        TRY(schema_add_layer(c, a, c->layers[order[n]]));
    if (b->required != SCHEMA_NONE)
        TRY(intersect_required(c, a, b));
    return schema_intersect_sets(c, a->names, b->names, &a->names);
}

/* Intersects a with b, which has the same type. *empty: certainly no value is left. */
static mote_status intersect_shape(schema_compiler *c, schema_shape *a, const schema_shape *b,
                                   bool *empty)
{
    a->is_true = a->is_true && b->is_true;
    a->is_false = a->is_false && b->is_false;
    a->integer = a->integer || b->integer;
    a->min = a->min > b->min ? a->min : b->min;
    a->max = a->max < b->max ? a->max : b->max;
    if (a->type == SCHEMA_ARRAY)
        TRY(intersect_arrays(c, a, b));
    if (a->type == SCHEMA_OBJECT)
        TRY(intersect_objects(c, a, b));
    TRY(schema_intersect_sets(c, a->set, b->set, &a->set));
    *empty = a->min > a->max || (a->type == SCHEMA_BOOL && !a->is_true && !a->is_false) ||
             (a->set != SCHEMA_NONE && dfa_empty(&c->sets[a->set].texts));
    return MOTE_OK;
}

static mote_status intersect_lists(schema_compiler *c, const schema_shapes *a,
                                   const schema_shapes *b, schema_shapes *out)
{
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < b->n; k++) {
            if (a->items[i].type != b->items[k].type)
                continue;
            schema_shape both = a->items[i];
            bool empty;
            TRY(intersect_shape(c, &both, &b->items[k], &empty));
            if (!empty)
                TRY(schema_shapes_add(c, out, &both));
        }
    return MOTE_OK;
}

mote_status schema_shapes_intersect(schema_compiler *c, schema_shapes *a, const schema_shapes *b)
{
    schema_shapes out = {0};
    const mote_status status = intersect_lists(c, a, b, &out);
    if (status != MOTE_OK) {
        schema_shapes_fini(&out);
        return status;
    }
    schema_shapes_fini(a);
    *a = out;
    return MOTE_OK;
}
