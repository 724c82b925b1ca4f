/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_keywords.c - keywords about one JSON type: each narrows the shapes of that type. Also the
 * patterns of the known formats.
 */
#include "grammar/schema/schema_int.h"

#include "base/mem.h"
#include "grammar/rules/regex.h"

/* ---- formats ----
 *
 * A pattern accepts only texts that satisfy the format, but not all of them: no leap seconds, no
 * quoted local parts, no internationalised names. The limit of 63 characters per host label is not
 * enforced: a counter in every label would make every mask a new one. */

#define YEAR "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP_YEAR                                                                                  \
    "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                       \
    "(?:" YEAR "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"                                 \
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP_YEAR "-02-29)"
#define TIME                                                                                       \
    "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"                                 \
    "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define LABEL       "[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
#define HOST        LABEL "(?:\\." LABEL ")*"
#define LOCAL       "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
#define BYTE_NUMBER "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4        "(?:" BYTE_NUMBER "\\.){3}" BYTE_NUMBER
#define HEX4        "[0-9A-Fa-f]{1,4}"
#define IPV6                                                                                       \
    "(?:(?:" HEX4 ":){7}" HEX4 "|(?:" HEX4 ":){1,7}:|(?:" HEX4 ":){1,6}:" HEX4 "|(?:" HEX4         \
    ":){1,5}(?::" HEX4 "){1,2}|(?:" HEX4 ":){1,4}(?::" HEX4 "){1,3}|(?:" HEX4 ":){1,3}(?::" HEX4   \
    "){1,4}|(?:" HEX4 ":){1,2}(?::" HEX4 "){1,5}|" HEX4 ":(?::" HEX4 "){1,6}|:(?::" HEX4           \
    "){1,7}|::)"
#define PCHAR     "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
#define AUTHORITY "(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+(?::[0-9]{1,5})?"
#define URI                                                                                        \
    "[A-Za-z][A-Za-z0-9+.-]{0,30}:(?://" AUTHORITY "(?:/" PCHAR "*)*|/?" PCHAR "+(?:/" PCHAR       \
    "*)*)"                                                                                         \
    "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"
#define DURATION_TIME "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)"
#define DURATION_DATE "(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date", "^" DATE "$"},
    {"time", "^" TIME "$"},
    {"date-time", "^" DATE "T" TIME "$"},
    {"duration", "^P(?:" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME "|[0-9]+W)$"},
    {"email", "^" LOCAL "+(?:\\." LOCAL "+)*@" LABEL "(?:\\." LABEL ")+$"},
    {"hostname", "^" HOST "$"},
    {"ipv4", "^" IPV4 "$"},
    {"ipv6", "^" IPV6 "$"},
    {"uri", "^" URI "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    {"json-pointer", "^(?:/(?:[^~/]|~[01])*)*$"},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]{0,9})(?:#|(?:/(?:[^~/]|~[01])*)*)$"},
};

/* The pattern of a format; NULL: unknown. */
static const char *format_pattern(str format)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (str_is(format, formats[i].name))
            return formats[i].pattern;
    return NULL;
}

typedef struct keyword keyword;

/* Applies the keyword to a shape of its type. */
typedef mote_status keyword_fn(schema_compiler *c, const json_node *schema, const json_node *value,
                               const keyword *k, schema_shape *shape);

struct keyword {
    const char *name;
    schema_type type;
    keyword_fn *apply;
    int detail;
};

static mote_status narrow_texts(schema_compiler *c, schema_shape *shape, uint32_t set)
{
    return schema_intersect_sets(c, shape->set, set, &shape->set);
}

