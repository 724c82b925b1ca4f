/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mask.c - the tokens that a configuration allows.
 *
 * A token is allowed if one of the configuration's items can read all of it, so
 * the mask is the union of the masks of its items. Items that stand between two
 * characters of a JSON string are looked up: what each token does there is known
 * (grammar_vocab.h), and only what follows the closing quote depends on the rest. All
 * others walk the tree of tokens together. Branches whose text does not leave
 * a configuration are taken whole.
 */
#include "grammar/grammar_inside.h"

#include "automaton/grow.h"

#include <string.h>

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

static bool multi_lead_home(configs *c, uint32_t home)
{
    static const struct {
        uint8_t lead_lo, lead_hi, lo, hi, more;
    } forms[] = {{0xE0, 0xE0, 0xA0, 0xBF, 1},
                 {0xED, 0xED, 0x80, 0x9F, 1},
                 {0xF0, 0xF0, 0x90, 0xBF, 2},
                 {0xF4, 0xF4, 0x80, 0x8F, 2}};
    if (!all_lead_home(c, home, home, 0xC2, 0xDF, 1) ||
        !all_lead_home(c, home, home, 0xE1, 0xEC, 2) ||
        !all_lead_home(c, home, home, 0xEE, 0xEF, 2) ||
        !all_lead_home(c, home, home, 0xF1, 0xF3, 3))
        return false;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const uint32_t to = configs_step(c, home, forms[i].lead_lo);
        if (to == CONFIG_DEAD || to == CONFIG_FAILED ||
            !all_lead_home(c, home, to, forms[i].lo, forms[i].hi, forms[i].more))
            return false;
    }
    return true;
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
    return info;
}

/* Does no token of the branch leave the configuration? */
static bool takes_whole(grammar *g, uint32_t id, const vocab_summary *s)
{
    /* One step tells most configurations that are left by nearly everything. */
    const unsigned probe = s->ascii[1] != 0   ? 64 + (unsigned)__builtin_ctzll(s->ascii[1])
                           : s->ascii[0] != 0 ? (unsigned)__builtin_ctzll(s->ascii[0])
                                              : 128;
    if (!s->whole || (probe < 128 && configs_step(&g->c, id, (uint8_t)probe) != id))
        return false;
    const stay_info *info = stays_of(g, id);
    return (s->ascii[0] & ~info->ascii[0]) == 0 && (s->ascii[1] & ~info->ascii[1]) == 0 &&
           (!s->multi || info->multi);
}

/* ---- the walk over the tree ---- */

/* Children of one node that are still to be looked at, and where their parent led. */
typedef struct walk_level {
    uint32_t next, end, config;
} walk_level;

/* Takes a branch whole if it can, else its own token; true: its children are to be looked at. */
static bool enter(grammar *g, uint32_t index, uint32_t config_id, uint32_t *bits, uint64_t *visited)
{
    const vocab *v = g->v;
    const vocab_node *node = &v->nodes[index];
    if (node->token != VOCAB_NO_TOKEN)
        vocab_allow(bits, node->token);
    if (!node->bulk)
        return node->n > 0;
    const vocab_summary *s = vocab_summary_of(v, index);
    if (!takes_whole(g, config_id, s))
        return true;
    for (uint32_t k = 0; k < s->n; k++)
        vocab_allow(bits, v->order[s->first + k]);
    *visited += s->n / 4;
    return false;
}

static bool walk(grammar *g, uint32_t root, uint32_t *bits, uint64_t *visited)
{
    const vocab_node *nodes = g->v->nodes;
    walk_level levels[VOCAB_MAX_BYTES + 1];
    size_t depth = 0;
    levels[0] = (walk_level){nodes[0].child, nodes[0].child + nodes[0].n, root};
    for (;;) {
        walk_level *level = &levels[depth];
        if (level->next == level->end) {
            if (depth-- == 0)
                return true;
            continue;
        }
        const uint32_t index = level->next++;
        if (!config_allows(&g->c.all[level->config], nodes[index].byte))
            continue;
        ++*visited;
        const uint32_t to = configs_step(&g->c, level->config, nodes[index].byte);
        if (to == CONFIG_FAILED)
            return false;
        if (to != CONFIG_DEAD && enter(g, index, to, bits, visited))
            levels[++depth] =
                (walk_level){nodes[index].child, nodes[index].child + nodes[index].n, to};
    }
}

