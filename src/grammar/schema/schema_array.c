/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema_array.c - arrays: the prefix items one by one, then a counted loop.
 *
 * uniqueItems is supported if an item has at most RULES_MAX_MEMBERS possible values. The values are
 * then the members of a RULES_SET, each at most once.
 */
#include "grammar/schema/schema_int.h"

#include "grammar/rules/rules.h"

/* A rule for ", item", which a loop can count. */
static mote_status further_item(schema_compiler *c, uint32_t item, uint32_t *rule)
{
    *rule = rules_add(c->r);
    rules_call(c->r, json_rules_open(c->r, rules_start_of(c->r, *rule), ','), item,
               rules_end_of(c->r, *rule));
    return MOTE_OK;
}

/* The items after the prefix. `at` is the state after `done` items. */
static mote_status put_further_items(schema_compiler *c, const schema_shape *shape, uint32_t at,
                                     uint32_t done, uint32_t to)
{
    if (shape->items == CONJ_NEVER || shape->max <= done)
        return MOTE_OK;
    uint32_t item, further;
    TRY(schema_rule(c, shape->items, &item));
    TRY(further_item(c, item, &further));
    if (done == 0) {
        const uint32_t next = rules_state(c->r);
        rules_call(c->r, at, item, next);
        at = next;
        done = 1;
    }
    const uint32_t after = rules_state(c->r);
    rules_loop(c->r, at, further, shape->min > done ? shape->min - done : 0,
               shape->max == RULES_NO_LIMIT ? RULES_NO_LIMIT : shape->max - done, after);
    json_rules_close(c->r, after, ']', to);
    return MOTE_OK;
}

static mote_status put_item_list(schema_compiler *c, const schema_shape *shape, uint32_t from,
                                 uint32_t to)
{
    uint32_t at = json_rules_open(c->r, from, '[');
    if (shape->min == 0)
        rules_read(c->r, at, ']', ']', to);
    const uint32_t first = shape->n_prefix < shape->max ? shape->n_prefix : shape->max;
    for (uint32_t i = 0; i < first && rules_ok(c->r); i++) {
        uint32_t item;
        TRY(schema_rule(c, c->lists[shape->prefix + i], &item));
        const uint32_t next = rules_state(c->r);
        rules_call(c->r, i > 0 ? json_rules_open(c->r, at, ',') : at, item, next);
        at = next;
        if (shape->min <= i + 1)
            json_rules_close(c->r, at, ']', to);
    }
    if (shape->n_prefix > shape->max)
        return MOTE_OK;
    return put_further_items(c, shape, at, shape->n_prefix, to);
}

/* ---- uniqueItems ---- */

/* The possible values of an item, as rules and as JSON texts. */
typedef struct few_values {
    uint32_t rule[RULES_MAX_MEMBERS];
    size_t start[RULES_MAX_MEMBERS + 1]; /* of each text */
    uint32_t n;
    strbuf texts;
} few_values;

static bool few_has(const few_values *few, str text)
{
    for (uint32_t i = 0; i < few->n; i++)
        if (str_eq((str){few->texts.p + few->start[i], few->start[i + 1] - few->start[i]}, text))
            return true;
    return false;
}

/* Adds a value unless it is present. False: too many, or out of memory. */
static bool few_add(schema_compiler *c, few_values *few, bool quoted, str text)
{
    const size_t start = few->texts.n;
    if (quoted)
        json_put_string(&few->texts, text);
    else
        strbuf_put(&few->texts, text);
    if (few->texts.failed)
        return false;
    const str json = {few->texts.p + start, few->texts.n - start};
    if (few_has(few, json)) {
        few->texts.n = start;
        return true;
    }
    if (few->n == RULES_MAX_MEMBERS)
        return false;
    const uint32_t rule = rules_add(c->r);
    rules_literal_to(c->r, rules_start_of(c->r, rule), json, rules_end_of(c->r, rule));
    few->rule[few->n++] = rule;
    few->start[few->n] = few->texts.n;
    return true;
}

/* One level of the depth-first walk over the words of a DFA. */
typedef struct word_level {
    uint32_t state, range, next; /* `next`: the next code point to try */
    size_t length;
} word_level;

