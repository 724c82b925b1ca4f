/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_not.c - difference of shapes, for not, oneOf and if.
 *
 * Numbers and strings are regular sets, so their difference always exists. The difference of
 * arrays or objects is supported in these cases: the two are certainly disjoint; the subtracted
 * array constrains only its length; the subtracted object constrains only single members, or
 * requires one that the other does not declare. Any other case is MOTE_E_UNSUPPORTED.
 */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"

enum { DISJOINT_DEPTH = 4 }; /* levels of nested values that are compared */

/* ---- disjointness ----
 *
 * Conservative: false if in doubt. Conjunctions inside the values are evaluated loosely, to a
 * superset. */

static mote_status shapes_disjoint(schema_compiler *c, const schema_shape *a, const schema_shape *b,
                                   int depth, bool *out);

/* Evaluates a conjunction of a nested value. The schemas that are open now are about the outer
 * value, so they are no cycle here. */
static mote_status shapes_inside(schema_compiler *c, uint32_t conj, schema_shapes *out)
{
    const uint32_t first = c->first_open;
    const bool wide = c->wide, loose = c->loose;
    c->first_open = c->n_open;
    c->wide = c->loose = true;
    const mote_status status = schema_shapes_of(c, conj, out);
    c->wide = wide;
    c->loose = loose;
    c->first_open = first;
    return status;
}

/* A superset of the alternatives of a conjunction. Cached: do not free *out. */
static mote_status loose_shapes(schema_compiler *c, uint32_t conj, schema_shapes *out)
{
    *out = (schema_shapes){0};
    if (!mem_grow(&c->loose_shapes, conj, &c->loose_room, sizeof *c->loose_shapes))
        return schema_no_memory(c);
    if (c->loose_shapes[conj].items == NULL) {
        schema_shapes found = {0};
        const mote_status status = shapes_inside(c, conj, &found);
        if (status != MOTE_OK) {
            schema_shapes_fini(&found);
            return status;
        }
        c->loose_shapes[conj] = found;
    }
    *out = c->loose_shapes[conj];
    return MOTE_OK;
}

static mote_status conjs_disjoint(schema_compiler *c, uint32_t a, uint32_t b, int depth, bool *out)
{
    schema_shapes x, y;
    *out = true;
    TRY(loose_shapes(c, a, &x));
    TRY(loose_shapes(c, b, &y));
    for (uint32_t i = 0; *out && i < x.n; i++)
        for (uint32_t k = 0; *out && k < y.n; k++)
            TRY(shapes_disjoint(c, &x.items[i], &y.items[k], depth - 1, out));
    return MOTE_OK;
}

static mote_status texts_disjoint(schema_compiler *c, const schema_shape *a, const schema_shape *b,
                                  bool *out)
{
    uint32_t x, y;
    if (a->type == SCHEMA_STRING && a->set == SCHEMA_NONE && b->set == SCHEMA_NONE) {
        *out = a->max < b->min || b->max < a->min;
        return MOTE_OK;
    }
    TRY(schema_text_set(c, a, &x));
    TRY(schema_text_set(c, b, &y));
    dfa both;
    TRY(dfa_combine(&both, &c->sets[x].texts, DFA_INTERSECT, &c->sets[y].texts, c->fuel, c->err));
    *out = dfa_empty(&both);
    dfa_fini(&both);
    return MOTE_OK;
}

static uint32_t item_conj(const schema_compiler *c, const schema_shape *shape, uint32_t i)
{
    return i < shape->n_prefix ? c->lists[shape->prefix + i] : shape->items;
}

static mote_status arrays_disjoint(schema_compiler *c, const schema_shape *a, const schema_shape *b,
                                   int depth, bool *out)
{
    const uint32_t both = a->min > b->min ? a->min : b->min;
    *out = a->max < b->min || b->max < a->min;
    for (uint32_t i = 0; i < both && i < 16 && !*out && depth > 0; i++)
        TRY(conjs_disjoint(c, item_conj(c, a, i), item_conj(c, b, i), depth, out));
    return MOTE_OK;
}

/* Disjoint if a member is required by both with disjoint values, or required by one and forbidden
 * by the other. */
