/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfa.c - operations on sets of strings.
 *
 * The combination of two automata is the usual product: its states are pairs,
 * found breadth first, so that the ranges of a state come out side by side. No
 * automaton is minimised: what is made here is used once, and its size is
 * bounded anyway.
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

static mote_status spend(dfa_fuel *fuel, uint64_t steps, mote_error *err)
{
    if (fuel->left < steps) {
        fuel->left = 0;
        return err_set(err, MOTE_E_ARG, "the patterns, lengths and ranges take too much work");
    }
    fuel->left -= steps;
    return MOTE_OK;
}

static mote_status no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "no memory for a pattern");
}

/* ---- making ---- */

mote_status dfa_add_state(dfa *c, bool accepts, mote_error *err)
{
    if (c->n >= DFA_MAX_STATES)
        return err_set(err, MOTE_E_ARG, "a pattern or length needs more than %d states",
                       DFA_MAX_STATES);
    if (!mem_grow(&c->accepts, c->n, &c->states_room, sizeof *c->accepts) ||
        !mem_grow(&c->first, c->n + 1, &c->first_room, sizeof *c->first))
        return no_memory(err);
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
        return err_set(err, MOTE_E_ARG, "a pattern needs more than %d ranges of characters",
                       DFA_MAX_RANGES);
    if (!mem_grow(&c->ranges, c->n_ranges, &c->char_class_room, sizeof *c->ranges))
        return no_memory(err);
    c->ranges[c->n_ranges++] = (dfa_range){lo, hi, to};
    c->first[c->n] = c->n_ranges;
    return MOTE_OK;
}

/* Everything but surrogates, which are no characters. */
static mote_status add_all(dfa *c, uint32_t to, mote_error *err)
{
    TRY(dfa_add_range(c, 0, SURROGATES - 1, to, err));
    return dfa_add_range(c, AFTER_SURROGATES, DFA_LAST, to, err);
}

/* Numbers the states from which an accepting one can be reached; RULES_NONE for the others.
 * Backwards over the ranges, with lists of who leads to whom. */
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

/* Moves the useful states down over the others, in place. */
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

mote_status dfa_seal(dfa *c, dfa_fuel *fuel, mote_error *err)
{
    if (c->n == 0)
        return MOTE_OK;
    TRY(spend(fuel, c->n + c->n_ranges, err));
    uint32_t *number = mem_new(c->n, sizeof *number);
    uint32_t n_useful = 0;
    if (number == NULL || !number_useful(c, number, &n_useful)) {
        mem_free(number);
        return no_memory(err);
    }
    const bool empty = number[0] == RULES_NONE;
    if (!empty && n_useful < c->n)
        keep_useful(c, number);
    mem_free(number);
    if (empty)
        dfa_fini(c);
    return MOTE_OK;
}

/* ---- the product ---- */

typedef struct product {
    const dfa *a, *b;
    dfa_op op;
    pairs known; /* (state of a, state of b), either may be RULES_NONE */
    dfa *out;
} product;

static bool can_lead_on(dfa_op op, uint32_t a, uint32_t b)
{
    switch (op) {
    case DFA_BOTH: return a != RULES_NONE && b != RULES_NONE;
    case DFA_BUT_NOT: return a != RULES_NONE;
    default: return a != RULES_NONE || b != RULES_NONE;
    }
}

static bool pair_accepts(const product *p, uint32_t a, uint32_t b)
{
    const bool in_a = a != RULES_NONE && p->a->accepts[a];
    const bool in_b = b != RULES_NONE && p->b->accepts[b];
    switch (p->op) {
    case DFA_BOTH: return in_a && in_b;
    case DFA_BUT_NOT: return in_a && !in_b;
    default: return in_a || in_b;
    }
}

static mote_status lead(product *p, uint32_t lo, uint32_t hi, uint32_t a, uint32_t b,
                        mote_error *err)
{
    if (!can_lead_on(p->op, a, b))
        return MOTE_OK;
    const uint32_t to = pairs_number(&p->known, a, b);
    if (to == RULES_NONE)
        return no_memory(err);
    return dfa_add_range(p->out, lo, hi, to, err);
}

/* The ranges of one automaton's state, walked from low to high. */
typedef struct strip {
    const dfa_range *at, *end;
} strip;

static strip strip_of(const dfa *c, uint32_t state)
{
    if (state == RULES_NONE || c->ranges == NULL) /* nowhere; or no range anywhere */
        return (strip){NULL, NULL};
    return (strip){c->ranges + c->first[state], c->ranges + c->first[state + 1]};
}

