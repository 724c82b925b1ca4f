/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_int.h - what the files of json_schema/ share.
 *
 * A value has to satisfy several schemas at once wherever allOf, $ref, properties
 * of two branches or patterns meet. So the unit of everything is a conjunction:
 * a set of terms, each a schema of the document, the negation of one, or a
 * constant. Equal conjunctions are one, and each becomes one rule, which is also
 * what makes recursion end.
 *
 * To write its rule, a conjunction is worked out to shapes: alternatives of one
 * type each, with everything that is said about it collected. What lies
 * inside arrays and objects stays a conjunction, for later.
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

/* Two conjunctions have fixed numbers. */
enum { CONJ_ANY = 0 /* no terms */, CONJ_NEVER = 1 };

typedef struct schema_conj {
    uint32_t first, n; /* terms, in order */
    uint32_t rule;     /* or RULES_NONE */
    uint32_t next;     /* of the same slot, number + 1 */
} schema_conj;

/* ---- shapes ---- */

/* One schema's say about the members of an object; lists of these are shared. */
typedef struct schema_layer {
    const json_node *properties; /* object or NULL; of a constant: the object itself */
    const json_node *patterns;   /* patternProperties or NULL */
    uint32_t additional;         /* conjunction for all other names */
    bool constant;               /* members are values, not schemas */
    str absent;                  /* a name that must not come; p NULL: none */
    str negated;                 /* a name whose value must not satisfy negated_by */
    const json_node *negated_by;
    uint32_t next; /* the layer before, or SCHEMA_NONE */
} schema_layer;

typedef struct schema_name {
    str text;
    uint32_t next;
} schema_name;

typedef struct schema_shape {
    uint8_t type;
    bool is_true, is_false;    /* a boolean that may be so */
    bool integer;              /* a number without fraction */
    bool unique;               /* items differ */
    uint32_t set;              /* texts of a number or string, or SCHEMA_NONE: all */
    uint32_t min, max;         /* length, items or members */
    uint32_t prefix, n_prefix; /* first items: conjunctions in `lists` */
    uint32_t rest;             /* conjunction of the other items */
    uint32_t layers;           /* of an object: head of a list, the latest first */
    uint32_t required;         /* names: head of a list, the latest first */
    uint32_t names;            /* set of names that may come, or SCHEMA_NONE: all */
} schema_shape;

/* Alternatives. All zero is none. */
typedef struct schema_shapes {
    schema_shape *items;
    uint32_t n, room;
} schema_shapes;

/* ---- the compilation ---- */

/* A pattern and the strings it finds something in. */
typedef struct schema_pattern {
    str text;
    uint32_t set;
} schema_pattern;

typedef enum number_bound { BOUND_MIN, BOUND_ABOVE, BOUND_MAX, BOUND_BELOW } number_bound;

/* A bound and the numbers on its side. */
typedef struct schema_bound {
    str number;
    number_bound bound;
    uint32_t set;
} schema_bound;

/* A set of texts, and the rule that writes them as a value. */
typedef struct schema_set {
    dfa texts;
    uint32_t rule; /* or RULES_NONE */
} schema_set;

typedef struct schema_compiler {
    rules *r;
    const json_node *root;
    bool lenient, old_refs; /* $ref hides its neighbours, as drafts up to 7 have it */
    strbuf *warnings;
    dfa_fuel *fuel;
    mote_error *err;

    schema_term *terms;
    schema_conj *conjs;
    uint32_t *conj_slots; /* [CONJ_SLOTS], number + 1 */
    uint32_t *todo;       /* conjunctions with a rule but without a body */
    schema_set *sets;
    uint32_t *lists; /* conjunctions of items */
    schema_layer *layers;
    schema_name *names;
    schema_pattern *patterns;
    schema_bound *bounds;
    dfa_pairs joined; /* sets that were joined */
    uint32_t *joints; /* [joined.n], the result of each; SCHEMA_NONE: not made */
    uint32_t n_patterns, patterns_room, n_bounds, bounds_room, joints_room;
    uint32_t n_terms, terms_room, n_conjs, conjs_room, n_todo, todo_room, n_sets, sets_room;
    uint32_t n_lists, lists_room, n_layers, layers_room, n_names, names_room;
    const json_node *where; /* a schema of the conjunction being written */

    const json_node *open[SCHEMA_MAX_NESTING]; /* schemas being worked out, against circles */
    uint32_t n_open, first_open;               /* those from first_open on are of one value */
    schema_shapes *loose_shapes;               /* [loose_room], alternatives of conjunctions */
    uint32_t loose_room;
    bool wide;  /* numbers in every spelling, for what is taken away */
    bool loose; /* rather too much than too little, for what is only compared */
    uint32_t number_texts, integer_texts, wide_integers, number_limits; /* sets, or SCHEMA_NONE */
} schema_compiler;

enum { CONJ_SLOTS = 4096, SCHEMA_MAX_LAYERS = 256 };

static inline mote_status schema_no_memory(schema_compiler *c)
{
    return err_set(c->err, MOTE_E_MEMORY, "no memory for a schema");
}

/* ---- schema_terms.c: diagnostics, conjunctions, sets of texts, members of objects ---- */

/* What is written next belongs to this conjunction: for messages. */
void schema_stand_at(schema_compiler *c, uint32_t conj);
/* MOTE_E_UNSUPPORTED with the keyword and its place; `why` may be NULL. */
mote_status schema_unsupported(schema_compiler *c, const json_node *schema, const char *keyword,
                               const char *why);