static mote_status apply_bound(schema_compiler *c, const json_node *schema, const json_node *value,
                               const keyword *k, schema_shape *shape)
{
    int bound = k->detail;
    uint32_t set;
    if (json_node_is(value, JSON_IS_BOOL) && (bound == BOUND_ABOVE || bound == BOUND_BELOW))
        return MOTE_OK; /* draft 4: a modifier of minimum or maximum, see below */
    if (!json_node_is(value, JSON_IS_NUMBER))
        return schema_invalid(c, schema, k->name);
    if (bound == BOUND_MIN && json_node_truth(json_node_get(schema, "exclusiveMinimum")))
        bound = BOUND_ABOVE;
    if (bound == BOUND_MAX && json_node_truth(json_node_get(schema, "exclusiveMaximum")))
        bound = BOUND_BELOW;
    TRY(schema_number_bound(c, json_node_text(value), (number_bound)bound, &set));
    return narrow_texts(c, shape, set);
}

static mote_status apply_multiple(schema_compiler *c, const json_node *schema,
                                  const json_node *value, const keyword *k, schema_shape *shape)
{
    uint32_t set;
    if (!json_node_is(value, JSON_IS_NUMBER))
        return schema_invalid(c, schema, k->name);
    const mote_status status = schema_number_multiple(c, schema, json_node_text(value), &set);
    if (status == MOTE_E_UNSUPPORTED && schema_may_ignore(c))
        return schema_ignore(c, schema, k->name, "too many digits");
    TRY(status);
    return narrow_texts(c, shape, set);
}

/* A non-negative integer; 3.0 is one too. */
static bool keyword_count(const json_node *value, uint32_t *out)
{
    const double number = json_node_double(value);
    if (!json_node_is(value, JSON_IS_NUMBER) || !(number >= 0))
        return false;
    *out = number >= 4294967295.0 ? RULES_NO_LIMIT : (uint32_t)number;
    return (double)*out == number || *out == RULES_NO_LIMIT;
}

enum { COUNT_MIN, COUNT_MAX };

static mote_status apply_count(schema_compiler *c, const json_node *schema, const json_node *value,
                               const keyword *k, schema_shape *shape)
{
    uint32_t count;
    if (!keyword_count(value, &count))
        return schema_invalid(c, schema, k->name);
    if (k->detail == COUNT_MIN && shape->min < count)
        shape->min = count;
    if (k->detail == COUNT_MAX && shape->max > count)
        shape->max = count;
    return MOTE_OK;
}

static mote_status apply_pattern(schema_compiler *c, const json_node *schema,
                                 const json_node *value, const keyword *k, schema_shape *shape)
{
    uint32_t set;
    if (!json_node_is(value, JSON_IS_STRING))
        return schema_invalid(c, schema, k->name);
    TRY(schema_pattern_set(c, schema, json_node_text(value), k->name, &set));
    return narrow_texts(c, shape, set);
}

static mote_status apply_format(schema_compiler *c, const json_node *schema, const json_node *value,
                                const keyword *k, schema_shape *shape)
{
    if (!json_node_is(value, JSON_IS_STRING))
        return schema_invalid(c, schema, k->name);
    const char *pattern = format_pattern(json_node_text(value));
    if (pattern == NULL || c->wide) {
        /* An unknown format is an annotation. In a schema to subtract, so is a known one: its
         * pattern does not accept every valid text. */
        if (pattern == NULL && !c->loose)
            schema_warn(c, schema, k->name, "is an unknown format and is ignored");
        return MOTE_OK;
    }
    uint32_t set;
    TRY(schema_pattern_set(c, schema, str_of(pattern), k->name, &set));
    return narrow_texts(c, shape, set);
}

/* ---- arrays ---- */

static mote_status list_conjs(schema_compiler *c, const json_node *schemas, schema_shape *shape)
{
    const uint32_t n = json_node_size(schemas);
    if (!mem_grow(&c->lists, c->n_lists + n, &c->lists_room, sizeof *c->lists))
        return schema_no_memory(c);
    uint32_t at = shape->prefix = c->n_lists;
    shape->n_prefix = n;
    c->n_lists += n;
    for (const json_node *s = json_node_first(schemas); s != NULL; s = json_node_next(s)) {
        uint32_t conj;
        TRY(schema_conj_one(c, s, TERM_SCHEMA, &conj));
        c->lists[at++] = conj;
    }
    return MOTE_OK;
}

