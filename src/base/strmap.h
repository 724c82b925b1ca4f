/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strmap.h - hash map from strings to 32-bit numbers; filled once, then read-only.
 *
 * Open addressing with linear probing, at most half full. Keys are views and must outlive the map.
 * A file with crafted collisions exceeds the probe limit and is rejected.
 */
#ifndef MOTE_BASE_STRMAP_H
#define MOTE_BASE_STRMAP_H

#include "base/err.h"
#include "base/str.h"

typedef struct strmap_slot {
    const char *p; /* NULL: free */
    uint32_t n;
    uint32_t value;
} strmap_slot;

typedef struct strmap {
    strmap_slot *slots;
    size_t mask; /* number of slots - 1, a power of two minus one */
} strmap;

mote_status strmap_init(strmap *map, size_t n_keys, mote_error *err);
void strmap_fini(strmap *map);

/* Keeps the first value of a key. *existing (may be NULL): the key was already present. */
mote_status strmap_put(strmap *map, str key, uint32_t value, bool *existing, mote_error *err);
bool strmap_get(const strmap *map, str key, uint32_t *value);

#endif
