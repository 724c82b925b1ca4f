/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mask.c - the token mask of a configuration.
 *
 * A token is allowed if at least one item of the configuration can read all of its bytes, so the
 * mask is the union of the masks of the items. Three ways to compute it, fastest first:
 *
 * - An item between two characters of a JSON string uses precomputed masks (token_trie.h). Only
 *   tokens that close the string depend on the grammar, by the bytes after the quote.
 * - If most bytes lead to a similar configuration with a cheap mask, that mask is changed where the
 *   two differ.
 * - All other items walk the token tries together (mask_walk.c).
 *
 * Masks of long walks are cached in an LRU cache of MASK_CACHE entries.
 */
#include "grammar/grammar_int.h"

#include "base/mem.h"

#include <string.h>

/* ---- inside JSON strings ---- */

/* An item between two characters of a string. The string must get `least` more characters and may
 * get `most`. */
typedef struct open_string {
    uint32_t least, most;
    uint32_t exit;  /* configuration before the closing quote */
    uint32_t after; /* configuration after it; CONFIG_DEAD: merged into an earlier open_string */
} open_string;

/* The items of a configuration: those inside a string, and all others. */
typedef struct split_items {
    open_string *strings;
    config_item *others;
    config_item *merged; /* scratch of merge_equal_strings */
    uint32_t n_strings, strings_room, n_others, others_room, n_merged, merged_room;
} split_items;

static void split_fini(split_items *s)
{
    mem_free(s->strings);
    mem_free(s->others);
    mem_free(s->merged);
}

/* The loop over string characters, if the item is at the start of a run of it; else NULL. */
static const rules_loop_info *string_loop(const grammar *g, config_item item)
{
    if (item.state != g->string_start || item.frame == 0)
        return NULL;
    const rules_node *node = &g->r->nodes[g->c.frames[item.frame].state];
    if (node->kind != RULES_LOOP || g->r->loops[node->counter].rule != g->r->json_char)
        return NULL;
    return &g->r->loops[node->counter];
}

static bool is_only_quote(const config *x)
{
    return x->bytes[0] == UINT64_C(1) << '"' && x->bytes[1] == 0 && x->bytes[2] == 0 &&
           x->bytes[3] == 0 && !x->complete;
}

/* Adds the item to the strings, if only a quote can follow the loop. */
static mote_status add_string(grammar *g, split_items *s, config_item item, bool *added,
                              mote_error *err)
{
    const rules_loop_info *loop = string_loop(g, item);
    *added = false;
    if (loop == NULL)
        return MOTE_OK;
    const uint32_t done = g->c.frames[item.frame].count - 1;
    const uint32_t exit = configs_at(&g->c, loop->exit, g->c.frames[item.frame].parent);
    if (exit == CONFIG_FAILED)
        return configs_error(&g->c, err);
    if (exit == CONFIG_DEAD || !is_only_quote(&g->c.all[exit]))
        return MOTE_OK;
    const uint32_t after = configs_step(&g->c, exit, '"');
    if (after == CONFIG_FAILED)
        return configs_error(&g->c, err);
    if (!mem_grow(&s->strings, s->n_strings, &s->strings_room, sizeof *s->strings))
        return err_set(err, MOTE_E_MEMORY, "out of memory: token mask");
    s->strings[s->n_strings++] =
        (open_string){.least = done < loop->min ? loop->min - done : 0,
                      .most = loop->max == RULES_NO_LIMIT ? RULES_NO_LIMIT : loop->max - done,
                      .exit = exit,
                      .after = after};
    *added = true;
    return MOTE_OK;
}

/* Sorts the items of a configuration into s->strings and s->others. */
static mote_status split_config(grammar *g, uint32_t config_id, split_items *s, mote_error *err)
{
    for (uint32_t i = 0; i < g->c.all[config_id].n; i++) {
        const config_item item = g->c.items[g->c.all[config_id].first + i];
        bool added;
        TRY(add_string(g, s, item, &added, err));
        if (added)
            continue;
        if (!mem_grow(&s->others, s->n_others, &s->others_room, sizeof *s->others))
            return err_set(err, MOTE_E_MEMORY, "out of memory: token mask");
        s->others[s->n_others++] = item;
    }
    return MOTE_OK;
}

static bool has_item(const configs *c, uint32_t config_id, config_item item)
{
    const config *x = &c->all[config_id];
    for (uint32_t i = 0; i < x->n; i++)
        if (c->items[x->first + i].state == item.state &&
            c->items[x->first + i].frame == item.frame)
            return true;
    return false;
}

