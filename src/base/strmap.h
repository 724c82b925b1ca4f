/* SPDX-License-Identifier: Apache-2.0 */
/*
 * strmap.h - byte strings to 32-bit numbers, built once and then only asked.
 *
 * Open addressing with linear probing at most half full. Keys are views and
 * must outlive the map. The hash mixes eight bytes at a time with 64-bit
 * multiplications; a file that is made to collide can slow its own opening
 * down, which the probe limit turns into an error.
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

/* The first value of a key wins: *existing, if not NULL, tells whether it was there. */
mote_status strmap_put(strmap *map, str key, uint32_t value, bool *existing, mote_error *err);
bool strmap_get(const strmap *map, str key, uint32_t *value);

#endif