static bool is_schema(const json_node *node)
{
    return json_node_is(node, JSON_IS_OBJECT) || json_node_is(node, JSON_IS_BOOL);
}

/* prefixItems and items; before draft 2020-12: items as a list, and additionalItems. */
static mote_status items_shape(schema_compiler *c, const json_node *schema, schema_shape *shape)
{
    const json_node *prefix = json_node_get(schema, "prefixItems");
    const json_node *items = json_node_get(schema, "items");
    if (json_node_is(items, JSON_IS_ARRAY)) {
        prefix = items;
        items = json_node_get(schema, "additionalItems");
    }
    if (prefix != NULL && !json_node_is(prefix, JSON_IS_ARRAY))
        return schema_invalid(c, schema, "prefixItems");
    if (items != NULL && !is_schema(items))
        return schema_invalid(c, schema, "items");
    if (prefix != NULL)
        TRY(list_conjs(c, prefix, shape));
    return schema_conj_one(c, items, TERM_SCHEMA, &shape->items);
}

mote_status schema_apply_items(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    if (json_node_get(schema, "items") == NULL && json_node_get(schema, "prefixItems") == NULL)
        return MOTE_OK;
    schema_shapes constraint = {0};
    schema_shape shape;
    mote_status status = schema_shapes_any(c, &constraint);
    if (status == MOTE_OK) {
        shape = schema_shape_any(SCHEMA_ARRAY);
        status = items_shape(c, schema, &shape);
        constraint.items[SCHEMA_ARRAY] = shape;
    }
    if (status == MOTE_OK)
        status = schema_shapes_intersect(c, shapes, &constraint);
    schema_shapes_fini(&constraint);
    return status;
}

static mote_status apply_unique(schema_compiler *c, const json_node *schema, const json_node *value,
                                const keyword *k, schema_shape *shape)
{
    if (!json_node_is(value, JSON_IS_BOOL))
        return schema_invalid(c, schema, k->name);
    shape->unique = shape->unique || json_node_truth(value);
    return MOTE_OK;
}

/* ---- objects ---- */

static mote_status check_schemas(schema_compiler *c, const json_node *schema, const json_node *map,
                                 const char *name)
{
    if (map == NULL)
        return MOTE_OK;
    if (!json_node_is(map, JSON_IS_OBJECT))
        return schema_invalid(c, schema, name);
    for (const json_node *m = json_node_first(map); m != NULL; m = json_node_next(m))
        if (!is_schema(m))
            return schema_invalid(c, m, name);
    return MOTE_OK;
}

mote_status schema_apply_members(schema_compiler *c, const json_node *schema, schema_shapes *shapes)
{
    const json_node *properties = json_node_get(schema, "properties");
    const json_node *patterns = json_node_get(schema, "patternProperties");
    const json_node *additional = json_node_get(schema, "additionalProperties");
    if (properties == NULL && patterns == NULL && additional == NULL)
        return MOTE_OK;
    TRY(check_schemas(c, schema, properties, "properties"));
    TRY(check_schemas(c, schema, patterns, "patternProperties"));
    if (additional != NULL && !is_schema(additional))
        return schema_invalid(c, schema, "additionalProperties");
    const bool forbidden = json_node_is(additional, JSON_IS_BOOL) && !json_node_truth(additional);
    schema_layer layer = {.properties = properties,
                          .patterns = patterns,
                          .closes = properties != NULL && additional == NULL,
                          .opens = additional != NULL && !forbidden};
    TRY(schema_conj_one(c, additional, TERM_SCHEMA, &layer.additional));
    for (uint32_t i = 0; i < shapes->n; i++)
        if (shapes->items[i].type == SCHEMA_OBJECT)
            TRY(schema_add_layer(c, &shapes->items[i], layer));
    return MOTE_OK;
}