/* Where the strip leads at `from`, and in *until how far that holds. */
static uint32_t strip_at(strip *s, uint32_t from, uint32_t *until)
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

static mote_status expand_pair(product *p, uint32_t a, uint32_t b, dfa_fuel *fuel, mote_error *err)
{
    TRY(dfa_add_state(p->out, pair_accepts(p, a, b), err));
    strip in_a = strip_of(p->a, a), in_b = strip_of(p->b, b);
    TRY(spend(fuel, 4 + (uint64_t)(in_a.end - in_a.at) + (uint64_t)(in_b.end - in_b.at), err));
    for (uint32_t from = 0; from <= DFA_LAST;) {
        uint32_t until = DFA_LAST;
        const uint32_t to_a = strip_at(&in_a, from, &until), to_b = strip_at(&in_b, from, &until);
        TRY(lead(p, from, until, to_a, to_b, err));
        if (in_a.at == in_a.end && in_b.at == in_b.end)
            break;
        from = until + 1;
    }
    return MOTE_OK;
}

static mote_status run_product(product *p, dfa_fuel *fuel, mote_error *err)
{
    const uint32_t a = dfa_empty(p->a) ? RULES_NONE : 0;
    const uint32_t b = dfa_empty(p->b) ? RULES_NONE : 0;
    if (!can_lead_on(p->op, a, b))
        return MOTE_OK;
    if (pairs_number(&p->known, a, b) == RULES_NONE)
        return no_memory(err);
    for (uint32_t i = 0; i < p->known.n; i++)
        TRY(expand_pair(p, p->known.items[i].a, p->known.items[i].b, fuel, err));
    return dfa_seal(p->out, fuel, err);
}

