/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mask_walk.c - masks by walking over the vocabulary.
 *
 * A walk goes down the trees of tokens as far as the configuration can read.
 * Branches whose text does not leave the configuration are taken whole. And many
 * configurations differ from one whose mask is known only in a few bytes: the first
 * character of a name that must not be one of a list is an example, against any
 * later one. Then it is enough to walk where the two lead to different places.
 */
#include "grammar/grammar_int.h"

/* ---- characters that lead back to where they started ---- */

/* Do all bytes lo to hi, and then `more` continuation bytes, lead from `from` to `home`? */
static bool all_lead_home(configs *c, uint32_t home, uint32_t from, unsigned lo, unsigned hi,
                          int more)
{
    for (unsigned byte = lo; byte <= hi; byte++) {
        if (byte > lo && c->r->class_of[byte] == c->r->class_of[byte - 1])
            continue;
        const uint32_t to = configs_step(c, from, (uint8_t)byte);
        if (to == CONFIG_DEAD || to == CONFIG_FAILED)
            return false;
        if (more > 0 ? !all_lead_home(c, home, to, 0x80, 0xBF, more - 1) : to != home)
            return false;
    }
    return true;
}

/* The same behind a lead byte whose second byte has limits of its own. */
static bool form_leads_home(configs *c, uint32_t home, uint8_t lead, unsigned lo, unsigned hi,
                            int more)
{
    const uint32_t to = configs_step(c, home, lead);
    return to != CONFIG_DEAD && to != CONFIG_FAILED && all_lead_home(c, home, to, lo, hi, more);
}

static bool multi_lead_home(configs *c, uint32_t home)
{
    return all_lead_home(c, home, home, 0xC2, 0xDF, 1) &&
           all_lead_home(c, home, home, 0xE1, 0xE1, 2) &&
           all_lead_home(c, home, home, 0xE3, 0xEC, 2) &&
           all_lead_home(c, home, home, 0xEE, 0xEF, 2) &&
           all_lead_home(c, home, home, 0xF1, 0xF3, 3) &&
           form_leads_home(c, home, 0xE0, 0xA0, 0xBF, 1) &&
           form_leads_home(c, home, 0xE2, 0x81, 0xBF, 1) &&
           form_leads_home(c, home, 0xED, 0x80, 0x9F, 1) &&
           form_leads_home(c, home, 0xF0, 0x90, 0xBF, 2) &&
           form_leads_home(c, home, 0xF4, 0x80, 0x8F, 2);
}

static const stay_info *stays_of(grammar *g, uint32_t id)
{
    stay_info *info = &g->stays[id % STAYS_KEPT];
    if (info->config == id)
        return info;
    *info = (stay_info){.config = id};
    for (unsigned byte = 0; byte < 128; byte++)
        if (configs_step(&g->c, id, (uint8_t)byte) == id)
            info->ascii[byte / 64] |= UINT64_C(1) << byte % 64;
    info->multi = multi_lead_home(&g->c, id);
    info->punctuation = info->multi && form_leads_home(&g->c, id, 0xE2, 0x80, 0x80, 1);
    return info;
}

/* Does no token of the branch leave the configuration? */
static bool takes_whole(grammar *g, uint32_t id, const token_trie_summary *s)
{
    const unsigned probe = s->ascii[1] != 0   ? 64 + (unsigned)__builtin_ctzll(s->ascii[1])
                           : s->ascii[0] != 0 ? (unsigned)__builtin_ctzll(s->ascii[0])
                                              : 128;
    if (!s->whole || (probe < 128 && configs_step(&g->c, id, (uint8_t)probe) != id))
        return false;
    const stay_info *info = stays_of(g, id);
    return (s->ascii[0] & ~info->ascii[0]) == 0 && (s->ascii[1] & ~info->ascii[1]) == 0 &&
           (!s->multi || info->multi) && (!s->punctuation || info->punctuation);
}

/* ---- texts that can always go on ---- */

/* Configurations that a kind of text leads to. */
typedef struct reach {
    uint32_t config[REACH_MOST];
    uint32_t n;
} reach;

static bool reach_add(reach *x, uint32_t id)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->config[i] == id)
            return true;
    if (x->n == REACH_MOST)
        return false;
    x->config[x->n++] = id;
    return true;
}

