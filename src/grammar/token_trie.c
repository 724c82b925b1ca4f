/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_trie.c - builds the token tries and the table of what tokens do inside JSON strings.
 *
 * Tokens are sorted by their bytes. A branch of a trie is then a range of the sorted tokens, and
 * its children are the sub-ranges with equal next byte.
 */
#include "grammar/token_trie.h"

#include "base/mem.h"
#include "grammar/rules/rules.h"

#include <stdlib.h>
#include <string.h>

static mote_status trie_no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory: token trie of the vocabulary");
}

/* ---- text ---- */

/* UTF-8 decoder state: number of continuation bytes to come, and the limits of the next one. */
typedef struct utf8_state {
    uint8_t wants, low, high;
} utf8_state;

/* Checks the next byte of a text. False: invalid UTF-8. */
static bool utf8_next(utf8_state *s, uint8_t byte)
{
    if (s->wants > 0) {
        const bool good = byte >= s->low && byte <= s->high;
        *s = (utf8_state){(uint8_t)(s->wants - 1), 0x80, 0xBF};
        return good;
    }
    if (byte < 0xC2 || byte > 0xF4)
        return byte < 0x80;
    *s = (utf8_state){byte < 0xE0   ? 1
                      : byte < 0xF0 ? 2
                                    : 3,
                      byte == 0xE0   ? 0xA0
                      : byte == 0xF0 ? 0x90
                                     : 0x80,
                      byte == 0xED   ? 0x9F
                      : byte == 0xF4 ? 0x8F
                                     : 0xBF};
    return true;
}

static token_trie_tree tree_of(str bytes)
{
    token_trie_tree tree = TRIE_LOWERCASE;
    utf8_state state = {0};
    for (size_t i = 0; i < bytes.n; i++) {
        const uint8_t byte = (uint8_t)bytes.p[i], letter = byte | 32;
        if (byte < 0x20 || byte == '"' || byte == '\\' || !utf8_next(&state, byte))
            return TRIE_OTHER;
        if (byte >= 'a' && byte <= 'z')
            continue;
        const bool other = (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9');
        if (tree != TRIE_PLAIN)
            tree = other ? TRIE_ALPHANUMERIC : TRIE_PLAIN;
    }
    return state.wants == 0 ? tree : TRIE_OTHER;
}

/* ---- sorting ---- */

/* A token with its first 8 bytes, which decide most comparisons. */
typedef struct sort_key {
    uint64_t head;
    uint32_t token;
    uint32_t tree;
} sort_key;

static str token_bytes(const token_trie *v, uint32_t token)
{
    return v->texts[token];
}

static uint64_t key_head(str bytes)
{
    uint64_t head = 0;
    for (size_t i = 0; i < 8; i++)
        head = head << 8 | (i < bytes.n ? (unsigned char)bytes.p[i] : 0);
    return head;
}

static bool key_before(const token_trie *v, const sort_key *a, const sort_key *b)
{
    if (a->tree != b->tree)
        return a->tree < b->tree;
    if (a->head != b->head)
        return a->head < b->head;
    const str x = token_bytes(v, a->token), y = token_bytes(v, b->token);
    const int order = memcmp(x.p, y.p, x.n < y.n ? x.n : y.n);
    if (order != 0)
        return order < 0;
    return x.n != y.n ? x.n < y.n : a->token < b->token;
}

/* Bottom-up merge sort; returns the array that holds the result. */
static sort_key *sort_keys(const token_trie *v, sort_key *from, sort_key *to, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t first = 0; first < n; first += 2 * width) {
            const size_t middle = first + width < n ? first + width : n;
            const size_t end = middle + width < n ? middle + width : n;
            size_t a = first, b = middle;
            for (size_t i = first; i < end; i++)
                to[i] = b == end || (a < middle && !key_before(v, &from[b], &from[a])) ? from[a++]
                                                                                       : from[b++];
        }
        sort_key *swap = from;
        from = to;
        to = swap;
    }
    return from;
}