mote_status dfa_combine(dfa *out, const dfa *a, dfa_op op, const dfa *b, dfa_fuel *fuel,
                        mote_error *err)
{
    *out = (dfa){0};
    product p = {.a = a, .b = b, .op = op, .out = out};
    const mote_status status = run_product(&p, fuel, err);
    pairs_fini(&p.known);
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

static mote_status make_length(dfa *out, uint32_t min, uint32_t max, mote_error *err)
{
    const uint32_t last = max == RULES_NO_LIMIT ? min : max;
    if (min > max)
        return MOTE_OK;
    for (uint32_t i = 0; i <= last; i++) {
        TRY(dfa_add_state(out, i >= min, err));
        if (i < last || max == RULES_NO_LIMIT)
            TRY(add_all(out, i < last ? i + 1 : i, err));
    }
    return MOTE_OK;
}

mote_status dfa_length(dfa *out, uint32_t min, uint32_t max, dfa_fuel *fuel, mote_error *err)
{
    *out = (dfa){0};
    mote_status status = make_length(out, min, max, err);
    if (status == MOTE_OK)
        status = spend(fuel, out->n, err);
    if (status != MOTE_OK)
        dfa_fini(out);
    return status;
}

/* A tree of words: children in a list that ascends. */
typedef struct word_node {
    uint32_t code_point, child, sibling;
    bool ends;
} word_node;

typedef struct word_tree {
    word_node *nodes;
    uint32_t n, room;
} word_tree;

static mote_status tree_add(word_tree *t, uint32_t code_point, uint32_t *out, mote_error *err)
{
    if (t->n >= DFA_MAX_STATES)
        return err_set(err, MOTE_E_ARG, "a list of words needs more than %d states",
                       DFA_MAX_STATES);
    if (!mem_grow(&t->nodes, t->n, &t->room, sizeof *t->nodes))
        return no_memory(err);
    t->nodes[t->n] = (word_node){code_point, RULES_NONE, RULES_NONE, false};
    *out = t->n++;
    return MOTE_OK;
}

/* The child of `at` for a code point, made if there is none. */
static mote_status tree_child(word_tree *t, uint32_t at, uint32_t code_point, uint32_t *out,
                              dfa_fuel *fuel, mote_error *err)
{
    uint32_t before = RULES_NONE, child = t->nodes[at].child;
    uint64_t steps = 1;
    while (child != RULES_NONE && t->nodes[child].code_point < code_point) {
        before = child;
        child = t->nodes[child].sibling;
        steps++;
    }
    TRY(spend(fuel, steps, err));
    if (child != RULES_NONE && t->nodes[child].code_point == code_point) {
        *out = child;
        return MOTE_OK;
    }
    TRY(tree_add(t, code_point, out, err));
    t->nodes[*out].sibling = child;
    if (before == RULES_NONE)
        t->nodes[at].child = *out;
    else
        t->nodes[before].sibling = *out;
    return MOTE_OK;
}

static mote_status tree_word(word_tree *t, str word, dfa_fuel *fuel, mote_error *err)
{
    uint32_t at = 0, code_point;
    for (size_t i = 0; i < word.n;) {
        if (!dfa_decode(word, &i, &code_point))
            return err_set(err, MOTE_E_ARG, "a word is not well-formed UTF-8");
        TRY(tree_child(t, at, code_point, &at, fuel, err));
    }
    t->nodes[at].ends = true;
    return MOTE_OK;
}

static mote_status make_words(word_tree *t, dfa *out, const str *words, size_t n, dfa_fuel *fuel,
                              mote_error *err)
{
    uint32_t root;
    TRY(tree_add(t, 0, &root, err));
    for (size_t i = 0; i < n; i++)
        TRY(tree_word(t, words[i], fuel, err));
    for (uint32_t i = 0; i < t->n; i++) {
        TRY(dfa_add_state(out, t->nodes[i].ends, err));
        for (uint32_t c = t->nodes[i].child; c != RULES_NONE; c = t->nodes[c].sibling)
            TRY(dfa_add_range(out, t->nodes[c].code_point, t->nodes[c].code_point, c, err));
    }
    return dfa_seal(out, fuel, err);
}

mote_status dfa_words(dfa *out, const str *words, size_t n, dfa_fuel *fuel, mote_error *err)
{
    *out = (dfa){0};
    word_tree t = {0};
    const mote_status status = make_words(&t, out, words, n, fuel, err);
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

bool dfa_has(const dfa *c, str text)
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

/* All characters lead on, and only to states that are still thought to accept everything. */
static bool leads_to_all(const dfa *c, uint32_t state, const bool *all)
{
    uint32_t next = 0;
    for (uint32_t i = c->first[state]; i < c->first[state + 1]; i++) {
        const dfa_range *range = &c->ranges[i];
        if (next == 0xD800 && range->lo > next)
            next = 0xE000;
        if (range->lo > next || !all[range->to])
            return false;
        next = range->hi + 1;
    }
    return next == DFA_LAST + 1;
}

/* Starts from all that accept and takes away until nothing changes. Most states lead to later
 * ones, so going backwards settles them in a few rounds; what takes more is not worth knowing. */
void dfa_find_all(const dfa *c, bool *all)
{
    enum { ROUNDS = 32 };
    for (uint32_t s = 0; s < c->n; s++)
        all[s] = c->accepts[s];
    bool changed = true;
    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        for (uint32_t s = c->n; s-- > 0;)
            if (all[s] && !leads_to_all(c, s, all)) {
                all[s] = false;
                changed = true;
            }
    }
    if (changed)
        memset(all, 0, c->n * sizeof *all);
}

/* Words and products of words lead to later states only; what does not is taken for infinite. */
bool dfa_finite(const dfa *c)
{
    for (uint32_t s = 0; s < c->n; s++)
        for (uint32_t i = c->first[s]; i < c->first[s + 1]; i++)
            if (c->ranges[i].to <= s)
                return false;
    return true;
}

enum { FIRST_SLOTS = 64 };

void pairs_fini(pairs *p)
{
    mem_free(p->items);
    mem_free(p->slots);
    *p = (pairs){0};
}

static uint32_t *slot_of(const pairs *p, uint32_t a, uint32_t b)
{
    const uint64_t hash = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(hash >> 32) & p->mask;
    for (;; at = (at + 1) & p->mask) {
        const uint32_t taken = p->slots[at];
        if (taken == 0 || (p->items[taken - 1].a == a && p->items[taken - 1].b == b))
            return &p->slots[at];
    }
}

static bool widen(pairs *p)
{
    const uint32_t n_slots = p->slots == NULL ? FIRST_SLOTS : (p->mask + 1) * 2;
    uint32_t *slots = mem_new(n_slots, sizeof *slots);
    if (slots == NULL)
        return false;
    mem_free(p->slots);
    p->slots = slots;
    p->mask = n_slots - 1;
    for (uint32_t i = 0; i < p->n; i++)
        *slot_of(p, p->items[i].a, p->items[i].b) = i + 1;
    return true;
}

uint32_t pairs_number(pairs *p, uint32_t a, uint32_t b)
{
    if ((p->slots == NULL || p->n >= p->mask / 2) && !widen(p))
        return UINT32_MAX;
    uint32_t *slot = slot_of(p, a, b);
    if (*slot != 0)
        return *slot - 1;
    if (!mem_grow(&p->items, p->n, &p->room, sizeof *p->items))
        return UINT32_MAX;
    p->items[p->n] = (pairs_item){a, b};
    *slot = ++p->n;
    return p->n - 1;
}