/* ---- inside JSON strings ---- */

/* An item between two characters of a string that must have `least` more of them and may have
 * `most`. */
typedef struct open_string {
    uint32_t least, most;
    uint32_t exit;   /* configuration before its closing quote */
    uint32_t behind; /* and after it; CONFIG_DEAD: taken together with an earlier one */
} open_string;

/* The items of a configuration, told apart. */
typedef struct split_items {
    open_string *strings;
    config_item *others;
    config_item *merged; /* room for items of several configurations */
    uint32_t n_strings, strings_room, n_others, others_room, n_merged, merged_room;
} split_items;

static void split_fini(split_items *s)
{
    mem_free(s->strings);
    mem_free(s->others);
    mem_free(s->merged);
}

/* The loop over characters that an item begins a run of, or NULL. */
static const rules_loop_info *string_loop(const grammar *g, config_item item)
{
    if (item.state != g->string_start || item.frame == 0)
        return NULL;
    const rules_node *node = &g->r->nodes[g->c.frames[item.frame].state];
    if (node->kind != RULES_LOOP || g->r->loops[node->counter].rule != g->r->json_char)
        return NULL;
    return &g->r->loops[node->counter];
}

static bool only_quote(const config *x)
{
    return x->bytes[0] == UINT64_C(1) << '"' && x->bytes[1] == 0 && x->bytes[2] == 0 &&
           x->bytes[3] == 0 && !x->complete;
}

/* Adds the item to the strings if what closes it is a quote and nothing else. */
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
    if (exit == CONFIG_DEAD || !only_quote(&g->c.all[exit]))
        return MOTE_OK;
    const uint32_t behind = configs_step(&g->c, exit, '"');
    if (behind == CONFIG_FAILED)
        return configs_error(&g->c, err);
    if (!grow_for(&s->strings, s->n_strings, &s->strings_room, sizeof *s->strings))
        return err_set(err, MOTE_E_MEMORY, "no memory for a mask");
    s->strings[s->n_strings++] =
        (open_string){.least = done < loop->min ? loop->min - done : 0,
                      .most = loop->max == RULES_NO_LIMIT ? RULES_NO_LIMIT : loop->max - done,
                      .exit = exit,
                      .behind = behind};
    *added = true;
    return MOTE_OK;
}

