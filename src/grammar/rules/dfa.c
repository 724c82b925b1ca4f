/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfa.c - operations on DFAs over code points.
 *
 * Two automata are combined by the product construction. Pairs of states are found breadth first,
 * so the ranges of each product state are produced contiguously. Automata are not minimised: each
 * is used once, and its size is bounded.
 */
#include "grammar/rules/dfa.h"

#include "base/mem.h"

#include <string.h>

enum { SURROGATES = 0xD800, AFTER_SURROGATES = 0xE000 };

void dfa_fini(dfa *c)
{
    mem_free(c->first);
    mem_free(c->ranges);
    mem_free(c->accepts);
    *c = (dfa){0};
}

static mote_status fuel_spend(dfa_fuel *fuel, uint64_t steps, mote_error *err)
{
    if (fuel->left < steps) {
        fuel->left = 0;
        return err_set(err, MOTE_E_ARG,
                       "patterns, lengths and ranges are too complex: work limit reached");
    }
    fuel->left -= steps;
    return MOTE_OK;
}

static mote_status dfa_no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory: pattern");
}

/* ---- building ---- */

mote_status dfa_add_state(dfa *c, bool accepts, mote_error *err)
{
    if (c->n >= DFA_MAX_STATES)
        return err_set(err, MOTE_E_ARG, "pattern or length too complex: more than %d states",
                       DFA_MAX_STATES);
    if (!mem_grow(&c->accepts, c->n, &c->states_room, sizeof *c->accepts) ||
        !mem_grow(&c->first, c->n + 1, &c->first_room, sizeof *c->first))
        return dfa_no_memory(err);
    c->accepts[c->n] = accepts;
    c->first[c->n] = c->first[c->n + 1] = c->n_ranges;
    c->n++;
    return MOTE_OK;
}

mote_status dfa_add_range(dfa *c, uint32_t lo, uint32_t hi, uint32_t to, mote_error *err)
{
    dfa_range *last = c->n_ranges > c->first[c->n - 1] ? &c->ranges[c->n_ranges - 1] : NULL;
    if (last != NULL && last->to == to && last->hi + 1 == lo) {
        last->hi = hi;
        return MOTE_OK;
    }
    if (c->n_ranges >= DFA_MAX_RANGES)
        return err_set(err, MOTE_E_ARG, "pattern too complex: more than %d character ranges",
                       DFA_MAX_RANGES);
    if (!mem_grow(&c->ranges, c->n_ranges, &c->ranges_room, sizeof *c->ranges))
        return dfa_no_memory(err);
    c->ranges[c->n_ranges++] = (dfa_range){lo, hi, to};
    c->first[c->n] = c->n_ranges;
    return MOTE_OK;
}

/* Every code point except surrogates. */
static mote_status dfa_add_any(dfa *c, uint32_t to, mote_error *err)
{
    TRY(dfa_add_range(c, 0, SURROGATES - 1, to, err));
    return dfa_add_range(c, AFTER_SURROGATES, DFA_LAST, to, err);
}

/* Numbers the states from which an accepting state can be reached; RULES_NONE for the others.
 * Breadth-first search from the accepting states over reversed transitions. */
static bool number_useful(const dfa *c, uint32_t *number, uint32_t *n_useful)
{
    uint32_t *head = mem_new(c->n, sizeof *head);
    uint32_t *next = mem_new(c->n_ranges, sizeof *next);
    uint32_t *from = mem_new(c->n_ranges, sizeof *from);
    uint32_t *queue = mem_new(c->n, sizeof *queue);
    const bool ok = head != NULL && next != NULL && from != NULL && queue != NULL;
    if (ok) {
        memset(head, 0xFF, c->n * sizeof *head);
        for (uint32_t s = 0; s < c->n; s++)
            for (uint32_t i = c->first[s]; i < c->first[s + 1]; i++) {
                from[i] = s;
                next[i] = head[c->ranges[i].to];
                head[c->ranges[i].to] = i;
            }
        uint32_t n = 0;
        for (uint32_t s = 0; s < c->n; s++) {
            number[s] = c->accepts[s] ? 0 : RULES_NONE;
            if (c->accepts[s])
                queue[n++] = s;
        }
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t i = head[queue[k]]; i != RULES_NONE; i = next[i])
                if (number[from[i]] == RULES_NONE) {
                    number[from[i]] = 0;
                    queue[n++] = from[i];
                }
        *n_useful = 0;
        for (uint32_t s = 0; s < c->n; s++)
            if (number[s] != RULES_NONE)
                number[s] = (*n_useful)++;
    }
    mem_free(head);
    mem_free(next);
    mem_free(from);
    mem_free(queue);
    return ok;
}

