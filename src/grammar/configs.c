/* SPDX-License-Identifier: Apache-2.0 */
/*
 * configs.c - the pushdown automaton: interned frames and configurations, steps, collection.
 *
 * A step follows every item's edges for the byte, then computes the epsilon closure: empty edges,
 * calls (push a frame) and ends of rules (pop a frame). Only states that read a byte are stored as
 * items. The closure is not recursive and its size is limited. A deeply nested text or an ambiguous
 * grammar therefore ends in an error, not in a crash.
 */
#include "grammar/grammar_int.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { SEEN = 1 << 14, FIRST_SLOTS = 1 << 10 };

static uint64_t hash_mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static uint32_t configs_fail(configs *c, mote_status status, const char *reason)
{
    c->status = status;
    c->reason = reason;
    return CONFIG_FAILED;
}

static uint32_t configs_no_memory(configs *c)
{
    return configs_fail(c, MOTE_E_MEMORY, "out of memory: grammar");
}

mote_status configs_error(const configs *c, mote_error *err)
{
    return err_set(err, c->status, "%s", c->reason);
}

/* ---- frames ---- */

static uint64_t frame_hash(uint32_t state, uint32_t count, uint32_t parent)
{
    return hash_mix(hash_mix(state, count), parent);
}

/* Replaces a hash table with an empty one of twice the size. The caller links all entries again. */
static bool widen_slots(uint32_t **slots, uint32_t *mask)
{
    const uint32_t n = *slots == NULL ? FIRST_SLOTS : (*mask + 1) * 2;
    uint32_t *wider = mem_new(n, sizeof *wider);
    if (wider == NULL)
        return false;
    mem_free(*slots);
    *slots = wider;
    *mask = n - 1;
    return true;
}

static void configs_link_frame(configs *c, uint32_t f)
{
    config_frame *x = &c->frames[f];
    uint32_t *slot =
        &c->frame_slots[(frame_hash(x->state, x->count, x->parent) >> 32) & c->frame_mask];
    x->next = *slot;
    *slot = f;
}

/* Before an insertion: grows the hash table if it has more entries than slots. */
static bool frame_table_ready(configs *c)
{
    if (c->frame_slots != NULL && c->live_frames <= c->frame_mask)
        return true;
    if (!widen_slots(&c->frame_slots, &c->frame_mask))
        return false;
    for (uint32_t f = 1; f < c->n_frames; f++)
        if (c->frames[f].state != RULES_NONE)
            configs_link_frame(c, f);
    return true;
}

/* The equal frame, or a new one; `canonical` of a new one is not set. */
static uint32_t intern_frame(configs *c, uint32_t state, uint32_t count, uint32_t parent)
{
    if (!frame_table_ready(c))
        return configs_no_memory(c);
    const uint64_t hash = frame_hash(state, count, parent);
    for (uint32_t f = c->frame_slots[(hash >> 32) & c->frame_mask]; f != 0; f = c->frames[f].next)
        if (c->frames[f].state == state && c->frames[f].count == count &&
            c->frames[f].parent == parent)
            return f;
    if (c->frames[parent].depth >= CONFIGS_DEPTH)
        return configs_fail(c, MOTE_E_FULL, "text nested too deeply: more than 4,000 stack frames");
    uint32_t f = c->free_frames;
    if (f != 0) {
        c->free_frames = c->frames[f].next;
    } else {
        if (c->n_frames >= CONFIGS_FRAMES ||
            !mem_grow(&c->frames, c->n_frames, &c->frames_room, sizeof *c->frames))
            return configs_no_memory(c);
        f = c->n_frames++;
    }
    c->frames[f] = (config_frame){.state = state,
                                  .count = count,
                                  .parent = parent,
                                  .canonical = RULES_NONE,
                                  .depth = (uint16_t)(c->frames[parent].depth + 1)};
    c->live_frames++;
    configs_link_frame(c, f);
    return f;
}

/* See configs_canonical. */
static uint32_t canonical_count(const configs *c, uint32_t state, uint32_t count)
{
    if (c->r->nodes[state].kind != RULES_LOOP)
        return count;
    const rules_loop_info *loop = &c->r->loops[c->r->nodes[state].counter];
    const uint32_t far = c->longest + 1;
    if (count <= loop->min)
        return loop->min - count > far ? loop->min - far : count;
    return loop->max - count > far ? loop->min + 1 : count;
}