static mote_status split(grammar *g, uint32_t config_id, split_items *s, mote_error *err)
{
    for (uint32_t i = 0; i < g->c.all[config_id].n; i++) {
        const config_item item = g->c.items[g->c.all[config_id].first + i];
        bool added;
        TRY(add_string(g, s, item, &added, err));
        if (added)
            continue;
        if (!grow_for(&s->others, s->n_others, &s->others_room, sizeof *s->others))
            return err_set(err, MOTE_E_MEMORY, "no memory for a mask");
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

/* The closing quote of a string that may close now is the string's business. */
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

static void allow_inside(const vocab *v, uint32_t most, uint32_t *bits)
{
    const uint32_t row = most >= v->longest ? 0 : most < VOCAB_SHORT ? most : VOCAB_SHORT;
    const uint32_t *within = v->within + (size_t)row * v->words;
    for (uint32_t w = 0; w < v->words; w++)
        bits[w] |= within[w];
    if (row != VOCAB_SHORT)
        return;
    for (uint32_t i = v->n_longer; i-- > 0 && v->longer[i].n <= most;)
        vocab_allow(bits, v->longer[i].token);
}

/* Tokens that close the string after least to most characters, and whose rest fits behind it.
 * They come in the order of their rests, so what two neighbours share is read once. */
static bool allow_closers(grammar *g, const open_string *x, uint32_t *bits)
{
    const vocab *v = g->v;
    uint32_t at_depth[VOCAB_MAX_BYTES + 1];
    size_t good = 0; /* bytes of the latest rest that could be read */
    at_depth[0] = x->behind;
    for (uint32_t i = 0; i < v->n_closers; i++) {
        const vocab_closer *closer = &v->closers[i];
        if (closer->common > good)
            continue;
        for (good = closer->common; good < closer->rest.n; good++) {
            const uint32_t to = configs_step(&g->c, at_depth[good], (uint8_t)closer->rest.p[good]);
            if (to == CONFIG_FAILED)
                return false;
            if (to == CONFIG_DEAD)
                break;
            at_depth[good + 1] = to;
        }
        if (good == closer->rest.n && closer->n >= x->least && closer->n <= x->most)
            vocab_allow(bits, closer->token);
    }
    return true;
}

/* Strings of the same limits share the tokens; what may follow them is joined. */
static mote_status join_equal(grammar *g, split_items *s, uint32_t first, mote_error *err)
{
    open_string *x = s->strings;
    uint32_t n_joined = 0;
    s->n_merged = 0;
    for (uint32_t k = first; k < s->n_strings; k++) {
        if (x[k].behind == CONFIG_DEAD || x[k].least != x[first].least ||
            x[k].most != x[first].most)
            continue;
        const config *behind = &g->c.all[x[k].behind];
        for (uint32_t i = 0; i < behind->n; i++) {
            if (!grow_for(&s->merged, s->n_merged, &s->merged_room, sizeof *s->merged))
                return err_set(err, MOTE_E_MEMORY, "no memory for a mask");
            s->merged[s->n_merged++] = g->c.items[behind->first + i];
        }
        n_joined++;
        if (k > first)
            x[k].behind = CONFIG_DEAD;
    }
    if (n_joined < 2 || s->n_merged == 0)
        return MOTE_OK;
    x[first].behind = configs_of(&g->c, s->merged, s->n_merged);
    return x[first].behind == CONFIG_FAILED ? configs_error(&g->c, err) : MOTE_OK;
}

static mote_status fill_strings(grammar *g, split_items *s, uint32_t *bits, mote_error *err)
{
    for (uint32_t i = 0; i < s->n_strings; i++) {
        if (s->strings[i].behind == CONFIG_DEAD)
            continue;
        TRY(join_equal(g, s, i, err));
        allow_inside(g->v, s->strings[i].most, bits);
        if (!allow_closers(g, &s->strings[i], bits))
            return configs_error(&g->c, err);
    }
    return MOTE_OK;
}

/* ---- all of it ---- */

static mote_status compute(grammar *g, uint32_t config_id, uint32_t *bits, uint64_t *visited,
                           split_items *s, mote_error *err)
{
    TRY(split(g, config_id, s, err));
    if (s->n_strings > 0)
        drop_closing_items(g, s);
    if (s->n_others > 0) {
        const uint32_t rest =
            s->n_strings == 0 ? config_id : configs_of(&g->c, s->others, s->n_others);
        if (rest == CONFIG_FAILED || !walk(g, rest, bits, visited))
            return configs_error(&g->c, err);
    }
    return fill_strings(g, s, bits, err);
}

/* The oldest place, for a mask that is worth remembering. */
static void keep_mask(grammar *g, uint32_t config_id, const uint32_t *bits)
{
    kept_mask *oldest = &g->kept[0];
    for (int i = 1; i < MASKS_KEPT; i++)
        if (g->kept[i].used < oldest->used)
            oldest = &g->kept[i];
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
    const uint32_t plain = configs_plain(&g->c, config_id);
    for (int i = 0; i < MASKS_KEPT; i++)
        if (g->kept[i].config == plain) {
            g->kept[i].used = ++g->clock;
            memcpy(bits, g->kept[i].bits, g->v->words * sizeof *bits);
            return MOTE_OK;
        }
    memset(bits, 0, g->v->words * sizeof *bits);
    if (plain == CONFIG_FAILED)
        return configs_error(&g->c, err);
    uint64_t visited = 0;
    split_items s = {0};
    const mote_status status = compute(g, plain, bits, &visited, &s, err);
    split_fini(&s);
    if (status != MOTE_OK)
        memset(bits, 0, g->v->words * sizeof *bits);
    else if (visited > MASKS_WORTH)
        keep_mask(g, plain, bits);
    return status;
}
