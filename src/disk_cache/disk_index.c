/* SPDX-License-Identifier: Apache-2.0 */
/* disk_index.c - see disk_index.h. A hash table with linear probing over an array. */
#include "disk_cache/disk_index.h"

#include "base/mem.h"

#include <math.h>

void disk_index_fini(disk_index *x)
{
    mem_free(x->entries);
    mem_free(x->slots);
    *x = (disk_index){0};
}

/* The slot of the key, or the empty one where it would be. */
static uint32_t index_slot(const disk_index *x, disk_key key)
{
    uint32_t at = (uint32_t)key.word[1] & (x->n_slots - 1);
    while (x->slots[at] != 0 && !disk_key_equal(x->entries[x->slots[at] - 1].key, key))
        at = (at + 1) & (x->n_slots - 1);
    return at;
}

disk_entry *disk_index_find(const disk_index *x, disk_key key)
{
    if (x->n_slots == 0)
        return NULL;
    const uint32_t found = x->slots[index_slot(x, key)];
    return found != 0 ? &x->entries[found - 1] : NULL;
}

/* Doubles the table. */
static bool index_grow_slots(disk_index *x)
{
    const uint32_t n = x->n_slots == 0 ? 256 : 2 * x->n_slots;
    uint32_t *slots = mem_new(n, sizeof *slots);
    if (slots == NULL)
        return false;
    mem_free(x->slots);
    x->slots = slots;
    x->n_slots = n;
    for (uint32_t i = 0; i < x->n; i++)
        x->slots[index_slot(x, x->entries[i].key)] = i + 1;
    return true;
}

bool disk_index_add(disk_index *x, const disk_entry *e)
{
    if (2 * x->n >= x->n_slots && !index_grow_slots(x))
        return false;
    if (!mem_grow(&x->entries, x->n, &x->room, sizeof *x->entries))
        return false;
    x->entries[x->n++] = *e;
    x->slots[index_slot(x, e->key)] = x->n;
    x->bytes += e->bytes;
    return true;
}

/* Empties the slot and moves later ones of its cluster up, so that each is still found. */
static void index_clear_slot(disk_index *x, uint32_t at)
{
    const uint32_t mask = x->n_slots - 1;
    x->slots[at] = 0;
    for (uint32_t i = (at + 1) & mask; x->slots[i] != 0; i = (i + 1) & mask) {
        const uint32_t entry = x->slots[i];
        x->slots[i] = 0;
        x->slots[index_slot(x, x->entries[entry - 1].key)] = entry;
    }
}

void disk_index_remove(disk_index *x, disk_key key)
{
    if (x->n_slots == 0)
        return;
    const uint32_t at = index_slot(x, key);
    if (x->slots[at] == 0)
        return;
    const uint32_t entry = x->slots[at] - 1;
    x->bytes -= x->entries[entry].bytes;
    index_clear_slot(x, at);
    if (entry != --x->n) { /* the last entry takes its place */
        const uint32_t slot = index_slot(x, x->entries[x->n].key);
        x->entries[entry] = x->entries[x->n];
        x->slots[slot] = entry + 1;
    }
}

/* ---- value ---- */

static void index_count_dependents(disk_index *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        x->entries[i].dependents = 0;
        x->entries[i].state_here = x->entries[i].kind == DISK_STATE;
    }
    for (uint32_t i = 0; i < x->n; i++) {
        disk_entry *parent = disk_index_find(x, x->entries[i].parent);
        if (parent == NULL)
            continue;
        parent->dependents++;
        if (x->entries[i].kind == DISK_STATE)
            parent->state_here = true;
    }
}

/* Tokens that the entry saves, times its expected use, per byte. */
static double entry_value(const disk_entry *e, uint64_t saved, uint64_t bytes, uint64_t now)
{
    const double hours = now > e->used ? (double)(now - e->used) / 3600 : 0;
    return (double)saved * (double)(1 + e->hits) / (1 + hours) / (double)bytes;
}

/* What evicting the state frees, and the tokens it saves over the state before it. */
static double state_value(const disk_index *x, const disk_entry *e, uint64_t now)
{
    uint64_t bytes = e->bytes, before = 0;
    bool alone = true;
    const disk_entry *page = disk_index_find(x, e->parent);
    for (uint32_t steps = 0; page != NULL && steps < x->n; steps++) {
        if (steps > 0 && page->state_here) {
            before = page->position;
            break;
        }
        alone = alone && page->dependents <= 1;
        bytes += alone ? page->bytes : 0;
        page = disk_index_find(x, page->parent);
    }
    return entry_value(e, e->position > before ? e->position - before : 0, bytes, now);
}

static double end_value(const disk_entry *e, uint64_t now)
{
    enum { USUAL_TOKENS = 16 }; /* of an end */
    return entry_value(e, USUAL_TOKENS, e->bytes, now);
}

static bool entry_is_fresh(const disk_entry *e, uint64_t now)
{
    return e->created <= now && now - e->created < DISK_FRESH_SECONDS;
}

disk_entry *disk_index_least(disk_index *x, uint64_t chain, uint64_t now)
{
    disk_entry *found = NULL;
    double least = 0;
    index_count_dependents(x);
    for (uint32_t i = 0; i < x->n; i++) {
        disk_entry *e = &x->entries[i];
        if (e->dependents > 0 || e->chain == chain)
            continue;
        const double value = e->kind == DISK_STATE && !e->is_foreign ? state_value(x, e, now)
                             : e->kind == DISK_END && !e->is_foreign ? end_value(e, now)
                             : entry_is_fresh(e, now)                ? (double)INFINITY
                                                                     : 0;
        if (found == NULL || value < least || (value <= least && e->used < found->used)) {
            found = e;
            least = value;
        }
    }
    return found;
}