static mote_status collect_tokens(token_trie *v, sort_key **out, mote_error *err)
{
    sort_key *keys = mem_new(v->source.n, sizeof *keys);
    sort_key *spare = mem_new(v->source.n, sizeof *spare);
    v->order = mem_new(v->source.n, sizeof *v->order);
    v->ends = mem_new(v->source.n, sizeof *v->ends);
    v->tree_bits = mem_new((size_t)TRIE_TREES * v->words, sizeof *v->tree_bits);
    v->texts = mem_new(v->source.n, sizeof *v->texts);
    *out = NULL;
    if (keys == NULL || spare == NULL || v->order == NULL || v->ends == NULL ||
        v->tree_bits == NULL || v->texts == NULL) {
        mem_free(keys);
        mem_free(spare);
        return trie_no_memory(err);
    }
    uint32_t n = 0;
    for (uint32_t id = 0; id < v->source.n; id++) {
        const token_trie_kind kind = v->source.kind(v->source.ctx, id);
        if (kind == TRIE_END)
            v->ends[v->n_ends++] = id;
        const str bytes = kind == TRIE_TEXT ? v->source.bytes(v->source.ctx, id) : (str){NULL, 0};
        v->texts[id] = bytes;
        if (bytes.n == 0 || bytes.n > TRIE_MAX_BYTES)
            continue;
        const token_trie_tree tree = tree_of(bytes);
        keys[n++] = (sort_key){key_head(bytes), id, tree};
        v->tree[tree].n++;
        token_trie_allow(v->tree_bits + (size_t)tree * v->words, id);
        if (bytes.n > v->longest)
            v->longest = (uint32_t)bytes.n;
    }
    v->n_text = n;
    *out = sort_keys(v, keys, spare, n);
    mem_free(*out == keys ? spare : keys);
    return MOTE_OK;
}

/* ---- tries ---- */

/* Tokens of one branch: order[first .. end), which share `depth` bytes. */
typedef struct branch {
    uint32_t node, first, end, depth;
} branch;

typedef struct branches {
    branch *items;
    uint32_t n, room;
} branches;