/* Adds all words of a set. False: too many, or longer than 127 characters. */
static bool few_add_words(schema_compiler *c, few_values *few, const dfa *set, bool quoted)
{
    enum { DEPTH = 128 };
    word_level path[DEPTH];
    char text[4 * DEPTH];
    size_t depth = 0;
    path[0] = (word_level){.range = set->first[0], .next = 0};
    if (set->accepts[0] && !few_add(c, few, quoted, (str){text, 0}))
        return false;
    for (;;) {
        word_level *at = &path[depth];
        if (at->range == set->first[at->state + 1]) {
            if (depth-- == 0)
                return true;
            continue;
        }
        const dfa_range x = set->ranges[at->range];
        const uint32_t now = at->next > x.lo ? at->next : x.lo;
        at->range += now == x.hi;
        at->next = now == x.hi ? 0 : now + 1;
        if (++depth == DEPTH)
            return false;
        const size_t bytes = dfa_encode((unsigned char *)text + at->length, now);
        path[depth] =
            (word_level){.state = x.to, .range = set->first[x.to], .length = at->length + bytes};
        if (set->accepts[x.to] && !few_add(c, few, quoted, (str){text, path[depth].length}))
            return false;
    }
}

/* Lists all values of the shapes. *possible false: there are too many, or arrays or objects. */
static mote_status few_fill(schema_compiler *c, const schema_shapes *shapes, few_values *few,
                            bool *possible)
{
    *possible = true;
    for (uint32_t i = 0; i < shapes->n && *possible; i++) {
        const schema_shape *s = &shapes->items[i];
        if (s->type == SCHEMA_NULL)
            *possible = few_add(c, few, false, str_of("null"));
        if (s->type == SCHEMA_BOOL && s->is_true)
            *possible = few_add(c, few, false, str_of("true"));
        if (s->type == SCHEMA_BOOL && s->is_false && *possible)
            *possible = few_add(c, few, false, str_of("false"));
        if (s->type == SCHEMA_ARRAY || s->type == SCHEMA_OBJECT)
            *possible = false;
        if (s->type != SCHEMA_NUMBER && s->type != SCHEMA_STRING)
            continue;
        *possible = s->set != SCHEMA_NONE;
        if (*possible) {
            uint32_t set;
            TRY(schema_text_set(c, s, &set));
            *possible = few_add_words(c, few, &c->sets[set].texts, s->type == SCHEMA_STRING);
        }
    }
    return MOTE_OK;
}

/* One alternative per first item; then a set of the other values, each after a comma. */
static void put_unique_items(schema_compiler *c, const schema_shape *shape, const few_values *few,
                             uint32_t from, uint32_t to)
{
    const uint32_t at = json_rules_open(c->r, from, '['), end = rules_state(c->r);
    uint32_t further[RULES_MAX_MEMBERS];
    if (shape->min == 0)
        rules_read(c->r, at, ']', ']', to);
    json_rules_close(c->r, end, ']', to);
    for (uint32_t i = 0; i < few->n; i++)
        further_item(c, few->rule[i], &further[i]);
    for (uint32_t i = 0; i < few->n && shape->max > 0; i++) {
        const uint32_t after = rules_state(c->r);
        rules_set_info set = {.n = few->n - 1,
                              .min = shape->min > 1 ? shape->min - 1 : 0,
                              .max = shape->max == RULES_NO_LIMIT ? few->n : shape->max - 1,
                              .exit = end};
        for (uint32_t k = 0, n = 0; k < few->n; k++)
            if (k != i)
                set.member[n++] = further[k];
        rules_call(c->r, at, few->rule[i], after);
        rules_set(c->r, after, &set);
    }
}

/* An array with uniqueItems. *possible false: it has a prefix or too many values; nothing was
 * written. */
static mote_status put_unique(schema_compiler *c, const schema_shape *shape, uint32_t from,
                              uint32_t to, bool *possible)
{
    few_values few = {.n = 0};
    schema_shapes items = {0};
    *possible = shape->n_prefix == 0;
    mote_status status = *possible ? schema_shapes_of(c, shape->items, &items) : MOTE_OK;
    if (status == MOTE_OK && *possible)
        status = few_fill(c, &items, &few, possible);
    if (status == MOTE_OK && *possible)
        put_unique_items(c, shape, &few, from, to);
    schema_shapes_fini(&items);
    strbuf_fini(&few.texts);
    return status;
}

mote_status schema_put_array(schema_compiler *c, const schema_shape *shape, uint32_t from,
                             uint32_t to)
{
    bool possible;
    if (!shape->unique || shape->max <= 1)
        return put_item_list(c, shape, from, to);
    TRY(put_unique(c, shape, from, to, &possible));
    if (possible)
        return MOTE_OK;
    TRY(schema_ignore(c, c->where, "uniqueItems", "items have more than 32 possible values"));
    return put_item_list(c, shape, from, to);
}