/* Compacts the arrays in place: useful states move down over the others. */
static void keep_useful(dfa *c, const uint32_t *number)
{
    uint32_t n = 0, n_ranges = 0;
    for (uint32_t s = 0; s < c->n; s++) {
        const uint32_t first = c->first[s], end = c->first[s + 1];
        if (number[s] == RULES_NONE)
            continue;
        c->accepts[n] = c->accepts[s];
        const uint32_t begin = n_ranges;
        for (uint32_t i = first; i < end; i++) {
            dfa_range range = c->ranges[i];
            if (number[range.to] == RULES_NONE)
                continue;
            range.to = number[range.to];
            c->ranges[n_ranges++] = range;
        }
        c->first[n++] = begin;
    }
    c->n = n;
    c->n_ranges = n_ranges;
    c->first[n] = n_ranges;
}

mote_status dfa_trim(dfa *c, dfa_fuel *fuel, mote_error *err)
{
    if (c->n == 0)
        return MOTE_OK;
    TRY(fuel_spend(fuel, c->n + c->n_ranges, err));
    uint32_t *number = mem_new(c->n, sizeof *number);
    uint32_t n_useful = 0;
    if (number == NULL || !number_useful(c, number, &n_useful)) {
        mem_free(number);
        return dfa_no_memory(err);
    }
    const bool empty = number[0] == RULES_NONE;
    if (!empty && n_useful < c->n)
        keep_useful(c, number);
    mem_free(number);
    if (empty)
        dfa_fini(c);
    return MOTE_OK;
}

/* ---- product construction ---- */

typedef struct product {
    const dfa *a, *b;
    dfa_op op;
    dfa_pairs known; /* (state of a, state of b); RULES_NONE: that automaton has no transition */
    dfa *out;
} product;

/* Can an accepting pair be reached from this one? */
static bool pair_alive(dfa_op op, uint32_t a, uint32_t b)
{
    switch (op) {
    case DFA_INTERSECT: return a != RULES_NONE && b != RULES_NONE;
    case DFA_SUBTRACT: return a != RULES_NONE;
    default: return a != RULES_NONE || b != RULES_NONE;
    }
}

static bool pair_accepts(const product *p, uint32_t a, uint32_t b)
{
    const bool in_a = a != RULES_NONE && p->a->accepts[a];
    const bool in_b = b != RULES_NONE && p->b->accepts[b];
    switch (p->op) {
    case DFA_INTERSECT: return in_a && in_b;
    case DFA_SUBTRACT: return in_a && !in_b;
    default: return in_a || in_b;
    }
}

static mote_status product_add_range(product *p, uint32_t lo, uint32_t hi, uint32_t a, uint32_t b,
                                     mote_error *err)
{
    if (!pair_alive(p->op, a, b))
        return MOTE_OK;
    const uint32_t to = dfa_pairs_intern(&p->known, a, b);
    if (to == RULES_NONE)
        return dfa_no_memory(err);
    return dfa_add_range(p->out, lo, hi, to, err);
}

/* Cursor over the ranges of one state, from low to high. */
typedef struct range_cursor {
    const dfa_range *at, *end;
} range_cursor;

static range_cursor range_cursor_of(const dfa *c, uint32_t state)
{
    if (state == RULES_NONE || c->ranges == NULL) /* no state; or a DFA without transitions */
        return (range_cursor){NULL, NULL};
    return (range_cursor){c->ranges + c->first[state], c->ranges + c->first[state + 1]};
}

