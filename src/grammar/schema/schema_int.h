/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_int.h - shared by the files of grammar/schema/.
 *
 * A value often has to satisfy several schemas at once: through allOf, $ref, properties of two
 * branches, patternProperties. So the unit of compilation is a conjunction: a set of terms, each a
 * schema of the document, the negation of a schema, or a constant. Conjunctions are interned. Each
 * becomes one rule, which is why recursive schemas terminate.
 *
 * To write its rule, a conjunction is evaluated to shapes: a disjunction of alternatives, each of
 * one JSON type with all its constraints. Items of arrays and members of objects stay conjunctions
 * and are evaluated later.
 *
 * Order of the files, lowest first: schema_terms.c, schema_number.c, schema_shapes.c,
 * schema_refs.c; then schema_not.c, schema_keywords.c and schema_eval.c, which call each other;
 * schema_array.c, schema_object.c; schema.c.
 */
#ifndef MOTE_GRAMMAR_SCHEMA_SCHEMA_INT_H
#define MOTE_GRAMMAR_SCHEMA_SCHEMA_INT_H

#include "grammar/rules/dfa.h"
#include "grammar/schema/schema.h"

#define SCHEMA_NONE UINT32_MAX

typedef enum schema_type {
    SCHEMA_NULL,
    SCHEMA_BOOL,
    SCHEMA_NUMBER,
    SCHEMA_STRING,
    SCHEMA_ARRAY,
    SCHEMA_OBJECT,
    SCHEMA_TYPES
} schema_type;

/* ---- conjunctions ---- */

typedef enum term_kind { TERM_SCHEMA, TERM_NOT, TERM_CONST } term_kind;

typedef struct schema_term {
    const json_node *node;
    uint8_t kind;
} schema_term;

/* Two conjunctions have fixed numbers: any value (no terms), and no value. */
enum { CONJ_ANY = 0, CONJ_NEVER = 1 };

typedef struct schema_conj {
    uint32_t first, n; /* terms, sorted */
    uint32_t rule;     /* or RULES_NONE */
    uint32_t next;     /* in the same hash slot: number + 1 */
} schema_conj;

/* ---- shapes ---- */

/* What one schema says about the members of an object. An object must satisfy all its layers.
 * Layers form linked lists with shared tails. */
typedef struct schema_layer {
    const json_node *properties; /* object or NULL; of a constant: the object itself */
    const json_node *patterns;   /* patternProperties or NULL */
    uint32_t additional;         /* conjunction for all other names */
    bool constant;               /* members are values, not schemas */
    bool closes;                 /* has `properties` and no additionalProperties */
    bool opens;                  /* has additionalProperties other than false */
    str absent;                  /* a forbidden name; p NULL: none */
    str negated;                 /* a name; its value must not satisfy negated_by */
    const json_node *negated_by;
    uint32_t next; /* the previous layer, or SCHEMA_NONE */
} schema_layer;

typedef struct schema_name {
    str text;
    uint32_t next;
} schema_name;

/* Values of one type with their constraints. */
typedef struct schema_shape {
    uint8_t type;
    bool is_true, is_false;    /* boolean: which values are allowed */
    bool integer;              /* number: no fraction */
    bool unique;               /* array: uniqueItems */
    uint32_t set;              /* number or string: DFA of the allowed texts, SCHEMA_NONE: all */
    uint32_t min, max;         /* length of a string, number of items or of members */
    uint32_t prefix, n_prefix; /* array: conjunctions of prefixItems, in `lists` */
    uint32_t items;            /* array: conjunction of the items after the prefix */
    uint32_t layers;           /* object: head of a list, the latest first */
    uint32_t required;         /* object: head of a list of names, the latest first */
    uint32_t names;            /* object: DFA of the allowed names, SCHEMA_NONE: all */
} schema_shape;

/* A list of alternatives. All zero is empty: no value is allowed. */
typedef struct schema_shapes {
    schema_shape *items;
    uint32_t n, room;
} schema_shapes;

/* ---- the compilation ---- */

/* A compiled pattern, cached by its text. */
typedef struct schema_pattern {
    str text;
    uint32_t set;
} schema_pattern;

typedef enum number_bound { BOUND_MIN, BOUND_ABOVE, BOUND_MAX, BOUND_BELOW } number_bound;

/* The DFA of the numbers on one side of a bound, cached. */
typedef struct schema_bound {
    str number;
    number_bound bound;
    uint32_t set;
} schema_bound;

/* A DFA, and the rule that writes its texts as a JSON value. */
typedef struct schema_set {
    dfa texts;
    uint32_t rule; /* or RULES_NONE */
} schema_set;