/* The frame with these values, interned together with its canonical frame. CONFIG_FAILED: error. */
static uint32_t push_frame(configs *c, uint32_t state, uint32_t count, uint32_t parent)
{
    const uint32_t f = intern_frame(c, state, count, parent);
    if (f == CONFIG_FAILED || c->frames[f].canonical != RULES_NONE)
        return f;
    const uint32_t n = canonical_count(c, state, count), below = c->frames[parent].canonical;
    const uint32_t canonical = n == count && below == parent ? f : intern_frame(c, state, n, below);
    if (canonical == CONFIG_FAILED)
        return canonical;
    c->frames[canonical].canonical = canonical;
    c->frames[f].canonical = canonical;
    return f;
}

/* ---- epsilon closure ---- */

static void closure_begin(configs *c)
{
    c->round++;
    c->n_stack = c->n_found = c->n_seen = 0;
    c->complete = false;
}

/* Records a state and frame of the current closure. False: they were visited before. */
static bool first_visit(configs *c, uint32_t state, uint32_t frame)
{
    const uint64_t key = (uint64_t)state << 32 | frame;
    uint32_t at = (uint32_t)(hash_mix(state, frame) >> 32) & (SEEN - 1);
    for (; c->seen_in[at] == c->round; at = (at + 1) & (SEEN - 1))
        if (c->seen[at] == key)
            return false;
    c->seen_in[at] = c->round;
    c->seen[at] = key;
    c->n_seen++;
    return true;
}

/* Pushes a state on the stack of the closure, unless it was visited. */
static bool closure_visit(configs *c, uint32_t state, uint32_t frame)
{
    if (frame == CONFIG_FAILED)
        return false;
    if (!first_visit(c, state, frame))
        return true;
    if (c->n_seen > SEEN / 2) {
        configs_fail(c, MOTE_E_ARG, "grammar too ambiguous: too many alternatives at one position");
        return false;
    }
    if (!mem_grow(&c->stack, c->n_stack, &c->stack_room, sizeof *c->stack)) {
        configs_no_memory(c);
        return false;
    }
    c->stack[c->n_stack++] = (config_item){state, frame};
    return true;
}

/* At a loop, after `count` runs. */
static bool closure_loop(configs *c, uint32_t state, uint32_t count, uint32_t frame)
{
    const rules_loop_info *loop = &c->r->loops[c->r->nodes[state].counter];
    if (count >= loop->min && !closure_visit(c, loop->exit, frame))
        return false;
    if (count >= loop->max)
        return true;
    /* Without a maximum the count stops at min + 1. */
    uint32_t after = count + 1;
    if (loop->max == RULES_NO_LIMIT && after > loop->min)
        after = loop->min + 1;
    return closure_visit(c, c->r->rules[loop->rule].start, push_frame(c, state, after, frame));
}

/* At a set, after the members in the bit mask `done`. */
static bool closure_set(configs *c, uint32_t state, uint32_t done, uint32_t frame)
{
    const rules_set_info *set = &c->r->sets[c->r->nodes[state].counter];
    const uint32_t n_done = (uint32_t)__builtin_popcount(done);
    const uint32_t missing = set->required & ~done;
    if (missing == 0 && n_done >= set->min && !closure_visit(c, set->exit, frame))
        return false;
    if (n_done >= set->max)
        return true;
    /* If only the missing required members fit within `max`, no other member may come. */
    const bool only_required = set->max - n_done <= (uint32_t)__builtin_popcount(missing);
    for (uint32_t i = 0; i < set->n; i++) {
        const uint32_t bit = UINT32_C(1) << i;
        if ((done & bit) != 0 || set->member[i] == RULES_NONE ||
            (only_required && (missing & bit) == 0))
            continue;
        if (!closure_visit(c, c->r->rules[set->member[i]].start,
                           push_frame(c, state, done | bit, frame)))
            return false;
    }
    return true;
}

/* End of a rule: continues in the caller. */
static bool closure_end(configs *c, uint32_t frame)
{
    if (frame == 0) {
        c->complete = true;
        return true;
    }
    const config_frame f = c->frames[frame];
    switch (c->r->nodes[f.state].kind) {
    case RULES_LOOP: return closure_loop(c, f.state, f.count, f.parent);
    case RULES_SET: return closure_set(c, f.state, f.count, f.parent);
    default: return closure_visit(c, f.state, f.parent);
    }
}

