/* SPDX-License-Identifier: Apache-2.0 */
/*
 * matcher.c - grammars and matchers: advance by a token, mask, jump-forward, shortest completion.
 *
 * A matcher stores the configuration after each token. Unused configurations are collected only
 * here, at the start of a call, when the histories of all matchers hold the only references.
 */
#include "grammar/grammar.h"

#include "base/mem.h"
#include "grammar/grammar_int.h"

#include <inttypes.h>
#include <string.h>

mote_status grammar_new(grammar **out, rules *r, const token_trie *v, mote_error *err)
{
    *out = NULL;
    grammar *g = mem_new(1, sizeof *g);
    if (g == NULL) {
        rules_free(r);
        return err_set(err, MOTE_E_MEMORY, "out of memory: grammar");
    }
    g->r = r;
    g->v = v;
    g->string_start = r->json_char == RULES_NONE ? RULES_NONE : r->rules[r->json_char].start;
    g->rows = mem_new(ROW_CACHE, sizeof *g->rows);
    const mote_status status = g->rows == NULL
                                   ? err_set(err, MOTE_E_MEMORY, "out of memory: grammar")
                                   : configs_init(&g->c, r, v->longest, err);
    if (status == MOTE_OK)
        *out = g;
    else
        grammar_free(g);
    return status;
}

void grammar_free(grammar *g)
{
    if (g == NULL)
        return;
    for (int i = 0; i < MASK_CACHE; i++)
        mem_free(g->masks[i].bits);
    mem_free(g->rows);
    configs_fini(&g->c);
    rules_free(g->r);
    mem_free(g);
}

uint32_t grammar_mask_words(const grammar *g)
{
    return g->v->words;
}

uint64_t grammar_bytes(const grammar *g)
{
    uint64_t bytes =
        sizeof *g + ROW_CACHE * sizeof *g->rows + (uint64_t)g->r->nodes_room * sizeof *g->r->nodes +
        (uint64_t)g->r->edges_room * sizeof *g->r->edges +
        (uint64_t)g->c.frames_room * sizeof *g->c.frames +
        (uint64_t)g->c.all_room * sizeof *g->c.all +
        (uint64_t)g->c.items_room * sizeof *g->c.items + CONFIGS_MEMO * sizeof *g->c.memo;
    for (int i = 0; i < MASK_CACHE; i++)
        bytes += g->masks[i].bits != NULL ? g->v->words * sizeof *g->masks[i].bits : 0;
    return bytes;
}

/* ---- matchers ---- */

static mote_status matcher_create(grammar_matcher **out, grammar *g, const uint32_t *history,
                                  uint32_t n, mote_error *err)
{
    *out = NULL;
    grammar_matcher *m = mem_new(1, sizeof *m);
    if (m != NULL && mem_grow(&m->history, n, &m->room, sizeof *m->history)) {
        memcpy(m->history, history, ((size_t)n + 1) * sizeof *history);
        m->g = g;
        m->n = n;
        m->next = g->matchers;
        if (m->next != NULL)
            m->next->previous = m;
        g->matchers = m;
        *out = m;
        return MOTE_OK;
    }
    mem_free(m);
    return err_set(err, MOTE_E_MEMORY, "out of memory: matcher");
}

mote_status grammar_matcher_new(grammar_matcher **out, grammar *g, mote_error *err)
{
    const uint32_t start = CONFIG_START;
    return matcher_create(out, g, &start, 0, err);
}

mote_status grammar_matcher_fork(grammar_matcher **out, const grammar_matcher *from,
                                 mote_error *err)
{
    return matcher_create(out, from->g, from->history, from->n, err);
}

void grammar_matcher_free(grammar_matcher *m)
{
    if (m == NULL)
        return;
    if (m->previous != NULL)
        m->previous->next = m->next;
    else
        m->g->matchers = m->next;
    if (m->next != NULL)
        m->next->previous = m->previous;
    mem_free(m->history);
    mem_free(m);
}

size_t grammar_length(const grammar_matcher *m)
{
    return m->n;
}

void grammar_rewind(grammar_matcher *m, size_t n)
{
    if (n < m->n)
        m->n = (uint32_t)n;
}

bool grammar_is_over(const grammar_matcher *m)
{
    return m->history[m->n] == CONFIG_DEAD;
}

bool grammar_is_complete(const grammar_matcher *m)
{
    return !grammar_is_over(m) && m->g->c.all[m->history[m->n]].complete;
}

/* Frees the configurations that no matcher refers to, if there are many. Clears the caches, because
 * their entries may refer to them. */