typedef struct schema_compiler {
    rules *r;
    const json_node *root;
    bool lenient;
    bool open_objects; /* schema_options */
    bool old_refs;     /* drafts up to 7: $ref hides the other keywords of its schema */
    strbuf *warnings;
    dfa_fuel *fuel;
    mote_error *err;

    schema_term *terms;
    schema_conj *conjs;
    uint32_t *conj_slots; /* hash table [CONJ_SLOTS]: number + 1 */
    uint32_t *todo;       /* conjunctions with a rule that has no body yet */
    schema_set *sets;
    uint32_t *lists; /* conjunctions of prefixItems */
    schema_layer *layers;
    schema_name *names;
    schema_pattern *patterns;
    schema_bound *bounds;
    dfa_pairs intersected;   /* pairs of sets with a cached intersection */
    uint32_t *intersections; /* [intersected.n], their intersections; SCHEMA_NONE: not computed */
    uint32_t n_patterns, patterns_room, n_bounds, bounds_room, intersections_room;
    uint32_t n_terms, terms_room, n_conjs, conjs_room, n_todo, todo_room, n_sets, sets_room;
    uint32_t n_lists, lists_room, n_layers, layers_room, n_names, names_room;
    const json_node *where; /* a schema of the conjunction being written, for diagnostics */

    const json_node *open[SCHEMA_MAX_NESTING]; /* schemas being evaluated, to detect cycles */
    uint32_t n_open, first_open;               /* from first_open on: about the same value */
    schema_shapes *loose_shapes;               /* [loose_room] by conjunction, see schema_not.c */
    uint32_t loose_room;
    /* Evaluating a schema to subtract: the result contains every value that satisfies the schema,
     * numbers in every spelling. Otherwise it may be a subset, such as one spelling of a
     * const number. */
    bool wide;
    bool loose; /* evaluating for a disjointness test: the result may be a superset */
    uint32_t number_texts, integer_texts, wide_integers, number_limits; /* sets, or SCHEMA_NONE */
} schema_compiler;

enum { CONJ_SLOTS = 4096, SCHEMA_MAX_LAYERS = 256 };

static inline mote_status schema_no_memory(schema_compiler *c)
{
    return err_set(c->err, MOTE_E_MEMORY, "out of memory: schema");
}

/* ---- schema_terms.c: diagnostics, conjunctions, sets of texts, members of objects ---- */

/* Sets c->where: diagnostics from here on refer to this conjunction. */
void schema_set_where(schema_compiler *c, uint32_t conj);
/* MOTE_E_UNSUPPORTED with the keyword and its JSON pointer; `why` may be NULL. */
mote_status schema_unsupported(schema_compiler *c, const json_node *schema, const char *keyword,
                               const char *why);
/* May unsupported keywords be ignored? Not inside a negated schema: that would allow more. */
static inline bool schema_may_ignore(const schema_compiler *c)
{
    return c->loose || (c->lenient && !c->wide);
}
/* Ignores a keyword with a warning if that is allowed, else schema_unsupported. */
mote_status schema_ignore(schema_compiler *c, const json_node *schema, const char *keyword,
                          const char *why);
/* MOTE_E_FORMAT: the keyword has an invalid value; NULL: the schema itself is invalid. */
mote_status schema_invalid(schema_compiler *c, const json_node *schema, const char *keyword);
void schema_warn(schema_compiler *c, const json_node *schema, const char *keyword, const char *why);
/* The rule of a conjunction. Its body is written later, see `todo`. */
mote_status schema_rule(schema_compiler *c, uint32_t conj, uint32_t *rule);

/* The conjunction of one schema; NULL: any value. */
mote_status schema_conj_one(schema_compiler *c, const json_node *schema, term_kind kind,
                            uint32_t *out);
mote_status schema_conj_and(schema_compiler *c, uint32_t a, uint32_t b, uint32_t *out);

/* Takes ownership of the set, also on failure. */
mote_status schema_add_set(schema_compiler *c, dfa *set, uint32_t *out);
/* Intersection of two sets; SCHEMA_NONE is the set of all texts. Cached. */
mote_status schema_intersect_sets(schema_compiler *c, uint32_t a, uint32_t b, uint32_t *out);

/* The DFA of a pattern (cached); SCHEMA_NONE: the keyword `name` is ignored. */
mote_status schema_pattern_set(schema_compiler *c, const json_node *schema, str pattern,
                               const char *name, uint32_t *set);

/* The conjunction of the member `name` of an object. */
mote_status schema_member_conj(schema_compiler *c, const schema_shape *shape, str name,
                               uint32_t *conj);