/* The end of the range of tokens from `first` on that have this next byte. */
static uint32_t same_byte_until(const token_trie *v, const branch *b, uint32_t first, uint8_t byte)
{
    uint32_t low = first, high = b->end; /* the next byte ascends */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if ((uint8_t)token_bytes(v, v->order[middle]).p[b->depth] > byte)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* One child: a token that ends with its byte, a branch to expand later, or both. */
static bool add_child(token_trie *v, branches *todo, const branch *b, uint32_t first, uint32_t end)
{
    const str bytes = token_bytes(v, v->order[first]);
    const bool ends = bytes.n == (size_t)b->depth + 1;
    if (!mem_grow(&v->nodes, v->n_nodes, &v->nodes_room, sizeof *v->nodes))
        return false;
    const uint32_t node = v->n_nodes++;
    v->nodes[node] = (token_trie_node){.token = ends ? v->order[first] : TRIE_NO_TOKEN,
                                       .byte = (uint8_t)bytes.p[b->depth]};
    v->nodes[b->node].n++;
    if (first + ends == end)
        return true;
    if (!mem_grow(&todo->items, todo->n, &todo->room, sizeof *todo->items))
        return false;
    todo->items[todo->n++] = (branch){node, first + ends, end, b->depth + 1};
    return true;
}

/* All children of a branch, contiguous. Tokens with equal bytes become separate nodes; the last of
 * them has the children. */
static bool add_children(token_trie *v, branches *todo, const branch *b)
{
    v->nodes[b->node].child = v->n_nodes;
    for (uint32_t first = b->first; first < b->end;) {
        const uint8_t byte = (uint8_t)token_bytes(v, v->order[first]).p[b->depth];
        const uint32_t end = same_byte_until(v, b, first, byte);
        while (first + 1 < end && token_bytes(v, v->order[first + 1]).n == (size_t)b->depth + 1) {
            if (!add_child(v, todo, b, first, first + 1))
                return false;
            first++;
        }
        if (!add_child(v, todo, b, first, end))
            return false;
        first = end;
    }
    return true;
}

/* Depth first, so that a branch is contiguous in memory. */
static mote_status build_tries(token_trie *v, branches *todo, mote_error *err)
{
    for (int i = 0; i < TRIE_TREES; i++) {
        token_trie_summary *tree = &v->tree[i];
        if (!mem_grow(&v->nodes, v->n_nodes, &v->nodes_room, sizeof *v->nodes) ||
            !mem_grow(&todo->items, todo->n, &todo->room, sizeof *todo->items))
            return trie_no_memory(err);
        tree->first = i > 0 ? tree[-1].first + tree[-1].n : 0;
        tree->node = v->n_nodes++;
        v->nodes[tree->node] = (token_trie_node){.token = TRIE_NO_TOKEN};
        todo->items[todo->n++] = (branch){tree->node, tree->first, tree->first + tree->n, 0};
    }
    while (todo->n > 0) {
        const branch b = todo->items[--todo->n];
        if (!add_children(v, todo, &b))
            return trie_no_memory(err);
        if (b.end - b.first >= TRIE_BULK && b.depth > 0) {
            if (!mem_grow(&v->summaries, v->n_summaries, &v->summaries_room, sizeof *v->summaries))
                return trie_no_memory(err);
            v->summaries[v->n_summaries++] = (token_trie_summary){
                .node = b.node, .first = b.first, .n = b.end - b.first, .depth = b.depth};
            v->nodes[b.node].has_summary = true;
        }
    }
    token_trie_node *exact = mem_resize(v->nodes, v->nodes_room, v->n_nodes, sizeof *v->nodes);
    if (exact != NULL) {
        v->nodes = exact;
        v->nodes_room = v->n_nodes;
    }
    return MOTE_OK;
}

/* ---- summaries ---- */

/* Collects the bytes that follow a node in the tokens of its branch. */
static void summary_fill(const token_trie *v, token_trie_summary *s)
{
    const size_t from = s->depth;
    s->whole = true;
    for (uint32_t i = 0; i < s->n; i++) {
        const str bytes = token_bytes(v, v->order[s->first + i]);
        utf8_state state = {0};
        bool good = true;
        for (size_t k = from; k < bytes.n; k++) {
            const uint8_t byte = (uint8_t)bytes.p[k];
            good = good && utf8_next(&state, byte);
            if (byte < 0x80)
                s->ascii[byte / 64] |= UINT64_C(1) << byte % 64;
            else
                s->multi = true;
            if (byte == 0xE2 && k + 1 < bytes.n && (uint8_t)bytes.p[k + 1] == 0x80)
                s->punctuation = true;
        }
        s->whole = s->whole && good && state.wants == 0;
    }
}

static int summary_compare(const void *a, const void *b)
{
    const token_trie_summary *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

const token_trie_summary *token_trie_summary_of(const token_trie *v, uint32_t node)
{
    uint32_t low = 0, high = v->n_summaries;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (v->summaries[middle].node <= node)
            low = middle;
        else
            high = middle;
    }
    return &v->summaries[low];
}

/* ---- tokens inside JSON strings ---- */

enum { CHAR_STATES = 64, CHAR_INVALID = 0xFF };

/* The rule json_rules_char as a transition table. State 0 is between two characters. */
typedef struct char_table {
    uint8_t next[CHAR_STATES][256];
} char_table;

/* The rule is deterministic and calls no other rule, so its states are the states of the table. */
static mote_status char_table_fill(char_table *t, mote_error *err)
{
    rules *r;
    TRY(rules_new(&r, err));
    const uint32_t rule = json_rules_char(r);
    mote_status status = rules_finish(r, rule, err);
    memset(t->next, CHAR_INVALID, sizeof t->next);
    for (uint32_t s = 0; status == MOTE_OK && s < r->n_nodes; s++)
        for (uint32_t e = r->nodes[s].first; e < r->nodes[s].first + r->nodes[s].n; e++) {
            const rules_edge *edge = &r->edges[e];
            /* The rule's start is state 0. Its end, state 1, is the start of the next character. */
            const uint8_t to = (uint8_t)(edge->to == 1 ? 0 : edge->to);
            for (unsigned byte = edge->lo; byte <= edge->hi; byte++)
                t->next[s][byte] = to;
        }
    rules_free(r);
    return status;
}

/* What a token does inside a JSON string. */
typedef struct string_effect {
    bool possible;   /* false: its bytes cannot continue a string */
    bool closes;     /* it contains the closing quote */
    uint32_t n;      /* characters; an incomplete one counts */
    uint32_t suffix; /* offset after the quote */
} string_effect;

static string_effect effect_of(const char_table *t, str bytes)
{
    string_effect x = {.possible = true};
    unsigned state = 0;
    for (size_t i = 0; i < bytes.n; i++) {
        const uint8_t byte = (uint8_t)bytes.p[i];
        if (state == 0 && byte == '"') {
            x.closes = true;
            x.suffix = (uint32_t)i + 1;
            return x;
        }
        state = t->next[state][byte];
        if (state == CHAR_INVALID)
            return (string_effect){0};
        x.n += state == 0;
    }
    x.n += state != 0;
    return x;
}

static bool closer_before(const token_trie_closer *a, const token_trie_closer *b)
{
    const size_t n = a->suffix.n < b->suffix.n ? a->suffix.n : b->suffix.n;
    const int order = n > 0 ? memcmp(a->suffix.p, b->suffix.p, n) : 0;
    return order != 0 ? order < 0 : a->suffix.n < b->suffix.n;
}

/* Shell sort: there are a few hundred to a few thousand of them. */
static void sort_closers(token_trie_closer *x, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (uint32_t i = gap; i < n; i++) {
            const token_trie_closer moving = x[i];
            uint32_t k = i;
            for (; k >= gap && closer_before(&moving, &x[k - gap]); k -= gap)
                x[k] = x[k - gap];
            x[k] = moving;
        }
    for (uint32_t i = 1; i < n; i++) {
        const str a = x[i - 1].suffix, b = x[i].suffix;
        while (x[i].common < a.n && x[i].common < b.n && a.p[x[i].common] == b.p[x[i].common])
            x[i].common++;
    }
}

/* Counting sort, longest first. */
static void sort_longer(token_trie *v, token_trie_inside *spare)
{
    uint32_t start[TRIE_MAX_BYTES + 2] = {0};
    for (uint32_t i = 0; i < v->n_longer; i++)
        start[TRIE_MAX_BYTES - v->longer[i].n + 1]++;
    for (uint32_t k = 1; k < TRIE_MAX_BYTES + 2; k++)
        start[k] += start[k - 1];
    for (uint32_t i = 0; i < v->n_longer; i++)
        spare[start[TRIE_MAX_BYTES - v->longer[i].n]++] = v->longer[i];
    memcpy(v->longer, spare, v->n_longer * sizeof *spare);
}

static void add_effect(token_trie *v, uint32_t token, str bytes, const string_effect *x)
{
    if (!x->possible)
        return;
    if (x->closes) {
        v->closers[v->n_closers++] = (token_trie_closer){
            .token = token, .n = x->n, .suffix = {bytes.p + x->suffix, bytes.n - x->suffix}};
        return;
    }
    token_trie_allow(v->within, token);
    if (x->n > TRIE_SHORT)
        v->longer[v->n_longer++] = (token_trie_inside){token, x->n};
    else
        token_trie_allow(v->within + (size_t)x->n * v->words, token);
}

static void count_effects(const token_trie *v, const char_table *t, uint32_t *closers,
                          uint32_t *longer)
{
    *closers = *longer = 0;
    for (uint32_t i = 0; i < v->n_text; i++) {
        const string_effect x = effect_of(t, v->texts[v->order[i]]);
        *closers += x.possible && x.closes;
        *longer += x.possible && !x.closes && x.n > TRIE_SHORT;
    }
}

/* within[k] has the tokens of at most k characters, within[0] all tokens that stay in the string.
 */
static mote_status fill_string_lists(token_trie *v, const char_table *t, mote_error *err)
{
    uint32_t closers, longer;
    count_effects(v, t, &closers, &longer);
    v->within = mem_new((size_t)(TRIE_SHORT + 1) * v->words, sizeof *v->within);
    v->closers = mem_new(closers, sizeof *v->closers);
    v->longer = mem_new(longer, sizeof *v->longer);
    token_trie_inside *spare = mem_new(longer, sizeof *spare);
    if (v->within == NULL || v->closers == NULL || v->longer == NULL || spare == NULL) {
        mem_free(spare);
        return trie_no_memory(err);
    }
    for (uint32_t i = 0; i < v->n_text; i++) {
        const str bytes = v->texts[v->order[i]];
        const string_effect x = effect_of(t, bytes);
        add_effect(v, v->order[i], bytes, &x);
    }
    for (size_t k = 2; k <= TRIE_SHORT; k++)
        for (uint32_t w = 0; w < v->words; w++)
            v->within[k * v->words + w] |= v->within[(k - 1) * v->words + w];
    sort_closers(v->closers, v->n_closers);
    sort_longer(v, spare);
    mem_free(spare);
    return MOTE_OK;
}

/* Fills within, longer and closers. */
static mote_status trie_build_strings(token_trie *v, mote_error *err)
{
    char_table *t = mem_new(1, sizeof *t);
    if (t == NULL)
        return trie_no_memory(err);
    mote_status status = char_table_fill(t, err);
    if (status == MOTE_OK)
        status = fill_string_lists(v, t, err);
    mem_free(t);
    return status;
}

/* ---- creation ---- */

static mote_status trie_build(token_trie *v, mote_error *err)
{
    sort_key *sorted;
    TRY(collect_tokens(v, &sorted, err));
    for (uint32_t i = 0; i < v->n_text; i++)
        v->order[i] = sorted[i].token;
    mem_free(sorted);
    branches todo = {0};
    const mote_status status = build_tries(v, &todo, err);
    mem_free(todo.items);
    TRY(status);
    if (v->n_summaries > 0)
        qsort(v->summaries, v->n_summaries, sizeof *v->summaries, summary_compare);
    for (uint32_t i = 0; i < v->n_summaries; i++)
        summary_fill(v, &v->summaries[i]);
    for (int i = 0; i < TRIE_TREES; i++)
        summary_fill(v, &v->tree[i]);
    return trie_build_strings(v, err);
}

mote_status token_trie_new(token_trie **out, const token_trie_source *source, mote_error *err)
{
    *out = NULL;
    if (source->n == 0 || source->n > TRIE_MAX_TOKENS)
        return err_set(err, MOTE_E_ARG, "vocabulary must have 1 to %d tokens, got %u",
                       TRIE_MAX_TOKENS, source->n);
    token_trie *v = mem_new(1, sizeof *v);
    if (v == NULL)
        return trie_no_memory(err);
    v->source = *source;
    v->words = (source->n + 31) / 32;
    const mote_status status = trie_build(v, err);
    mem_free(v->texts);
    v->texts = NULL;
    if (status == MOTE_OK)
        *out = v;
    else
        token_trie_free(v);
    return status;
}

void token_trie_free(token_trie *v)
{
    if (v == NULL)
        return;
    mem_free(v->nodes);
    mem_free(v->order);
    mem_free(v->summaries);
    mem_free(v->ends);
    mem_free(v->tree_bits);
    mem_free(v->within);
    mem_free(v->longer);
    mem_free(v->closers);
    mem_free(v);
}

uint64_t token_trie_bytes(const token_trie *v)
{
    return sizeof *v + (uint64_t)v->nodes_room * sizeof *v->nodes +
           2 * (uint64_t)v->source.n * sizeof *v->order +
           (uint64_t)v->summaries_room * sizeof *v->summaries +
           (uint64_t)(TRIE_SHORT + 1 + TRIE_TREES) * v->words * sizeof *v->within +
           (uint64_t)v->n_longer * sizeof *v->longer + (uint64_t)v->n_closers * sizeof *v->closers;
}