/* The target at `from`; lowers *until to the last code point for which it holds. */
static uint32_t range_cursor_at(range_cursor *s, uint32_t from, uint32_t *until)
{
    while (s->at != s->end && s->at->hi < from)
        s->at++;
    if (s->at == s->end)
        return RULES_NONE;
    if (s->at->lo > from) {
        if (*until >= s->at->lo)
            *until = s->at->lo - 1;
        return RULES_NONE;
    }
    if (*until > s->at->hi)
        *until = s->at->hi;
    return s->at->to;
}

/* Adds the state of a pair. Both range lists are walked together; a part where neither changes
 * becomes one range. */
static mote_status product_expand(product *p, uint32_t a, uint32_t b, dfa_fuel *fuel,
                                  mote_error *err)
{
    TRY(dfa_add_state(p->out, pair_accepts(p, a, b), err));
    range_cursor in_a = range_cursor_of(p->a, a), in_b = range_cursor_of(p->b, b);
    TRY(fuel_spend(fuel, 4 + (uint64_t)(in_a.end - in_a.at) + (uint64_t)(in_b.end - in_b.at), err));
    for (uint32_t from = 0; from <= DFA_LAST;) {
        uint32_t until = DFA_LAST;
        const uint32_t to_a = range_cursor_at(&in_a, from, &until),
                       to_b = range_cursor_at(&in_b, from, &until);
        TRY(product_add_range(p, from, until, to_a, to_b, err));
        if (in_a.at == in_a.end && in_b.at == in_b.end)
            break;
        from = until + 1;
    }
    return MOTE_OK;
}

static mote_status product_run(product *p, dfa_fuel *fuel, mote_error *err)
{
    const uint32_t a = dfa_empty(p->a) ? RULES_NONE : 0;
    const uint32_t b = dfa_empty(p->b) ? RULES_NONE : 0;
    if (!pair_alive(p->op, a, b))
        return MOTE_OK;
    if (dfa_pairs_intern(&p->known, a, b) == RULES_NONE)
        return dfa_no_memory(err);
    for (uint32_t i = 0; i < p->known.n; i++)
        TRY(product_expand(p, p->known.items[i].a, p->known.items[i].b, fuel, err));
    return dfa_trim(p->out, fuel, err);
}

mote_status dfa_combine(dfa *out, const dfa *a, dfa_op op, const dfa *b, dfa_fuel *fuel,
                        mote_error *err)
{
    *out = (dfa){0};
    product p = {.a = a, .b = b, .op = op, .out = out};
    const mote_status status = product_run(&p, fuel, err);
    dfa_pairs_fini(&p.known);
    if (status != MOTE_OK)
        dfa_fini(out);
    return status;
}

mote_status dfa_apply(dfa *a, dfa_op op, const dfa *b, dfa_fuel *fuel, mote_error *err)
{
    dfa result;
    TRY(dfa_combine(&result, a, op, b, fuel, err));
    dfa_fini(a);
    *a = result;
    return MOTE_OK;
}

/* ---- lengths and words ---- */

static mote_status build_length(dfa *out, uint32_t min, uint32_t max, mote_error *err)
{
    const uint32_t last = max == RULES_NO_LIMIT ? min : max;
    if (min > max)
        return MOTE_OK;
    for (uint32_t i = 0; i <= last; i++) {
        TRY(dfa_add_state(out, i >= min, err));
        if (i < last || max == RULES_NO_LIMIT)
            TRY(dfa_add_any(out, i < last ? i + 1 : i, err));
    }
    return MOTE_OK;
}

mote_status dfa_length(dfa *out, uint32_t min, uint32_t max, dfa_fuel *fuel, mote_error *err)
{
    *out = (dfa){0};
    mote_status status = build_length(out, min, max, err);
    if (status == MOTE_OK)
        status = fuel_spend(fuel, out->n, err);
    if (status != MOTE_OK)
        dfa_fini(out);
    return status;
}

/* A trie of words. The children of a node are a linked list in ascending order. */
typedef struct word_node {
    uint32_t code_point, child, sibling;
    bool ends;
} word_node;

typedef struct word_tree {
    word_node *nodes;
    uint32_t n, room;
} word_tree;