bool schema_requires(const schema_compiler *c, const schema_shape *shape, str name);
/* Whether an object has only members that its schemas declare: one of them has `properties`, and
 * none has additionalProperties that allow more. Decided for all schemas of the object together:
 * each branch of an allOf alone would exclude the members of the others. */
bool schema_closes(const schema_compiler *c, const schema_shape *shape);
/* Whether `properties`, patternProperties or `required` of a schema of the object have the name. */
mote_status schema_declares(schema_compiler *c, const schema_shape *shape, str name, bool *out);

/* ---- schema_refs.c ---- */

/* The target of a $ref. MOTE_E_UNSUPPORTED: not in the document. */
mote_status schema_resolve(schema_compiler *c, const json_node *schema, str ref,
                           const json_node **out);

/* ---- schema_eval.c ---- */

/* Evaluates a conjunction to its alternatives. *out must be empty. */
mote_status schema_shapes_of(schema_compiler *c, uint32_t conj, schema_shapes *out);
void schema_shapes_fini(schema_shapes *s);

/* Evaluates one schema. *out must be empty; free it also after a failure. */
mote_status schema_eval(schema_compiler *c, const json_node *schema, schema_shapes *out);

/* ---- schema_keywords.c: narrow shapes by keywords of a schema ---- */

/* All keywords about one type, except those of items and members. */
mote_status schema_apply_keywords(schema_compiler *c, const json_node *schema,
                                  schema_shapes *shapes);
mote_status schema_apply_items(schema_compiler *c, const json_node *schema, schema_shapes *shapes);
mote_status schema_apply_members(schema_compiler *c, const json_node *schema,
                                 schema_shapes *shapes);

/* ---- schema_shapes.c ---- */

mote_status schema_shapes_add(schema_compiler *c, schema_shapes *s, const schema_shape *shape);
/* One unconstrained shape of each type. */
mote_status schema_shapes_any(schema_compiler *c, schema_shapes *out);
/* An unconstrained shape. */
schema_shape schema_shape_any(schema_type type);
/* *a = intersection of *a and *b. */
mote_status schema_shapes_intersect(schema_compiler *c, schema_shapes *a, const schema_shapes *b);
/* *a = union of *a and *b; empties *b. */
mote_status schema_shapes_union(schema_compiler *c, schema_shapes *a, schema_shapes *b);
/* The DFA of the texts of a number or string. */
mote_status schema_text_set(schema_compiler *c, const schema_shape *shape, uint32_t *set);
/* These prepend to the lists of a shape. */
mote_status schema_add_layer(schema_compiler *c, schema_shape *shape, schema_layer layer);
mote_status schema_add_name(schema_compiler *c, schema_shape *shape, str name);

/* ---- schema_not.c ---- */

/* *a = difference of *a and *b. MOTE_E_UNSUPPORTED: shapes cannot express it; the error names the
 * keyword. */
mote_status schema_shapes_subtract(schema_compiler *c, schema_shapes *a, const schema_shapes *b,
                                   const json_node *schema, const char *keyword);

/* ---- schema_number.c ---- */

/* The DFA of the numbers on one side of a bound. */
mote_status schema_number_bound(schema_compiler *c, str number, number_bound bound, uint32_t *set);
mote_status schema_number_multiple(schema_compiler *c, const json_node *schema, str number,
                                   uint32_t *set);
/* A number without exponent and trailing zeros, if that has at most 80 digits; else unchanged. */
mote_status schema_number_plain(schema_compiler *c, str number, strbuf *out);
/* Every spelling of one number without exponent. */
mote_status schema_number_equal(schema_compiler *c, str number, uint32_t *set);
/* Numbers of any length without exponent: all; integers; integers with an optional fraction of
 * zeros. */
mote_status schema_number_texts(schema_compiler *c, uint32_t *set);
mote_status schema_integer_texts(schema_compiler *c, uint32_t *set);
mote_status schema_wide_integers(schema_compiler *c, uint32_t *set);
/* Limits a set of numbers to JSON_RULES_DIGITS digits before and after the point, unless the set is
 * finite or has more than 40 states. */
mote_status schema_number_limit(schema_compiler *c, uint32_t set, uint32_t *out);

/* ---- schema_array.c, schema_object.c ---- */

mote_status schema_put_array(schema_compiler *c, const schema_shape *shape, uint32_t from,
                             uint32_t to);
mote_status schema_put_object(schema_compiler *c, const schema_shape *shape, uint32_t from,
                              uint32_t to);
typedef struct schema_names {
    str *items;
    uint32_t n, room;
} schema_names;

/* The names that the schemas of an object list, in their order. *names must be empty; free its
 * items, also on failure. */
mote_status schema_member_names(schema_compiler *c, const schema_shape *shape, schema_names *names);

#endif