static bool closure_edges(configs *c, const rules_node *node, uint32_t frame)
{
    const rules_edge *edges = c->r->edges + node->first;
    for (uint32_t i = 0; i < node->n; i++) {
        const rules_edge *e = &edges[i];
        if (e->kind == RULES_SKIP && !closure_visit(c, e->to, frame))
            return false;
        if (e->kind != RULES_CALL)
            continue;
        /* Tail call: a call that is the last edge of a rule needs no frame. */
        const bool last = c->r->nodes[e->to].kind == RULES_END;
        if (!closure_visit(c, c->r->rules[e->rule].start,
                           last ? frame : push_frame(c, e->to, 0, frame)))
            return false;
    }
    return true;
}

static bool closure_add_item(configs *c, config_item item)
{
    if (c->n_found >= CONFIGS_ITEMS) {
        configs_fail(c, MOTE_E_ARG, "grammar too ambiguous: too many alternatives at one position");
        return false;
    }
    if (!mem_grow(&c->found, c->n_found, &c->found_room, sizeof *c->found)) {
        configs_no_memory(c);
        return false;
    }
    c->found[c->n_found++] = item;
    return true;
}

/* Follows everything on the stack that reads no byte. False: error. */
static bool closure_run(configs *c)
{
    while (c->n_stack > 0) {
        const config_item at = c->stack[--c->n_stack];
        const rules_node *node = &c->r->nodes[at.state];
        bool ok = true;
        switch (node->kind) {
        case RULES_END: ok = closure_end(c, at.frame); break;
        case RULES_LOOP: ok = closure_loop(c, at.state, 0, at.frame); break;
        case RULES_SET: ok = closure_set(c, at.state, 0, at.frame); break;
        case RULES_ENTER:
            ok = closure_visit(c, node->begin, push_frame(c, node->counter, 1, at.frame));
            break;
        default:
            ok = closure_edges(c, node, at.frame) && (!node->reads || closure_add_item(c, at));
            break;
        }
        if (!ok)
            return false;
    }
    return true;
}

/* ---- configurations ---- */

static int compare_items(const void *a, const void *b)
{
    const config_item *x = a, *y = b;
    if (x->state != y->state)
        return x->state < y->state ? -1 : 1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

static uint64_t config_hash(const config_item *items, uint32_t n, bool complete)
{
    uint64_t h = complete;
    for (uint32_t i = 0; i < n; i++)
        h = hash_mix(h, (uint64_t)items[i].state << 32 | items[i].frame);
    return h;
}

static void configs_link(configs *c, uint32_t id)
{
    config *x = &c->all[id];
    uint32_t *slot = &c->config_slots[(config_hash(c->items + x->first, x->n, x->complete) >> 32) &
                                      c->config_mask];
    x->next = *slot;
    *slot = id;
}

/* Before an insertion: grows the hash table if it has more entries than slots. */
static bool config_table_ready(configs *c)
{
    if (c->config_slots != NULL && c->live_configs <= c->config_mask)
        return true;
    if (!widen_slots(&c->config_slots, &c->config_mask))
        return false;
    for (uint32_t id = 1; id < c->n_all; id++)
        if (c->all[id].used)
            configs_link(c, id);
    return true;
}

static void find_next_bytes(const configs *c, config *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const rules_node *node = &c->r->nodes[c->items[x->first + i].state];
        for (uint32_t e = node->first; e < node->first + node->n; e++)
            if (c->r->edges[e].kind == RULES_READ)
                for (unsigned b = c->r->edges[e].lo; b <= c->r->edges[e].hi; b++)
                    x->bytes[b / 64] |= UINT64_C(1) << b % 64;
    }
}

/* A new configuration of the items in c->found. */
static uint32_t new_config(configs *c)
{
    uint32_t id = c->free_configs;
    if (!mem_grow(&c->items, c->n_items + c->n_found, &c->items_room, sizeof *c->items))
        return configs_no_memory(c);
    if (id != 0) {
        c->free_configs = c->all[id].next;
    } else {
        if (c->n_all >= CONFIGS_HARD)
            return configs_fail(
                c, MOTE_E_FULL,
                "grammar too complex for this text: more than 524,288 configurations");
        if (!mem_grow(&c->all, c->n_all, &c->all_room, sizeof *c->all))
            return configs_no_memory(c);
        id = c->n_all++;
    }
    c->all[id] = (config){.first = c->n_items,
                          .n = c->n_found,
                          .canonical = CONFIG_FAILED,
                          .complete = c->complete,
                          .used = true};
    if (c->n_found > 0)
        memcpy(c->items + c->n_items, c->found, c->n_found * sizeof *c->found);
    c->n_items += c->n_found;
    c->live_configs++;
    find_next_bytes(c, &c->all[id]);
    configs_link(c, id);
    return id;
}