/* May what is not supported be left out? Not inside of something that is negated. */
static inline bool schema_may_leave_out(const schema_compiler *c)
{
    return c->loose || (c->lenient && !c->wide);
}
/* The same as a warning where that is so. */
mote_status schema_leave_out(schema_compiler *c, const json_node *schema, const char *keyword,
                             const char *why);
/* MOTE_E_FORMAT: the keyword's value is not of the kind it has to be. */
mote_status schema_malformed(schema_compiler *c, const json_node *schema, const char *keyword);
void schema_warn(schema_compiler *c, const json_node *schema, const char *keyword, const char *why);
/* The rule of a conjunction; its body comes later. */
mote_status schema_rule(schema_compiler *c, uint32_t conj, uint32_t *rule);

/* The conjunction of one schema, which may be NULL: any value. */
mote_status schema_conj_one(schema_compiler *c, const json_node *schema, term_kind kind,
                            uint32_t *out);
mote_status schema_conj_both(schema_compiler *c, uint32_t a, uint32_t b, uint32_t *out);

/* Takes the set, also when it fails. */
mote_status schema_add_set(schema_compiler *c, dfa *set, uint32_t *out);
/* Both of two sets; SCHEMA_NONE stands for everything. */
mote_status schema_both_sets(schema_compiler *c, uint32_t a, uint32_t b, uint32_t *out);

/* ---- schema_refs.c ---- */

mote_status schema_resolve(schema_compiler *c, const json_node *schema, str ref,
                           const json_node **out);

/* ---- schema_eval.c ---- */

/* The alternatives of a conjunction. out is initialised. */
mote_status schema_shapes_of(schema_compiler *c, uint32_t conj, schema_shapes *out);
void schema_shapes_fini(schema_shapes *s);

/* The alternatives of one schema. out is empty before; free it also after a failure. */
mote_status schema_eval(schema_compiler *c, const json_node *schema, schema_shapes *out);

/* ---- schema_keywords.c: narrow shapes by keywords of a schema ---- */

/* All keywords about one type of value but those of items and members. */
mote_status schema_apply_keywords(schema_compiler *c, const json_node *schema,
                                  schema_shapes *shapes);
mote_status schema_apply_items(schema_compiler *c, const json_node *schema, schema_shapes *shapes);
mote_status schema_apply_members(schema_compiler *c, const json_node *schema,
                                 schema_shapes *shapes);

/* ---- schema_shapes.c ---- */

mote_status schema_shapes_add(schema_compiler *c, schema_shapes *s, const schema_shape *shape);
/* Every type, nothing said about it. */
mote_status schema_shapes_any(schema_compiler *c, schema_shapes *out);
/* Of a kind, nothing said about it. */
schema_shape schema_shape_any(schema_type type);
/* Replaces a by what satisfies both. */
mote_status schema_shapes_both(schema_compiler *c, schema_shapes *a, const schema_shapes *b);
/* Moves the alternatives of b to a. */
mote_status schema_shapes_either(schema_compiler *c, schema_shapes *a, schema_shapes *b);
/* The texts of a number or string as a set. */
mote_status schema_text_set(schema_compiler *c, const schema_shape *shape, uint32_t *set);
/* Layers and names are lists; these put one before. */
mote_status schema_add_layer(schema_compiler *c, schema_shape *shape, schema_layer layer);
mote_status schema_add_name(schema_compiler *c, schema_shape *shape, str name);

/* ---- schema_without.c ---- */

/* Takes away from a what satisfies b. MOTE_E_UNSUPPORTED: it cannot be said. */
mote_status schema_shapes_without(schema_compiler *c, schema_shapes *a, const schema_shapes *b,
                                  const json_node *schema, const char *keyword);

/* ---- schema_number.c ---- */

/* Numbers on one side of another, as a set of texts. */
mote_status schema_number_bound(schema_compiler *c, str number, number_bound bound, uint32_t *set);
mote_status schema_number_multiple(schema_compiler *c, const json_node *schema, str number,
                                   uint32_t *set);
/* A number in its plain spelling, without exponent if that is short enough. */
mote_status schema_number_plain(schema_compiler *c, str number, strbuf *out);
/* Every spelling of one number without exponent. */
mote_status schema_number_equal(schema_compiler *c, str number, uint32_t *set);
/* All numbers without exponent; integers; integers that may have a fraction of zeros. Of any number
 * of digits. */
mote_status schema_number_texts(schema_compiler *c, uint32_t *set);
mote_status schema_integer_texts(schema_compiler *c, uint32_t *set);
mote_status schema_wide_integers(schema_compiler *c, uint32_t *set);
/* A set of numbers with no more digits than anybody needs, unless that would make it large. */
mote_status schema_number_limit(schema_compiler *c, uint32_t set, uint32_t *out);

/* The set of a pattern; SCHEMA_NONE if it is left out. */
mote_status schema_pattern_set(schema_compiler *c, const json_node *schema, str pattern,
                               const char *name, uint32_t *set);

/* ---- schema_array.c, schema_object.c ---- */

mote_status schema_put_array(schema_compiler *c, const schema_shape *shape, uint32_t from,
                             uint32_t to);
mote_status schema_put_object(schema_compiler *c, const schema_shape *shape, uint32_t from,
                              uint32_t to);
/* The conjunction of the member `name` of an object. */
mote_status schema_member_conj(schema_compiler *c, const schema_shape *shape, str name,
                               uint32_t *conj);
bool schema_requires(const schema_compiler *c, const schema_shape *shape, str name);

typedef struct schema_names {
    str *items;
    uint32_t n, room;
} schema_names;

/* The names an object's schemas list, in their order. names is initialised; free its items. */
mote_status schema_member_names(schema_compiler *c, const schema_shape *shape, schema_names *names);

#endif