static mote_status word_tree_add(word_tree *t, uint32_t code_point, uint32_t *out, mote_error *err)
{
    if (t->n >= DFA_MAX_STATES)
        return err_set(err, MOTE_E_ARG, "list of words too large: more than %d states",
                       DFA_MAX_STATES);
    if (!mem_grow(&t->nodes, t->n, &t->room, sizeof *t->nodes))
        return dfa_no_memory(err);
    t->nodes[t->n] = (word_node){code_point, RULES_NONE, RULES_NONE, false};
    *out = t->n++;
    return MOTE_OK;
}

/* The child of `at` for a code point, added if missing. */
static mote_status word_tree_child(word_tree *t, uint32_t at, uint32_t code_point, uint32_t *out,
                                   dfa_fuel *fuel, mote_error *err)
{
    uint32_t before = RULES_NONE, child = t->nodes[at].child;
    uint64_t steps = 1;
    while (child != RULES_NONE && t->nodes[child].code_point < code_point) {
        before = child;
        child = t->nodes[child].sibling;
        steps++;
    }
    TRY(fuel_spend(fuel, steps, err));
    if (child != RULES_NONE && t->nodes[child].code_point == code_point) {
        *out = child;
        return MOTE_OK;
    }
    TRY(word_tree_add(t, code_point, out, err));
    t->nodes[*out].sibling = child;
    if (before == RULES_NONE)
        t->nodes[at].child = *out;
    else
        t->nodes[before].sibling = *out;
    return MOTE_OK;
}

static mote_status word_tree_insert(word_tree *t, str word, dfa_fuel *fuel, mote_error *err)
{
    uint32_t at = 0, code_point;
    for (size_t i = 0; i < word.n;) {
        if (!dfa_decode(word, &i, &code_point))
            return err_set(err, MOTE_E_ARG, "a word is not valid UTF-8");
        TRY(word_tree_child(t, at, code_point, &at, fuel, err));
    }
    t->nodes[at].ends = true;
    return MOTE_OK;
}

static mote_status build_words(word_tree *t, dfa *out, const str *words, size_t n, dfa_fuel *fuel,
                               mote_error *err)
{
    uint32_t root;
    TRY(word_tree_add(t, 0, &root, err));
    for (size_t i = 0; i < n; i++)
        TRY(word_tree_insert(t, words[i], fuel, err));
    for (uint32_t i = 0; i < t->n; i++) {
        TRY(dfa_add_state(out, t->nodes[i].ends, err));
        for (uint32_t c = t->nodes[i].child; c != RULES_NONE; c = t->nodes[c].sibling)
            TRY(dfa_add_range(out, t->nodes[c].code_point, t->nodes[c].code_point, c, err));
    }
    return dfa_trim(out, fuel, err);
}

mote_status dfa_words(dfa *out, const str *words, size_t n, dfa_fuel *fuel, mote_error *err)
{
    *out = (dfa){0};
    word_tree t = {0};
    const mote_status status = build_words(&t, out, words, n, fuel, err);
    mem_free(t.nodes);
    if (status != MOTE_OK)
        dfa_fini(out);
    return status;
}

bool dfa_decode(str text, size_t *at, uint32_t *code_point)
{
    const unsigned char *p = (const unsigned char *)text.p + *at;
    const size_t left = text.n - *at;
    const unsigned lead = p[0];
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (bytes == 0 || lead > 0xF4 || bytes > left)
        return false;
    uint32_t c = bytes == 1 ? lead : lead & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return false;
        c = c << 6 | (p[i] & 0x3Fu);
    }
    const uint32_t least = bytes == 3 ? 0x800 : bytes == 4 ? 0x10000 : 0;
    if (c < least || c > DFA_LAST || (c >= 0xD800 && c < 0xE000))
        return false;
    *code_point = c;
    *at += bytes;
    return true;
}

size_t dfa_encode(unsigned char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (unsigned char)(0x80 | (c & 0x3F));
    out[0] = (unsigned char)((0xF00u >> n & 0xFF) | c);
    return n;
}