/* The configuration of the items that the closure found. */
static uint32_t intern_found(configs *c)
{
    if (c->n_found == 0 && !c->complete)
        return CONFIG_DEAD;
    if (!config_table_ready(c))
        return configs_no_memory(c);
    if (c->n_found > 1)
        qsort(c->found, c->n_found, sizeof *c->found, compare_items);
    const uint64_t hash = config_hash(c->found, c->n_found, c->complete);
    for (uint32_t id = c->config_slots[(hash >> 32) & c->config_mask]; id != 0;
         id = c->all[id].next) {
        const config *x = &c->all[id];
        if (x->n == c->n_found && x->complete == c->complete &&
            (x->n == 0 || memcmp(c->items + x->first, c->found, x->n * sizeof *c->found) == 0))
            return id;
    }
    return new_config(c);
}

/* The configuration after one byte, without the memo. A read edge with a rule continues inside that
 * rule, which reads the continuation bytes of a character. */
static uint32_t compute_step(configs *c, uint32_t from, uint8_t byte)
{
    closure_begin(c);
    for (uint32_t i = 0; i < c->all[from].n; i++) {
        const config_item item = c->items[c->all[from].first + i];
        const rules_node *node = &c->r->nodes[item.state];
        for (uint32_t e = node->first; e < node->first + node->n; e++) {
            const rules_edge *edge = &c->r->edges[e];
            if (edge->kind != RULES_READ || edge->lo > byte || edge->hi < byte)
                continue;
            if (edge->rule == RULES_NONE) {
                if (!closure_visit(c, edge->to, item.frame))
                    return CONFIG_FAILED;
                continue;
            }
            const uint32_t into =
                edge->rule == RULES_ANY_TAIL ? rules_tail_of(c->r, byte) : edge->rule;
            if (!closure_visit(c, into, push_frame(c, edge->to, 0, item.frame)))
                return CONFIG_FAILED;
        }
    }
    return closure_run(c) ? intern_found(c) : CONFIG_FAILED;
}

uint32_t configs_step(configs *c, uint32_t from, uint8_t byte)
{
    if (!config_allows(&c->all[from], byte))
        return CONFIG_DEAD;
    const uint32_t key = from << 8 | c->r->class_of[byte];
    config_memo *memo = &c->memo[(key * UINT32_C(0x9E3779B1)) >> 17];
    if (memo->key == key)
        return memo->to;
    const uint32_t to = compute_step(c, from, byte);
    if (to != CONFIG_FAILED)
        *memo = (config_memo){key, to};
    return to;
}

uint32_t configs_of(configs *c, const config_item *items, uint32_t n)
{
    closure_begin(c);
    for (uint32_t i = 0; i < n; i++)
        if (first_visit(c, items[i].state, items[i].frame) && !closure_add_item(c, items[i]))
            return CONFIG_FAILED;
    return intern_found(c);
}

uint32_t configs_at(configs *c, uint32_t state, uint32_t frame)
{
    closure_begin(c);
    return closure_visit(c, state, frame) && closure_run(c) ? intern_found(c) : CONFIG_FAILED;
}

uint32_t configs_canonical(configs *c, uint32_t from)
{
    if (c->all[from].canonical != CONFIG_FAILED)
        return c->all[from].canonical;
    closure_begin(c);
    c->complete = c->all[from].complete;
    for (uint32_t i = 0; i < c->all[from].n; i++) {
        config_item item = c->items[c->all[from].first + i];
        item.frame = c->frames[item.frame].canonical;
        if (first_visit(c, item.state, item.frame) && !closure_add_item(c, item))
            return CONFIG_FAILED;
    }
    const uint32_t canonical = intern_found(c);
    if (canonical != CONFIG_FAILED) {
        c->all[canonical].canonical = canonical;
        c->all[from].canonical = canonical;
    }
    return canonical;
}

/* ---- creation ---- */

static uint32_t configs_start(configs *c)
{
    /* Frame 0 is the bottom of the stack, configuration 0 is CONFIG_DEAD. Neither is in a hash
     * table. */
    if (!mem_grow(&c->frames, 0, &c->frames_room, sizeof *c->frames) ||
        !mem_grow(&c->all, 0, &c->all_room, sizeof *c->all))
        return configs_no_memory(c);
    c->frames[0] = (config_frame){.state = RULES_NONE};
    c->all[CONFIG_DEAD] = (config){0};
    c->n_frames = c->n_all = 1;
    closure_begin(c);
    if (!closure_visit(c, c->r->rules[c->r->start].start, 0) || !closure_run(c))
        return CONFIG_FAILED;
    return intern_found(c);
}