static mote_status apply_required(schema_compiler *c, const json_node *schema,
                                  const json_node *value, const keyword *k, schema_shape *shape)
{
    if (json_node_is(value, JSON_IS_BOOL))
        return MOTE_OK; /* draft 3 */
    if (!json_node_is(value, JSON_IS_ARRAY))
        return schema_invalid(c, schema, k->name);
    for (const json_node *name = json_node_first(value); name != NULL;
         name = json_node_next(name)) {
        if (!json_node_is(name, JSON_IS_STRING))
            return schema_invalid(c, schema, k->name);
        if (!schema_requires(c, shape, json_node_text(name)))
            TRY(schema_add_name(c, shape, json_node_text(name)));
    }
    return MOTE_OK;
}

/* The DFA of all strings among the alternatives. */
static mote_status names_set(schema_compiler *c, const schema_shapes *shapes, uint32_t *set)
{
    dfa all = {0};
    for (uint32_t i = 0; i < shapes->n; i++) {
        if (shapes->items[i].type != SCHEMA_STRING)
            continue;
        uint32_t one;
        mote_status status = schema_text_set(c, &shapes->items[i], &one);
        if (status == MOTE_OK)
            status = dfa_apply(&all, DFA_UNION, &c->sets[one].texts, c->fuel, c->err);
        if (status != MOTE_OK) {
            dfa_fini(&all);
            return status;
        }
    }
    return schema_add_set(c, &all, set);
}

static mote_status apply_names(schema_compiler *c, const json_node *schema, const json_node *value,
                               const keyword *k, schema_shape *shape)
{
    if (!is_schema(value))
        return schema_invalid(c, schema, k->name);
    schema_shapes names = {0};
    uint32_t set = SCHEMA_NONE;
    mote_status status = schema_eval(c, value, &names);
    if (status == MOTE_OK)
        status = names_set(c, &names, &set);
    schema_shapes_fini(&names);
    TRY(status);
    return schema_intersect_sets(c, shape->names, set, &shape->names);
}

static const keyword keywords[] = {
    {"minimum", SCHEMA_NUMBER, apply_bound, BOUND_MIN},
    {"exclusiveMinimum", SCHEMA_NUMBER, apply_bound, BOUND_ABOVE},
    {"maximum", SCHEMA_NUMBER, apply_bound, BOUND_MAX},
    {"exclusiveMaximum", SCHEMA_NUMBER, apply_bound, BOUND_BELOW},
    {"multipleOf", SCHEMA_NUMBER, apply_multiple, 0},
    {"minLength", SCHEMA_STRING, apply_count, COUNT_MIN},
    {"maxLength", SCHEMA_STRING, apply_count, COUNT_MAX},
    {"pattern", SCHEMA_STRING, apply_pattern, 0},
    {"format", SCHEMA_STRING, apply_format, 0},
    {"minItems", SCHEMA_ARRAY, apply_count, COUNT_MIN},
    {"maxItems", SCHEMA_ARRAY, apply_count, COUNT_MAX},
    {"uniqueItems", SCHEMA_ARRAY, apply_unique, 0},
    {"required", SCHEMA_OBJECT, apply_required, 0},
    {"propertyNames", SCHEMA_OBJECT, apply_names, 0},
    {"minProperties", SCHEMA_OBJECT, apply_count, COUNT_MIN},
    {"maxProperties", SCHEMA_OBJECT, apply_count, COUNT_MAX},
};

mote_status schema_apply_keywords(schema_compiler *c, const json_node *schema,
                                  schema_shapes *shapes)
{
    for (size_t k = 0; k < sizeof keywords / sizeof *keywords; k++) {
        const json_node *value = json_node_get(schema, keywords[k].name);
        for (uint32_t i = 0; value != NULL && i < shapes->n; i++)
            if (shapes->items[i].type == keywords[k].type)
                TRY(keywords[k].apply(c, schema, value, &keywords[k], &shapes->items[i]));
    }
    return MOTE_OK;
}
