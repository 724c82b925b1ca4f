/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mask_walk.c - token masks by walking the token tries.
 *
 * A walk descends into a trie as long as the configuration accepts the bytes. Two shortcuts:
 *
 * - If all characters of a branch lead from a configuration back to itself, all tokens of the
 *   branch are allowed without a walk.
 * - If the characters of a trie can lead only to a few configurations, none of which rejects any of
 *   them, all tokens of the trie are allowed.
 *
 * mask_change computes a mask from the mask of another configuration: it walks only where the
 * steps of the two differ.
 */
#include "grammar/grammar_int.h"

/* ---- characters that lead back to the same configuration ---- */

/* Do all bytes lo to hi, and then `more` continuation bytes, lead from `from` to `target`? */
static bool bytes_lead_back(configs *c, uint32_t target, uint32_t from, unsigned lo, unsigned hi,
                            int more)
{
    for (unsigned byte = lo; byte <= hi; byte++) {
        if (byte > lo && c->r->class_of[byte] == c->r->class_of[byte - 1])
            continue;
        const uint32_t to = configs_step(c, from, (uint8_t)byte);
        if (to == CONFIG_DEAD || to == CONFIG_FAILED)
            return false;
        if (more > 0 ? !bytes_lead_back(c, target, to, 0x80, 0xBF, more - 1) : to != target)
            return false;
    }
    return true;
}

/* The same after a lead byte that limits its second byte to [lo, hi]. */
static bool lead_byte_leads_back(configs *c, uint32_t target, uint8_t lead, unsigned lo,
                                 unsigned hi, int more)
{
    const uint32_t to = configs_step(c, target, lead);
    return to != CONFIG_DEAD && to != CONFIG_FAILED && bytes_lead_back(c, target, to, lo, hi, more);
}

static bool multibyte_leads_back(configs *c, uint32_t target)
{
    return bytes_lead_back(c, target, target, 0xC2, 0xDF, 1) &&
           bytes_lead_back(c, target, target, 0xE1, 0xE1, 2) &&
           bytes_lead_back(c, target, target, 0xE3, 0xEC, 2) &&
           bytes_lead_back(c, target, target, 0xEE, 0xEF, 2) &&
           bytes_lead_back(c, target, target, 0xF1, 0xF3, 3) &&
           lead_byte_leads_back(c, target, 0xE0, 0xA0, 0xBF, 1) &&
           lead_byte_leads_back(c, target, 0xE2, 0x81, 0xBF, 1) &&
           lead_byte_leads_back(c, target, 0xED, 0x80, 0x9F, 1) &&
           lead_byte_leads_back(c, target, 0xF0, 0x90, 0xBF, 2) &&
           lead_byte_leads_back(c, target, 0xF4, 0x80, 0x8F, 2);
}

/* Cached. Valid until the next call. */
static const self_loops *self_loops_of(grammar *g, uint32_t id)
{
    self_loops *info = &g->loops[id % SELF_LOOP_CACHE];
    if (info->config == id)
        return info;
    *info = (self_loops){.config = id};
    for (unsigned byte = 0; byte < 128; byte++)
        if (configs_step(&g->c, id, (uint8_t)byte) == id)
            info->ascii[byte / 64] |= UINT64_C(1) << byte % 64;
    info->multi = multibyte_leads_back(&g->c, id);
    info->punctuation = info->multi && lead_byte_leads_back(&g->c, id, 0xE2, 0x80, 0x80, 1);
    return info;
}

/* Does every token of the branch lead back to the configuration? Probes one character first. */
static bool branch_stays(grammar *g, uint32_t id, const token_trie_summary *s)
{
    const unsigned probe = s->ascii[1] != 0   ? 64 + (unsigned)__builtin_ctzll(s->ascii[1])
                           : s->ascii[0] != 0 ? (unsigned)__builtin_ctzll(s->ascii[0])
                                              : 128;
    if (!s->whole || (probe < 128 && configs_step(&g->c, id, (uint8_t)probe) != id))
        return false;
    const self_loops *info = self_loops_of(g, id);
    return (s->ascii[0] & ~info->ascii[0]) == 0 && (s->ascii[1] & ~info->ascii[1]) == 0 &&
           (!s->multi || info->multi) && (!s->punctuation || info->punctuation);
}

/* ---- texts that are never rejected ---- */

/* Configurations that are reached so far. */
typedef struct reach {
    uint32_t config[REACH_MAX];
    uint32_t n;
} reach;

static bool reach_add(reach *x, uint32_t id)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (x->config[i] == id)
            return true;
    if (x->n == REACH_MAX)
        return false;
    x->config[x->n++] = id;
    return true;
}

/* Are all bytes lo to hi, followed by `more` continuation bytes, accepted? Adds the targets. */
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

static bool reach_lead_byte(configs *c, reach *x, uint32_t from, uint8_t lead, unsigned lo,
                            unsigned hi, int more)
{
    const uint32_t to = configs_step(c, from, lead);
    return to != CONFIG_DEAD && to != CONFIG_FAILED && reach_bytes(c, x, to, lo, hi, more);
}

static bool reach_multi(configs *c, reach *x, uint32_t from)
{
    return reach_bytes(c, x, from, 0xC2, 0xDF, 1) && reach_bytes(c, x, from, 0xE1, 0xEC, 2) &&
           reach_bytes(c, x, from, 0xEE, 0xEF, 2) && reach_bytes(c, x, from, 0xF1, 0xF3, 3) &&
           reach_lead_byte(c, x, from, 0xE0, 0xA0, 0xBF, 1) &&
           reach_lead_byte(c, x, from, 0xED, 0x80, 0x9F, 1) &&
           reach_lead_byte(c, x, from, 0xF0, 0x90, 0xBF, 2) &&
           reach_lead_byte(c, x, from, 0xF4, 0x80, 0x8F, 2);
}