static mote_status objects_disjoint(schema_compiler *c, const schema_shape *a,
                                    const schema_shape *b, int depth, bool *out)
{
    *out = a->max < b->min || b->max < a->min;
    for (uint32_t i = a->required; i != SCHEMA_NONE && !*out && depth > 0; i = c->names[i].next) {
        uint32_t x, y;
        TRY(schema_member_conj(c, a, c->names[i].text, &x));
        TRY(schema_member_conj(c, b, c->names[i].text, &y));
        if (y == CONJ_NEVER)
            *out = true;
        else if (schema_requires(c, b, c->names[i].text))
            TRY(conjs_disjoint(c, x, y, depth, out));
    }
    for (uint32_t i = b->required; i != SCHEMA_NONE && !*out && depth > 0; i = c->names[i].next) {
        uint32_t x;
        TRY(schema_member_conj(c, a, c->names[i].text, &x));
        *out = x == CONJ_NEVER;
    }
    return MOTE_OK;
}

static mote_status shapes_disjoint(schema_compiler *c, const schema_shape *a, const schema_shape *b,
                                   int depth, bool *out)
{
    *out = a->type != b->type;
    if (*out)
        return MOTE_OK;
    switch (a->type) {
    case SCHEMA_NULL: return MOTE_OK;
    case SCHEMA_BOOL:
        *out = !(a->is_true && b->is_true) && !(a->is_false && b->is_false);
        return MOTE_OK;
    case SCHEMA_ARRAY: return arrays_disjoint(c, a, b, depth, out);
    case SCHEMA_OBJECT: return objects_disjoint(c, a, b, depth, out);
    default: return texts_disjoint(c, a, b, out);
    }
}

/* ---- difference ---- */

/* Numbers and strings. */
static mote_status text_subtract(schema_compiler *c, const schema_shape *a, const schema_shape *b,
                                 schema_shapes *out)
{
    uint32_t x, y;
    schema_shape left = *a;
    const bool wide = c->wide;
    c->wide = false;
    TRY(schema_text_set(c, a, &x));
    c->wide = true;
    TRY(schema_text_set(c, b, &y));
    c->wide = wide;
    dfa set;
    TRY(dfa_combine(&set, &c->sets[x].texts, DFA_SUBTRACT, &c->sets[y].texts, c->fuel, c->err));
    const bool empty = dfa_empty(&set);
    TRY(schema_add_set(c, &set, &left.set));
    left.min = 0;
    left.max = RULES_NO_LIMIT;
    return empty ? MOTE_OK : schema_shapes_add(c, out, &left);
}

/* Adds a with its size limited to [min, max], unless that is empty. */
static mote_status with_range(schema_compiler *c, const schema_shape *a, uint32_t min, uint32_t max,
                              schema_shapes *out)
{
    schema_shape left = *a;
    left.min = a->min > min ? a->min : min;
    left.max = a->max < max ? a->max : max;
    return left.min <= left.max ? schema_shapes_add(c, out, &left) : MOTE_OK;
}

/* Adds the values of a with a size outside the range of b. */
static mote_status outside_range(schema_compiler *c, const schema_shape *a, const schema_shape *b,
                                 schema_shapes *out)
{
    if (b->min > 0)
        TRY(with_range(c, a, 0, b->min - 1, out));
    if (b->max != RULES_NO_LIMIT)
        TRY(with_range(c, a, b->max + 1, RULES_NO_LIMIT, out));
    return MOTE_OK;
}

/* An object without undeclared members lacks a member that b requires and a does not declare. The
 * result is a without that member. Not for a superset (c->wide): another schema of the same object
 * may declare the member. */
static mote_status object_lacks_required(schema_compiler *c, const schema_shape *a,
                                         const schema_shape *b, schema_shapes *out, bool *lacks)
{
    *lacks = false;
    if (c->wide || c->loose || !schema_closes(c, a))
        return MOTE_OK;
    for (uint32_t i = b->required; i != SCHEMA_NONE; i = c->names[i].next) {
        const str name = c->names[i].text;
        schema_shape left = *a;
        bool declared;
        TRY(schema_declares(c, a, name, &declared));
        if (declared)
            continue;
        *lacks = true;
        TRY(schema_add_layer(c, &left, (schema_layer){.additional = CONJ_ANY, .absent = name}));
        return schema_shapes_add(c, out, &left);
    }
    return MOTE_OK;
}

