/* SPDX-License-Identifier: Apache-2.0 */
/* strmap.c - implements strmap.h. */
#include "base/strmap.h"

#include "base/mem.h"

enum { MAX_PROBES = 4096 };

static uint64_t strmap_mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t strmap_hash(str key)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ key.n;
    size_t i = 0;
    for (; i + 8 <= key.n; i += 8) {
        uint64_t word;
        memcpy(&word, key.p + i, 8);
        h = strmap_mix(h ^ word, 0xA0761D6478BD642Fu);
    }
    uint64_t last = 0;
    if (i < key.n)
        memcpy(&last, key.p + i, key.n - i);
    return strmap_mix(h ^ last, 0xE7037ED1A0B428DBu);
}

mote_status strmap_init(strmap *map, size_t n_keys, mote_error *err)
{
    size_t n = 16;
    while (n / 2 < n_keys && n < SIZE_MAX / 2 / sizeof *map->slots)
        n *= 2;
    map->slots = mem_new(n, sizeof *map->slots);
    map->mask = n - 1;
    if (map->slots == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: hash map with %zu names", n_keys);
    return MOTE_OK;
}

void strmap_fini(strmap *map)
{
    mem_free(map->slots);
    *map = (strmap){0};
}

/* The slot of the key, or the free slot for it; NULL after MAX_PROBES. */
static strmap_slot *strmap_find(const strmap *map, str key)
{
    size_t at = (size_t)strmap_hash(key) & map->mask;
    for (int probe = 0; probe < MAX_PROBES; probe++, at = (at + 1) & map->mask) {
        strmap_slot *slot = &map->slots[at];
        if (slot->p == NULL || str_eq((str){slot->p, slot->n}, key))
            return slot;
    }
    return NULL;
}

mote_status strmap_put(strmap *map, str key, uint32_t value, bool *existing, mote_error *err)
{
    strmap_slot *slot = key.n <= UINT32_MAX ? strmap_find(map, key) : NULL;
    if (slot == NULL)
        return err_set(err, MOTE_E_FORMAT, "too many hash collisions in a table of names");
    bool there = slot->p != NULL;
    if (existing != NULL)
        *existing = there;
    if (!there)
        *slot = (strmap_slot){key.n > 0 ? key.p : "", (uint32_t)key.n, value};
    return MOTE_OK;
}

bool strmap_get(const strmap *map, str key, uint32_t *value)
{
    if (map->slots == NULL)
        return false;
    const strmap_slot *slot = strmap_find(map, key);
    if (slot == NULL || slot->p == NULL)
        return false;
    *value = slot->value;
    return true;
}