uint32_t dfa_step(const dfa *c, uint32_t state, uint32_t code_point)
{
    uint32_t low = c->first[state], high = c->first[state + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->ranges[middle].hi < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < c->first[state + 1] && c->ranges[low].lo <= code_point;
    return found ? c->ranges[low].to : RULES_NONE;
}

bool dfa_accepts(const dfa *c, str text)
{
    if (dfa_empty(c))
        return false;
    uint32_t state = 0, code_point;
    for (size_t at = 0; at < text.n;) {
        if (!dfa_decode(text, &at, &code_point))
            return false;
        state = dfa_step(c, state, code_point);
        if (state == RULES_NONE)
            return false;
    }
    return c->accepts[state];
}

/* Every code point has a transition, and only to states that are still candidates. */
static bool steps_to_universal(const dfa *c, uint32_t state, const bool *universal)
{
    uint32_t next = 0;
    for (uint32_t i = c->first[state]; i < c->first[state + 1]; i++) {
        const dfa_range *range = &c->ranges[i];
        if (next == 0xD800 && range->lo > next)
            next = 0xE000;
        if (range->lo > next || !universal[range->to])
            return false;
        next = range->hi + 1;
    }
    return next == DFA_LAST + 1;
}

/* Greatest fixed point: starts with all accepting states and removes candidates until nothing
 * changes. Most transitions lead to later states, so a pass from the last state to the first needs
 * few rounds. If 32 rounds are not enough, no state is reported. */
void dfa_find_universal(const dfa *c, bool *universal)
{
    enum { ROUNDS = 32 };
    for (uint32_t s = 0; s < c->n; s++)
        universal[s] = c->accepts[s];
    bool changed = true;
    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        for (uint32_t s = c->n; s-- > 0;)
            if (universal[s] && !steps_to_universal(c, s, universal)) {
                universal[s] = false;
                changed = true;
            }
    }
    if (changed)
        memset(universal, 0, c->n * sizeof *universal);
}

/* Transitions of words and of their products lead to later states only. Any other transition is
 * taken for a cycle. */
bool dfa_finite(const dfa *c)
{
    for (uint32_t s = 0; s < c->n; s++)
        for (uint32_t i = c->first[s]; i < c->first[s + 1]; i++)
            if (c->ranges[i].to <= s)
                return false;
    return true;
}

enum { FIRST_SLOTS = 64 };

void dfa_pairs_fini(dfa_pairs *p)
{
    mem_free(p->items);
    mem_free(p->slots);
    *p = (dfa_pairs){0};
}

static uint32_t *dfa_pairs_slot(const dfa_pairs *p, uint32_t a, uint32_t b)
{
    const uint64_t hash = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(hash >> 32) & p->mask;
    for (;; at = (at + 1) & p->mask) {
        const uint32_t taken = p->slots[at];
        if (taken == 0 || (p->items[taken - 1].a == a && p->items[taken - 1].b == b))
            return &p->slots[at];
    }
}

static bool dfa_pairs_widen(dfa_pairs *p)
{
    const uint32_t n_slots = p->slots == NULL ? FIRST_SLOTS : (p->mask + 1) * 2;
    uint32_t *slots = mem_new(n_slots, sizeof *slots);
    if (slots == NULL)
        return false;
    mem_free(p->slots);
    p->slots = slots;
    p->mask = n_slots - 1;
    for (uint32_t i = 0; i < p->n; i++)
        *dfa_pairs_slot(p, p->items[i].a, p->items[i].b) = i + 1;
    return true;
}

uint32_t dfa_pairs_intern(dfa_pairs *p, uint32_t a, uint32_t b)
{
    if ((p->slots == NULL || p->n >= p->mask / 2) && !dfa_pairs_widen(p))
        return UINT32_MAX;
    uint32_t *slot = dfa_pairs_slot(p, a, b);
    if (*slot != 0)
        return *slot - 1;
    if (!mem_grow(&p->items, p->n, &p->room, sizeof *p->items))
        return UINT32_MAX;
    p->items[p->n] = (dfa_pairs_item){a, b};
    *slot = ++p->n;
    return p->n - 1;
}