/* All bytes lo to hi, then `more` continuation bytes: do all of them go on? */
static bool reach_bytes(configs *c, reach *x, uint32_t from, unsigned lo, unsigned hi, int more)
{
    for (unsigned byte = lo; byte <= hi; byte++) {
        if (byte > lo && c->r->class_of[byte] == c->r->class_of[byte - 1])
            continue;
        const uint32_t to = configs_step(c, from, (uint8_t)byte);
        if (to == CONFIG_DEAD || to == CONFIG_FAILED)
            return false;
        if (more > 0 ? !reach_bytes(c, x, to, 0x80, 0xBF, more - 1) : !reach_add(x, to))
            return false;
    }
    return true;
}

static bool reach_form(configs *c, reach *x, uint32_t from, uint8_t lead, unsigned lo, unsigned hi,
                       int more)
{
    const uint32_t to = configs_step(c, from, lead);
    return to != CONFIG_DEAD && to != CONFIG_FAILED && reach_bytes(c, x, to, lo, hi, more);
}

static bool reach_multi(configs *c, reach *x, uint32_t from)
{
    return reach_bytes(c, x, from, 0xC2, 0xDF, 1) && reach_bytes(c, x, from, 0xE1, 0xEC, 2) &&
           reach_bytes(c, x, from, 0xEE, 0xEF, 2) && reach_bytes(c, x, from, 0xF1, 0xF3, 3) &&
           reach_form(c, x, from, 0xE0, 0xA0, 0xBF, 1) &&
           reach_form(c, x, from, 0xED, 0x80, 0x9F, 1) &&
           reach_form(c, x, from, 0xF0, 0x90, 0xBF, 2) &&
           reach_form(c, x, from, 0xF4, 0x80, 0x8F, 2);
}

static bool reach_ascii(configs *c, reach *x, uint32_t from, const uint64_t ascii[2])
{
    unsigned last = 256; /* class of the byte before, if that was asked */
    for (unsigned byte = 0; byte < 128; byte++) {
        const bool wanted = (ascii[byte / 64] >> byte % 64 & 1) != 0;
        const unsigned class = c->r->class_of[byte];
        if (wanted && class != last && !reach_bytes(c, x, from, byte, byte, 0))
            return false;
        last = wanted ? class : 256;
    }
    return true;
}

/*
 * A pattern that is looked for anywhere moves from state to state with every
 * character and yet refuses none. If all that the characters of a tree lead to, again
 * and again, is a few configurations that refuse none of them, all its tokens fit.
 */
static bool never_refuses(grammar *g, uint32_t config_id, const token_trie_summary *s)
{
    reach x = {.config = {config_id}, .n = 1};
    for (uint32_t i = 0; i < x.n; i++)
        if (!reach_ascii(&g->c, &x, x.config[i], s->ascii) ||
            (s->multi && !reach_multi(&g->c, &x, x.config[i])))
            return false;
    return s->whole;
}

/* May all tokens of a tree follow? */
static bool takes_tree(grammar *g, uint32_t config_id, size_t tree)
{
    const token_trie_summary *s = &g->v->tree[tree];
    if (s->n == 0 || takes_whole(g, config_id, s))
        return true;
    if (!s->whole)
        return false;
    tree_info *info = &g->trees[config_id % STAYS_KEPT];
    if (info->config != config_id)
        *info = (tree_info){.config = config_id};
    if (!info->asked[tree]) {
        info->asked[tree] = true;
        info->taken[tree] = never_refuses(g, config_id, s);
    }
    return info->taken[tree];
}

bool mask_is_cheap(grammar *g, uint32_t config_id)
{
    return takes_whole(g, config_id, &g->v->tree[TRIE_SMALL_LETTERS]);
}

/* ---- the walk ---- */

/* Not yet asked; no configuration has this number. */
#define NOT_ASKED (CONFIG_FAILED - 1)

static walk_row *row_of(grammar *g, uint32_t config_id)
{
    walk_row *row = &g->rows[config_id % ROWS_KEPT];
    if (row->config != config_id) {
        row->config = config_id;
        for (int byte = 0; byte < 256; byte++)
            row->next[byte] =
                config_allows(&g->c.all[config_id], (uint8_t)byte) ? NOT_ASKED : CONFIG_DEAD;
    }
    return row;
}

/* Like configs_step, for a row that may have been given to another configuration. */
static inline uint32_t row_step(grammar *g, walk_row **row, uint32_t config_id, uint8_t byte)
{
    if ((*row)->config != config_id)
        *row = row_of(g, config_id);
    uint32_t to = (*row)->next[byte];
    if (to == NOT_ASKED) {
        to = configs_step(&g->c, config_id, byte);
        if (to != CONFIG_FAILED)
            (*row)->next[byte] = to;
    }
    return to;
}