static bool reach_ascii(configs *c, reach *x, uint32_t from, const uint64_t ascii[2])
{
    unsigned last = 256; /* class of the previous byte, if it was tested */
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
 * An unanchored pattern changes its state with every character and yet rejects none. If the
 * characters of a trie lead, repeatedly, to at most REACH_MAX configurations and none of these
 * rejects any of them, all tokens of the trie are allowed.
 */
static bool never_rejects(grammar *g, uint32_t config_id, const token_trie_summary *s)
{
    reach x = {.config = {config_id}, .n = 1};
    for (uint32_t i = 0; i < x.n; i++)
        if (!reach_ascii(&g->c, &x, x.config[i], s->ascii) ||
            (s->multi && !reach_multi(&g->c, &x, x.config[i])))
            return false;
    return s->whole;
}

/* Are all tokens of a trie allowed? */
static bool tree_allowed(grammar *g, uint32_t config_id, size_t tree)
{
    const token_trie_summary *s = &g->v->tree[tree];
    if (s->n == 0 || branch_stays(g, config_id, s))
        return true;
    if (!s->whole)
        return false;
    tree_info *info = &g->trees[config_id % SELF_LOOP_CACHE];
    if (info->config != config_id)
        *info = (tree_info){.config = config_id};
    if (!info->known[tree]) {
        info->known[tree] = true;
        info->allowed[tree] = never_rejects(g, config_id, s);
    }
    return info->allowed[tree];
}

bool mask_is_cheap(grammar *g, uint32_t config_id)
{
    return branch_stays(g, config_id, &g->v->tree[TRIE_LOWERCASE]);
}

/* ---- walk ---- */

/* Entry of a step_row that is not computed yet; no configuration has this number. */
#define STEP_UNKNOWN (CONFIG_FAILED - 1)

static step_row *step_row_of(grammar *g, uint32_t config_id)
{
    step_row *row = &g->rows[config_id % ROW_CACHE];
    if (row->config != config_id) {
        row->config = config_id;
        for (int byte = 0; byte < 256; byte++)
            row->next[byte] =
                config_allows(&g->c.all[config_id], (uint8_t)byte) ? STEP_UNKNOWN : CONFIG_DEAD;
    }
    return row;
}

/* Like configs_step, through a cached row, which another configuration may have evicted. */
static inline uint32_t row_step(grammar *g, step_row **row, uint32_t config_id, uint8_t byte)
{
    if ((*row)->config != config_id)
        *row = step_row_of(g, config_id);
    uint32_t to = (*row)->next[byte];
    if (to == STEP_UNKNOWN) {
        to = configs_step(&g->c, config_id, byte);
        if (to != CONFIG_FAILED)
            (*row)->next[byte] = to;
    }
    return to;
}

/* The children of one node that are still to be visited, and the configuration at the node. */
typedef struct walk_level {
    uint32_t next, end, config;
    step_row *row;
} walk_level;

/* Allows the node's own token, and the whole branch if possible. True: visit its children. */
static bool walk_enter(grammar *g, uint32_t index, uint32_t config_id, uint32_t *bits,
                       uint64_t *visited)
{
    const token_trie *v = g->v;
    const token_trie_node *node = &v->nodes[index];
    if (node->token != TRIE_NO_TOKEN)
        token_trie_allow(bits, node->token);
    if (!node->has_summary)
        return node->n > 0;
    const token_trie_summary *s = token_trie_summary_of(v, index);
    if (!branch_stays(g, config_id, s))
        return true;
    for (uint32_t k = 0; k < s->n; k++)
        token_trie_allow(bits, v->order[s->first + k]);
    *visited += s->n / 4;
    return false;
}

/* Allows the tokens of one trie that the configuration accepts. Not recursive. False: error. */
static bool walk_tree(grammar *g, uint32_t tree, uint32_t config_id, uint32_t *bits,
                      uint64_t *visited)
{
    const token_trie_node *nodes = g->v->nodes, *root = &nodes[tree];
    walk_level levels[TRIE_MAX_BYTES + 1];
    size_t depth = 0;
    levels[0] =
        (walk_level){root->child, root->child + root->n, config_id, step_row_of(g, config_id)};
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
        if (walk_enter(g, index, to, bits, visited))
            levels[++depth] =
                (walk_level){node->child, node->child + node->n, to, step_row_of(g, to)};
    }
}

bool mask_walk(grammar *g, uint32_t config_id, uint32_t *bits, uint64_t *visited)
{
    const token_trie *v = g->v;
    for (size_t i = 0; i < TRIE_TREES; i++) {
        if (!tree_allowed(g, config_id, i)) {
            if (!walk_tree(g, v->tree[i].node, config_id, bits, visited))
                return false;
            continue;
        }
        for (uint32_t w = 0; w < v->words; w++)
            bits[w] |= v->tree_bits[i * v->words + w];
    }
    return true;
}

/* ---- difference of two configurations ---- */

/* Children still to be visited, and the configurations of the old and the new mask. */
typedef struct change_level {
    uint32_t next, end, from, to;
} change_level;

/* Turns the mask of start.from into the mask of start.to, for the tokens of one trie. */
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