/* Removes items that read the closing quote of a string which may end now: allow_closers handles
 * them. */
static void drop_closing_items(const grammar *g, split_items *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_others; i++) {
        bool covered = false;
        for (uint32_t k = 0; k < s->n_strings && !covered; k++)
            covered = s->strings[k].least == 0 && has_item(&g->c, s->strings[k].exit, s->others[i]);
        if (!covered)
            s->others[n++] = s->others[i];
    }
    s->n_others = n;
}

/* Tokens that stay inside the string and add at most `most` characters. */
static void allow_inside(const token_trie *v, uint32_t most, uint32_t *bits)
{
    const uint32_t row = most >= v->longest ? 0 : most < TRIE_SHORT ? most : TRIE_SHORT;
    const uint32_t *within = v->within + (size_t)row * v->words;
    for (uint32_t w = 0; w < v->words; w++)
        bits[w] |= within[w];
    if (row != TRIE_SHORT)
        return;
    for (uint32_t i = v->n_longer; i-- > 0 && v->longer[i].n <= most;)
        token_trie_allow(bits, v->longer[i].token);
}

/* Tokens that close the string after least to most characters, if the grammar accepts their suffix
 * after the quote. They are sorted by suffix, so a common prefix is stepped through once. */
static bool allow_closers(grammar *g, const open_string *x, uint32_t *bits)
{
    const token_trie *v = g->v;
    uint32_t at_depth[TRIE_MAX_BYTES + 1];
    size_t good = 0; /* accepted bytes of the latest suffix */
    at_depth[0] = x->after;
    for (uint32_t i = 0; i < v->n_closers; i++) {
        const token_trie_closer *closer = &v->closers[i];
        if (closer->common > good)
            continue;
        for (good = closer->common; good < closer->suffix.n; good++) {
            const uint32_t to =
                configs_step(&g->c, at_depth[good], (uint8_t)closer->suffix.p[good]);
            if (to == CONFIG_FAILED)
                return false;
            if (to == CONFIG_DEAD)
                break;
            at_depth[good + 1] = to;
        }
        if (good == closer->suffix.n && closer->n >= x->least && closer->n <= x->most)
            token_trie_allow(bits, closer->token);
    }
    return true;
}

/* Merges the strings with the limits of string `first` into it: one pass over the tokens then
 * serves all of them. */
static mote_status merge_equal_strings(grammar *g, split_items *s, uint32_t first, mote_error *err)
{
    open_string *x = s->strings;
    uint32_t n_joined = 0;
    s->n_merged = 0;
    for (uint32_t k = first; k < s->n_strings; k++) {
        if (x[k].after == CONFIG_DEAD || x[k].least != x[first].least || x[k].most != x[first].most)
            continue;
        const config *after = &g->c.all[x[k].after];
        for (uint32_t i = 0; i < after->n; i++) {
            if (!mem_grow(&s->merged, s->n_merged, &s->merged_room, sizeof *s->merged))
                return err_set(err, MOTE_E_MEMORY, "out of memory: token mask");
            s->merged[s->n_merged++] = g->c.items[after->first + i];
        }
        n_joined++;
        if (k > first)
            x[k].after = CONFIG_DEAD;
    }
    if (n_joined < 2 || s->n_merged == 0)
        return MOTE_OK;
    x[first].after = configs_of(&g->c, s->merged, s->n_merged);
    return x[first].after == CONFIG_FAILED ? configs_error(&g->c, err) : MOTE_OK;
}

/* Adds the tokens that the items inside strings allow. */
static mote_status fill_strings(grammar *g, split_items *s, uint32_t *bits, mote_error *err)
{
    for (uint32_t i = 0; i < s->n_strings; i++) {
        if (s->strings[i].after == CONFIG_DEAD)
            continue;
        TRY(merge_equal_strings(g, s, i, err));
        allow_inside(g->v, s->strings[i].most, bits);
        if (!allow_closers(g, &s->strings[i], bits))
            return configs_error(&g->c, err);
    }
    return MOTE_OK;
}

/* ---- whole masks ---- */

/* Computes the mask if that needs no long walk: all items are inside strings, or letters lead back
 * to the configuration. */