mote_status configs_init(configs *c, const rules *r, uint32_t longest_token, mote_error *err)
{
    *c = (configs){.r = r, .longest = longest_token, .collect_at = CONFIGS_SOFT};
    c->memo = mem_new(CONFIGS_MEMO, sizeof *c->memo);
    c->seen = mem_new(SEEN, sizeof *c->seen);
    c->seen_in = mem_new(SEEN, sizeof *c->seen_in);
    if (c->memo == NULL || c->seen == NULL || c->seen_in == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: grammar");
    if (configs_start(c) == CONFIG_FAILED)
        return configs_error(c, err);
    return MOTE_OK;
}

void configs_fini(configs *c)
{
    mem_free(c->frames);
    mem_free(c->all);
    mem_free(c->items);
    mem_free(c->frame_slots);
    mem_free(c->config_slots);
    mem_free(c->memo);
    mem_free(c->stack);
    mem_free(c->found);
    mem_free(c->seen);
    mem_free(c->seen_in);
    *c = (configs){0};
}

/* ---- mark and sweep ---- */

/* Marks a frame, its parents and their canonical frames. */
static void keep_frame(configs *c, uint32_t f)
{
    while (f != 0 && !c->frames[f].marked) {
        c->frames[f].marked = true;
        /* A canonical frame's parents are canonical, so this chain needs no chain of its own. */
        for (uint32_t p = c->frames[f].canonical; p != RULES_NONE && p != 0 && !c->frames[p].marked;
             p = c->frames[p].parent)
            c->frames[p].marked = true;
        f = c->frames[f].parent;
    }
}

void configs_keep(configs *c, uint32_t id)
{
    config *x = &c->all[id];
    if (id == CONFIG_DEAD || x->marked)
        return;
    x->marked = true;
    for (uint32_t i = 0; i < x->n; i++)
        keep_frame(c, c->items[x->first + i].frame);
    if (x->canonical != CONFIG_FAILED && x->canonical != id)
        configs_keep(c, x->canonical);
}

static void sweep_frames(configs *c)
{
    memset(c->frame_slots, 0, ((size_t)c->frame_mask + 1) * sizeof *c->frame_slots);
    c->free_frames = c->live_frames = 0;
    for (uint32_t f = c->n_frames; f-- > 1;) {
        if (c->frames[f].marked) {
            c->live_frames++;
            continue;
        }
        c->frames[f] = (config_frame){.state = RULES_NONE, .next = c->free_frames};
        c->free_frames = f;
    }
}

static void sweep_configs(configs *c)
{
    memset(c->config_slots, 0, ((size_t)c->config_mask + 1) * sizeof *c->config_slots);
    c->free_configs = c->live_configs = 0;
    for (uint32_t id = c->n_all; id-- > 1;) {
        if (c->all[id].marked) {
            c->live_configs++;
            continue;
        }
        c->all[id] = (config){.next = c->free_configs};
        c->free_configs = id;
    }
}

/* Compacts the items of the remaining configurations. If out of memory, they stay as they are. */
static void pack_items(configs *c)
{
    size_t n = 0;
    for (uint32_t id = 1; id < c->n_all; id++)
        n += c->all[id].n;
    config_item *packed = mem_new(n, sizeof *packed);
    if (packed == NULL)
        return;
    uint32_t at = 0;
    for (uint32_t id = 1; id < c->n_all; id++) {
        config *x = &c->all[id];
        if (x->n > 0)
            memcpy(packed + at, c->items + x->first, x->n * sizeof *packed);
        x->first = at;
        at += x->n;
    }
    mem_free(c->items);
    c->items = packed;
    c->n_items = c->items_room = at;
}

void configs_sweep(configs *c)
{
    configs_keep(c, CONFIG_START);
    sweep_frames(c);
    sweep_configs(c);
    pack_items(c);
    for (uint32_t f = 1; f < c->n_frames; f++)
        if (c->frames[f].marked) {
            c->frames[f].marked = false;
            configs_link_frame(c, f);
        }
    for (uint32_t id = 1; id < c->n_all; id++)
        if (c->all[id].marked) {
            c->all[id].marked = false;
            configs_link(c, id);
        }
    memset(c->memo, 0, CONFIGS_MEMO * sizeof *c->memo);
    const uint32_t doubled = c->live_configs * 2;
    c->collect_at = doubled > CONFIGS_SOFT ? doubled : CONFIGS_SOFT;
}
