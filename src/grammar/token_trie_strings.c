/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token_trie_strings.c - what each token does inside a JSON string.
 *
 * The states of json_rules_char are followed over the bytes of every token, so
 * what is found here cannot differ from what the grammar itself would say. A
 * token either stays inside, with a number of characters, or closes the string
 * after a number of characters and goes on with something else, or is not
 * possible at all.
 */
#include "grammar/token_trie.h"

#include "grammar/rules/json_rules.h"
#include "base/mem.h"

#include <string.h>

enum { CHAR_STATES = 64, REFUSED = 0xFF };

/* json_rules_char as a table. State 0 is between two characters. */
typedef struct char_table {
    uint8_t next[CHAR_STATES][256];
} char_table;

/* The rule reads one byte at a time and never has a choice, so its states are the table's. */
static mote_status fill_table(char_table *t, mote_error *err)
{
    rules *r;
    TRY(rules_new(&r, err));
    const uint32_t rule = json_rules_char(r);
    mote_status status = rules_finish(r, rule, err);
    memset(t->next, REFUSED, sizeof t->next);
    for (uint32_t s = 0; status == MOTE_OK && s < r->n_nodes; s++)
        for (uint32_t e = r->nodes[s].first; e < r->nodes[s].first + r->nodes[s].n; e++) {
            const rules_edge *edge = &r->edges[e];
            /* The start is state 0 and the end 1, which stands for the start of the next. */
            const uint8_t to = (uint8_t)(edge->to == 1 ? 0 : edge->to);
            for (unsigned byte = edge->lo; byte <= edge->hi; byte++)
                t->next[s][byte] = to;
        }
    rules_free(r);
    return status;
}

typedef struct string_effect {
    bool possible;
    bool closes;
    uint32_t n;    /* characters; one that is begun counts */
    uint32_t rest; /* offset behind the quote */
} string_effect;

static string_effect effect_of(const char_table *t, str bytes)
{
    string_effect x = {.possible = true};
    unsigned state = 0;
    for (size_t i = 0; i < bytes.n; i++) {
        const uint8_t byte = (uint8_t)bytes.p[i];
        if (state == 0 && byte == '"') {
            x.closes = true;
            x.rest = (uint32_t)i + 1;
            return x;
        }
        state = t->next[state][byte];
        if (state == REFUSED)
            return (string_effect){0};
        x.n += state == 0;
    }
    x.n += state != 0;
    return x;
}

/* ---- the lists ---- */

static bool closer_before(const token_trie_closer *a, const token_trie_closer *b)
{
    const size_t n = a->rest.n < b->rest.n ? a->rest.n : b->rest.n;
    const int order = n > 0 ? memcmp(a->rest.p, b->rest.p, n) : 0;
    return order != 0 ? order < 0 : a->rest.n < b->rest.n;
}

/* Few hundred to few thousand: gaps that shrink are fast enough. */
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
        const str a = x[i - 1].rest, b = x[i].rest;
        while (x[i].common < a.n && x[i].common < b.n && a.p[x[i].common] == b.p[x[i].common])
            x[i].common++;
    }
}

/* Longest first, by counting. */
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

static void note_effect(token_trie *v, uint32_t token, str bytes, const string_effect *x)
{
    if (!x->possible)
        return;
    if (x->closes) {
        v->closers[v->n_closers++] = (token_trie_closer){
            .token = token, .n = x->n, .rest = {bytes.p + x->rest, bytes.n - x->rest}};
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

static mote_status fill_lists(token_trie *v, const char_table *t, mote_error *err)
{
    uint32_t closers, longer;
    count_effects(v, t, &closers, &longer);
    v->within = mem_new((size_t)(TRIE_SHORT + 1) * v->words, sizeof *v->within);
    v->closers = mem_new(closers, sizeof *v->closers);
    v->longer = mem_new(longer, sizeof *v->longer);
    token_trie_inside *spare = mem_new(longer, sizeof *spare);
    if (v->within == NULL || v->closers == NULL || v->longer == NULL || spare == NULL) {
        mem_free(spare);
        return err_set(err, MOTE_E_MEMORY, "no memory for the index of the vocabulary");
    }
    for (uint32_t i = 0; i < v->n_text; i++) {
        const str bytes = v->texts[v->order[i]];
        const string_effect x = effect_of(t, bytes);
        note_effect(v, v->order[i], bytes, &x);
    }
    for (size_t k = 2; k <= TRIE_SHORT; k++)
        for (uint32_t w = 0; w < v->words; w++)
            v->within[k * v->words + w] |= v->within[(k - 1) * v->words + w];
    sort_closers(v->closers, v->n_closers);
    sort_longer(v, spare);
    mem_free(spare);
    return MOTE_OK;
}

mote_status token_trie_read_strings(token_trie *v, mote_error *err)
{
    char_table *t = mem_new(1, sizeof *t);
    if (t == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the index of the vocabulary");
    mote_status status = fill_table(t, err);
    if (status == MOTE_OK)
        status = fill_lists(v, t, err);
    mem_free(t);
    return status;
}
