/* SPDX-License-Identifier: Apache-2.0 */
/* dfa_pairs.c - see pairs.h. */
#include "grammar/rules/dfa_pairs.h"

#include "grammar/rules/grow.h"

enum { FIRST_SLOTS = 64 };

void pairs_fini(pairs *p)
{
    mem_free(p->items);
    mem_free(p->slots);
    *p = (pairs){0};
}

static uint32_t *slot_of(const pairs *p, uint32_t a, uint32_t b)
{
    const uint64_t hash = ((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(hash >> 32) & p->mask;
    for (;; at = (at + 1) & p->mask) {
        const uint32_t taken = p->slots[at];
        if (taken == 0 || (p->items[taken - 1].a == a && p->items[taken - 1].b == b))
            return &p->slots[at];
    }
}

static bool widen(pairs *p)
{
    const uint32_t n_slots = p->slots == NULL ? FIRST_SLOTS : (p->mask + 1) * 2;
    uint32_t *slots = mem_new(n_slots, sizeof *slots);
    if (slots == NULL)
        return false;
    mem_free(p->slots);
    p->slots = slots;
    p->mask = n_slots - 1;
    for (uint32_t i = 0; i < p->n; i++)
        *slot_of(p, p->items[i].a, p->items[i].b) = i + 1;
    return true;
}

uint32_t pairs_number(pairs *p, uint32_t a, uint32_t b)
{
    if ((p->slots == NULL || p->n >= p->mask / 2) && !widen(p))
        return UINT32_MAX;
    uint32_t *slot = slot_of(p, a, b);
    if (*slot != 0)
        return *slot - 1;
    if (!grow_for(&p->items, p->n, &p->room, sizeof *p->items))
        return UINT32_MAX;
    p->items[p->n] = (pairs_item){a, b};
    *slot = ++p->n;
    return p->n - 1;
}