static mote_status compute_cheap(grammar *g, uint32_t config_id, uint32_t *bits, uint64_t *visited,
                                 split_items *s, bool *cheap, mote_error *err)
{
    TRY(split_config(g, config_id, s, err));
    if (s->n_strings > 0)
        drop_closing_items(g, s);
    *cheap = s->n_others == 0 || (s->n_strings == 0 && mask_is_cheap(g, config_id));
    if (!*cheap)
        return MOTE_OK;
    if (s->n_others > 0 && !mask_walk(g, config_id, bits, visited))
        return configs_error(&g->c, err);
    return fill_strings(g, s, bits, err);
}

/* A configuration X such that a common byte leads to X, from X back to X, and more than 192 of 256
 * bytes lead to the same configuration from here and from X. CONFIG_DEAD: none. Example: the first
 * character of a name that must differ from a list of names, and any later character. */
static uint32_t similar_next(grammar *g, uint32_t config_id)
{
    static const uint8_t probes[] = {'e', ' ', '0'};
    for (size_t i = 0; i < sizeof probes; i++) {
        const uint32_t to = configs_step(&g->c, config_id, probes[i]);
        if (to == CONFIG_DEAD || to == CONFIG_FAILED || to == config_id ||
            configs_step(&g->c, to, probes[i]) != to)
            continue;
        unsigned same = 0;
        for (unsigned byte = 0; byte < 256; byte++)
            same += configs_step(&g->c, config_id, (uint8_t)byte) ==
                    configs_step(&g->c, to, (uint8_t)byte);
        if (same > 192)
            return to;
    }
    return CONFIG_DEAD;
}

/* Computes the mask from the mask of similar_next, if that is cheap. */
static mote_status compute_from_next(grammar *g, uint32_t config_id, uint32_t *bits,
                                     uint64_t *visited, bool *done, mote_error *err)
{
    const uint32_t next = similar_next(g, config_id);
    *done = false;
    if (next == CONFIG_DEAD)
        return MOTE_OK;
    split_items s = {0};
    const mote_status status = compute_cheap(g, next, bits, visited, &s, done, err);
    split_fini(&s);
    TRY(status);
    if (*done && !mask_change(g, next, config_id, bits, visited))
        return configs_error(&g->c, err);
    return MOTE_OK;
}

static mote_status compute_mask(grammar *g, uint32_t config_id, uint32_t *bits, uint64_t *visited,
                                split_items *s, mote_error *err)
{
    bool done;
    TRY(compute_cheap(g, config_id, bits, visited, s, &done, err));
    if (done)
        return MOTE_OK;
    const uint32_t suffix =
        s->n_strings == 0 ? config_id : configs_of(&g->c, s->others, s->n_others);
    if (suffix == CONFIG_FAILED)
        return configs_error(&g->c, err);
    TRY(compute_from_next(g, suffix, bits, visited, &done, err));
    if (!done && !mask_walk(g, suffix, bits, visited))
        return configs_error(&g->c, err);
    return fill_strings(g, s, bits, err);
}

/* Stores a mask in place of the least recently used one. */
static void cache_mask(grammar *g, uint32_t config_id, const uint32_t *bits)
{
    cached_mask *oldest = &g->masks[0];
    for (int i = 1; i < MASK_CACHE; i++)
        if (g->masks[i].used < oldest->used)
            oldest = &g->masks[i];
    if (oldest->bits == NULL)
        oldest->bits = mem_new(g->v->words, sizeof *oldest->bits);
    if (oldest->bits == NULL)
        return;
    memcpy(oldest->bits, bits, g->v->words * sizeof *bits);
    oldest->config = config_id;
    oldest->used = ++g->clock;
}

mote_status mask_fill(grammar *g, uint32_t config_id, uint32_t *bits, mote_error *err)
{
    const uint32_t canonical = configs_canonical(&g->c, config_id);
    for (int i = 0; i < MASK_CACHE; i++)
        if (g->masks[i].config == canonical) {
            g->masks[i].used = ++g->clock;
            memcpy(bits, g->masks[i].bits, g->v->words * sizeof *bits);
            return MOTE_OK;
        }
    memset(bits, 0, g->v->words * sizeof *bits);
    if (canonical == CONFIG_FAILED)
        return configs_error(&g->c, err);
    uint64_t visited = 0;
    split_items s = {0};
    const mote_status status = compute_mask(g, canonical, bits, &visited, &s, err);
    split_fini(&s);
    if (status != MOTE_OK)
        memset(bits, 0, g->v->words * sizeof *bits);
    else if (visited > MASK_CACHE_VISITS)
        cache_mask(g, canonical, bits);
    return status;
}
