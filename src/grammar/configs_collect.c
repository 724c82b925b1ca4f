/* SPDX-License-Identifier: Apache-2.0 */
/*
 * configs_collect.c - gives back configurations that nobody stands on.
 *
 * Numbers stay what they are: a freed one goes to a list and is given out again.
 * Items move together. The next collection comes when there are twice as many as
 * survived this one.
 */
#include "grammar/configs.h"

#include "base/mem.h"

#include <string.h>

static void keep_frame(configs *c, uint32_t f)
{
    while (f != 0 && !c->frames[f].marked) {
        c->frames[f].marked = true;
        /* Both lead to frames that were made before this one, so neither chain is long twice. */
        const uint32_t plain = c->frames[f].plain;
        for (uint32_t p = plain; p != RULES_NONE && p != 0 && !c->frames[p].marked;
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
    if (x->plain != CONFIG_FAILED && x->plain != id)
        configs_keep(c, x->plain);
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

/* The items of what is left, copied together. Without memory for it they stay where they are. */
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