/* Adds the objects that lack a member required by b, and those with a member that violates b. Only
 * possible if b has no other constraints. */
static mote_status object_subtract(schema_compiler *c, const schema_shape *a, const schema_shape *b,
                                   schema_shapes *out, bool *possible)
{
    bool lacks;
    *possible = true;
    TRY(object_lacks_required(c, a, b, out, &lacks));
    if (lacks)
        return MOTE_OK;
    *possible = b->names == SCHEMA_NONE && b->min == 0 && b->max == RULES_NO_LIMIT;
    for (uint32_t i = b->layers; i != SCHEMA_NONE; i = c->layers[i].next)
        *possible = *possible && c->layers[i].patterns == NULL && !c->layers[i].constant &&
                    c->layers[i].additional == CONJ_ANY && c->layers[i].absent.p == NULL &&
                    c->layers[i].negated.p == NULL;
    if (!*possible)
        return MOTE_OK;
    for (uint32_t i = b->required; i != SCHEMA_NONE; i = c->names[i].next) {
        schema_shape left = *a;
        TRY(schema_add_layer(c, &left,
                             (schema_layer){.additional = CONJ_ANY, .absent = c->names[i].text}));
        if (!schema_requires(c, a, c->names[i].text))
            TRY(schema_shapes_add(c, out, &left));
    }
    for (uint32_t i = b->layers; i != SCHEMA_NONE; i = c->layers[i].next)
        for (const json_node *p = json_node_first(c->layers[i].properties); p != NULL;
             p = json_node_next(p)) {
            schema_shape left = *a;
            const schema_layer layer = {
                .additional = CONJ_ANY, .negated = json_node_name(p), .negated_by = p};
            TRY(schema_add_layer(c, &left, layer));
            if (!schema_requires(c, a, layer.negated))
                TRY(schema_add_name(c, &left, layer.negated));
            TRY(schema_shapes_add(c, out, &left));
        }
    return MOTE_OK;
}

/* Adds a minus b, which has the same type, to out. */
static mote_status shape_subtract(schema_compiler *c, const schema_shape *a, const schema_shape *b,
                                  schema_shapes *out, bool *possible)
{
    schema_shape left = *a;
    *possible = true;
    switch (a->type) {
    case SCHEMA_NULL: return MOTE_OK;
    case SCHEMA_BOOL:
        left.is_true = a->is_true && !b->is_true;
        left.is_false = a->is_false && !b->is_false;
        return left.is_true || left.is_false ? schema_shapes_add(c, out, &left) : MOTE_OK;
    case SCHEMA_ARRAY:
        *possible = b->n_prefix == 0 && b->items == CONJ_ANY && !b->unique;
        return *possible ? outside_range(c, a, b, out) : MOTE_OK;
    case SCHEMA_OBJECT: return object_subtract(c, a, b, out, possible);
    default: return text_subtract(c, a, b, out);
    }
}

static mote_status shapes_subtract_one(schema_compiler *c, const schema_shapes *a,
                                       const schema_shape *b, schema_shapes *out, bool *possible)
{
    *possible = true;
    for (uint32_t i = 0; i < a->n && *possible; i++) {
        bool different;
        const bool wide = c->wide, loose = c->loose;
        c->wide = c->loose = true;
        const mote_status status = shapes_disjoint(c, &a->items[i], b, DISJOINT_DEPTH, &different);
        c->wide = wide;
        c->loose = loose;
        TRY(status);
        if (different)
            TRY(schema_shapes_add(c, out, &a->items[i]));
        else
            TRY(shape_subtract(c, &a->items[i], b, out, possible));
    }
    return MOTE_OK;
}

mote_status schema_shapes_subtract(schema_compiler *c, schema_shapes *a, const schema_shapes *b,
                                   const json_node *schema, const char *keyword)
{
    for (uint32_t k = 0; k < b->n; k++) {
        schema_shapes out = {0};
        bool possible;
        mote_status status = shapes_subtract_one(c, a, &b->items[k], &out, &possible);
        if (status == MOTE_OK && !possible)
            status =
                schema_unsupported(c, schema, keyword, "cannot separate these arrays or objects");
        if (status != MOTE_OK) {
            schema_shapes_fini(&out);
            return status;
        }
        schema_shapes_fini(a);
        *a = out;
    }
    return MOTE_OK;
}