static void collect_if_many(grammar *g)
{
    if (!configs_want_collection(&g->c))
        return;
    for (const grammar_matcher *m = g->matchers; m != NULL; m = m->next)
        for (uint32_t i = 0; i <= m->n; i++)
            configs_keep(&g->c, m->history[i]);
    configs_sweep(&g->c);
    for (int i = 0; i < MASK_CACHE; i++) {
        g->masks[i].config = CONFIG_DEAD;
        g->masks[i].used = 0;
    }
    memset(g->loops, 0, sizeof g->loops);
    memset(g->trees, 0, sizeof g->trees);
    for (int i = 0; i < ROW_CACHE; i++)
        g->rows[i].config = CONFIG_DEAD;
}

/* ---- tokens ---- */

static mote_status text_ended_error(mote_error *err)
{
    return err_set(err, MOTE_E_ARG, "the text has already text_ended_error");
}

static bool is_end_token(const token_trie *v, uint32_t token)
{
    for (uint32_t i = 0; i < v->n_ends; i++)
        if (v->ends[i] == token)
            return true;
    return false;
}

/* The configuration after a token; CONFIG_DEAD: it is not allowed. */
static uint32_t token_step(grammar *g, uint32_t current, uint32_t token)
{
    if (token >= g->v->source.n || g->v->source.kind(g->v->source.ctx, token) != TRIE_TEXT)
        return CONFIG_DEAD;
    const str bytes = g->v->source.bytes(g->v->source.ctx, token);
    if (bytes.n == 0 || bytes.n > TRIE_MAX_BYTES)
        return CONFIG_DEAD;
    for (size_t i = 0; i < bytes.n && current != CONFIG_DEAD && current != CONFIG_FAILED; i++)
        current = configs_step(&g->c, current, (uint8_t)bytes.p[i]);
    return current;
}

static mote_status history_append(grammar_matcher *m, uint32_t current, mote_error *err)
{
    if (!mem_grow(&m->history, m->n + 1, &m->room, sizeof *m->history))
        return err_set(err, MOTE_E_MEMORY, "out of memory: matcher");
    m->history[++m->n] = current;
    return MOTE_OK;
}

mote_status grammar_accept(grammar_matcher *m, mote_token token, mote_error *err)
{
    if (grammar_is_over(m))
        return text_ended_error(err);
    collect_if_many(m->g);
    if (token >= 0 && grammar_is_complete(m) && is_end_token(m->g->v, (uint32_t)token))
        return history_append(m, CONFIG_DEAD, err);
    const uint32_t current =
        token < 0 ? CONFIG_DEAD : token_step(m->g, m->history[m->n], (uint32_t)token);
    if (current == CONFIG_FAILED)
        return configs_error(&m->g->c, err);
    if (current == CONFIG_DEAD)
        return err_set(err, MOTE_E_ARG, "token %" PRId32 " is not allowed here", token);
    return history_append(m, current, err);
}

bool grammar_allows(grammar_matcher *m, mote_token token)
{
    if (grammar_is_over(m) || token < 0)
        return false;
    collect_if_many(m->g);
    if (is_end_token(m->g->v, (uint32_t)token))
        return grammar_is_complete(m);
    const uint32_t current = token_step(m->g, m->history[m->n], (uint32_t)token);
    return current != CONFIG_DEAD && current != CONFIG_FAILED;
}

static bool any_bit(const uint32_t *bits, uint32_t words)
{
    for (uint32_t w = 0; w < words; w++)
        if (bits[w] != 0)
            return true;
    return false;
}

mote_status grammar_mask(grammar_matcher *m, uint32_t *bits, mote_error *err)
{
    const token_trie *v = m->g->v;
    if (grammar_is_over(m)) {
        memset(bits, 0, v->words * sizeof *bits);
        return text_ended_error(err);
    }
    collect_if_many(m->g);
    const uint32_t current = m->history[m->n];
    TRY(mask_fill(m->g, current, bits, err));
    if (m->g->c.all[current].complete)
        for (uint32_t i = 0; i < v->n_ends; i++)
            token_trie_allow(bits, v->ends[i]);
    if (!any_bit(bits, v->words))
        return err_set(err, MOTE_E_ARG, "no token of the vocabulary is allowed at this position");
    return MOTE_OK;
}

/* ---- jump-forward ---- */

/* The only byte that may follow, or -1. */
static int only_byte(const config *x)
{
    int byte = -1;
    if (x->complete)
        return -1;
    for (int w = 0; w < 4; w++) {
        if (x->bytes[w] == 0)
            continue;
        if (byte >= 0 || (x->bytes[w] & (x->bytes[w] - 1)) != 0)
            return -1;
        byte = w * 64 + __builtin_ctzll(x->bytes[w]);
    }
    return byte;
}

/* The text is complete and no byte may follow. */
static bool is_final(const configs *c, uint32_t current)
{
    if (current == CONFIG_DEAD || !c->all[current].complete)
        return false;
    const uint64_t *bytes = c->all[current].bytes;
    return (bytes[0] | bytes[1] | bytes[2] | bytes[3]) == 0;
}