/* Children of one node that are still to be looked at, and where their parent led. */
typedef struct walk_level {
    uint32_t next, end, config;
    walk_row *row;
} walk_level;

/* Takes a branch whole if it can, else its own token; true: its children are to be looked at. */
static bool enter(grammar *g, uint32_t index, uint32_t config_id, uint32_t *bits, uint64_t *visited)
{
    const token_trie *v = g->v;
    const token_trie_node *node = &v->nodes[index];
    if (node->token != TRIE_NO_TOKEN)
        token_trie_allow(bits, node->token);
    if (!node->bulk)
        return node->n > 0;
    const token_trie_summary *s = token_trie_summary_of(v, index);
    if (!takes_whole(g, config_id, s))
        return true;
    for (uint32_t k = 0; k < s->n; k++)
        token_trie_allow(bits, v->order[s->first + k]);
    *visited += s->n / 4;
    return false;
}

static bool walk_tree(grammar *g, uint32_t tree, uint32_t config_id, uint32_t *bits,
                      uint64_t *visited)
{
    const token_trie_node *nodes = g->v->nodes, *root = &nodes[tree];
    walk_level levels[TRIE_MAX_BYTES + 1];
    size_t depth = 0;
    levels[0] = (walk_level){root->child, root->child + root->n, config_id, row_of(g, config_id)};
    for (;;) {
        walk_level *level = &levels[depth];
        if (level->next == level->end) {
            if (depth-- == 0)
                return true;
            continue;
        }
        const uint32_t index = level->next++;
        const token_trie_node *node = &nodes[index];
        const uint32_t to = row_step(g, &level->row, level->config, node->byte);
        if (to == CONFIG_DEAD)
            continue;
        if (to == CONFIG_FAILED)
            return false;
        ++*visited;
        if (enter(g, index, to, bits, visited))
            levels[++depth] = (walk_level){node->child, node->child + node->n, to, row_of(g, to)};
    }
}

bool mask_walk(grammar *g, uint32_t config_id, uint32_t *bits, uint64_t *visited)
{
    const token_trie *v = g->v;
    for (size_t i = 0; i < TRIE_TREES; i++) {
        if (!takes_tree(g, config_id, i)) {
            if (!walk_tree(g, v->tree[i].node, config_id, bits, visited))
                return false;
            continue;
        }
        for (uint32_t w = 0; w < v->words; w++)
            bits[w] |= v->tree_bits[i * v->words + w];
    }
    return true;
}

/* ---- the difference of two ---- */

typedef struct change_level {
    uint32_t next, end, from, to;
} change_level;

static bool change_tree(grammar *g, uint32_t tree, change_level start, uint32_t *bits,
                        uint64_t *visited)
{
    const token_trie_node *nodes = g->v->nodes, *root = &nodes[tree];
    change_level levels[TRIE_MAX_BYTES + 1];
    size_t depth = 0;
    levels[0] = start;
    levels[0].next = root->child;
    levels[0].end = root->child + root->n;
    for (;;) {
        change_level *level = &levels[depth];
        if (level->next == level->end) {
            if (depth-- == 0)
                return true;
            continue;
        }
        const token_trie_node *node = &nodes[level->next++];
        const uint32_t from = configs_step(&g->c, level->from, node->byte);
        const uint32_t to = configs_step(&g->c, level->to, node->byte);
        if (from == CONFIG_FAILED || to == CONFIG_FAILED)
            return false;
        if (from == to)
            continue;
        ++*visited;
        if (node->token != TRIE_NO_TOKEN) {
            const uint32_t bit = UINT32_C(1) << node->token % 32;
            uint32_t *word = &bits[node->token / 32];
            *word = to != CONFIG_DEAD ? *word | bit : *word & ~bit;
        }
        if (node->n > 0)
            levels[++depth] = (change_level){node->child, node->child + node->n, from, to};
    }
}

bool mask_change(grammar *g, uint32_t from, uint32_t to, uint32_t *bits, uint64_t *visited)
{
    const change_level start = {.from = from, .to = to};
    for (size_t i = 0; i < TRIE_TREES; i++)
        if (!change_tree(g, g->v->tree[i].node, start, bits, visited))
            return false;
    return true;
}