size_t grammar_forced(grammar_matcher *m, char *out, size_t room, bool *ends)
{
    configs *c = &m->g->c;
    uint32_t current = m->history[m->n];
    size_t n = 0, whole = 0;
    int byte;
    *ends = false;
    collect_if_many(m->g);
    while (n < room && current != CONFIG_DEAD && (byte = only_byte(&c->all[current])) >= 0) {
        const bool begins = byte < 0x80 || byte >= 0xC0;
        if (n == 0 && !begins)
            return 0;
        if (begins)
            whole = n;
        out[n++] = (char)byte;
        current = configs_step(c, current, (uint8_t)byte);
        if (current == CONFIG_FAILED)
            return c->status == MOTE_E_MEMORY ? GRAMMAR_NO_MEMORY : whole;
    }
    /* The last character counts only if all its bytes are there. */
    const unsigned lead = n > 0 ? (unsigned char)out[whole] : 0;
    const size_t wants = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const size_t bytes = n - whole == wants ? n : whole;
    *ends = bytes == n && is_final(c, current);
    return bytes;
}

mote_status grammar_check(grammar *g, str text, bool *fits, mote_error *err)
{
    uint32_t current = CONFIG_START;
    collect_if_many(g);
    *fits = false;
    for (size_t i = 0; i < text.n && current != CONFIG_DEAD; i++) {
        current = configs_step(&g->c, current, (uint8_t)text.p[i]);
        if (current == CONFIG_FAILED)
            return configs_error(&g->c, err);
    }
    *fits = current != CONFIG_DEAD && g->c.all[current].complete;
    return MOTE_OK;
}

/* ---- shortest completion: breadth-first search over configurations ---- */

enum { VISITS = 16384, SLOTS = 2 * VISITS };

typedef struct visit {
    uint32_t config;
    uint32_t from; /* index of the previous visit */
    uint8_t byte;  /* that led here */
} visit;

typedef struct search {
    configs *c;
    visit *all; /* [VISITS] */
    uint32_t n;
    uint32_t *slots; /* [SLOTS], hash table by configuration: index of a visit + 1 */
} search;

/* False: already visited, or VISITS reached. */
static bool search_add(search *s, uint32_t current, uint32_t from, uint8_t byte)
{
    uint32_t slot = current * 0x9E3779B1u % SLOTS;
    while (s->slots[slot] != 0 && s->all[s->slots[slot] - 1].config != current)
        slot = (slot + 1) % SLOTS;
    if (s->slots[slot] != 0 || s->n == VISITS)
        return false;
    s->all[s->n++] = (visit){current, from, byte};
    s->slots[slot] = s->n;
    return true;
}

/* Expands a visit by one byte of each class, with 'a' preferred. True: the last visit added is
 * complete. */
static bool search_expand(search *s, uint32_t at)
{
    const rules *r = s->c->r;
    for (uint32_t k = 0; k < r->n_classes; k++) {
        const uint8_t byte = r->class_of['a'] == k ? 'a' : r->byte_of[k];
        const uint32_t from = s->all[at].config;
        if (!config_allows(&s->c->all[from], byte))
            continue;
        const uint32_t to = configs_step(s->c, from, byte);
        if (to != CONFIG_DEAD && to != CONFIG_FAILED && search_add(s, to, at, byte) &&
            s->c->all[to].complete)
            return true;
    }
    return false;
}

/* Writes the bytes that lead to the last visit. Returns their number; 0: no room, or the completion
 * starts inside a character. */
static size_t search_path(const search *s, char *out, size_t room)
{
    size_t n = 0;
    for (uint32_t at = s->n - 1; at != 0; at = s->all[at].from)
        n++;
    if (n > room)
        return 0;
    size_t end = n;
    for (uint32_t at = s->n - 1; at != 0; at = s->all[at].from)
        out[--end] = (char)s->all[at].byte;
    return ((unsigned char)out[0] & 0xC0) == 0x80 ? 0 : n; /* starts inside a character */
}

size_t grammar_shortest(grammar_matcher *m, char *out, size_t room)
{
    search s = {.c = &m->g->c,
                .all = mem_new(VISITS, sizeof *s.all),
                .slots = mem_new(SLOTS, sizeof *s.slots)};
    size_t n = 0;
    bool found = false;
    if (s.all != NULL && s.slots != NULL && !grammar_is_over(m) && !grammar_is_complete(m)) {
        search_add(&s, m->history[m->n], 0, 0);
        for (uint32_t at = 0; at < s.n && !found; at++)
            found = search_expand(&s, at);
        n = found ? search_path(&s, out, room) : 0;
    }
    mem_free(s.all);
    mem_free(s.slots);
    return n;
}
