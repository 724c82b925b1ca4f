/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merges.h - which two tokens become one, and how early.
 *
 * The inner loop of encoding asks for the rank of a pair. A pair, its rank and a
 * mark that the slot is taken fit into 64 bits, so an answer costs one cache line.
 * Open addressing, at most half full; no entry lies further than MERGES_PROBES
 * from its home, so a file that is made to collide is refused and an
 * unsuccessful search ends.
 *
 * Most answers are "none". The filter has a bit for each hash of three bits more
 * than the table knows, set if some merge has it: an eighth of the size, and 15
 * of 16 pairs that do not merge end there.
 */
#ifndef MOTE_TOK_MERGES_H
#define MOTE_TOK_MERGES_H

#include "base/err.h"

enum {
    MERGES_BITS = 21, /* of an id and of a rank: 63 bits for the three */
    MERGES_LIMIT = 1 << MERGES_BITS,
    MERGES_PROBES = 512,
    MERGES_FILTER_BITS = 8 /* for each slot */
};

#define MERGES_NONE UINT32_MAX

typedef struct tok_merges {
    uint64_t *slots;  /* taken << 63 | left << 42 | right << 21 | rank */
    size_t n_slots;   /* a power of two */
    unsigned shift;   /* of a hash, for a number of a slot */
    uint64_t *filter; /* [n_slots * MERGES_FILTER_BITS / 64] */
    uint32_t *result; /* [n], by rank */
    uint32_t n;
} tok_merges;

static inline uint64_t merges_key(uint32_t left, uint32_t right)
{
    return (uint64_t)1 << 42 | (uint64_t)left << 21 | right;
}

static inline uint64_t merges_hash(uint64_t key)
{
    return key * 0x9E3779B97F4A7C15u;
}

/* The bit of a hash in the filter. */
static inline size_t merges_bit(const tok_merges *m, uint64_t hash)
{
    return (size_t)(hash >> (m->shift - 3));
}

/* The rank of merging left and right, or MERGES_NONE. */
static inline uint32_t merges_rank(const tok_merges *m, uint32_t left, uint32_t right)
{
    uint64_t key = merges_key(left, right), hash = merges_hash(key);
    size_t bit = merges_bit(m, hash);
    if ((m->filter[bit / 64] >> bit % 64 & 1) == 0)
        return MERGES_NONE;
    size_t at = (size_t)(hash >> m->shift);
    for (int probe = 0; probe < MERGES_PROBES; probe++) {
        uint64_t slot = m->slots[at];
        if (slot >> MERGES_BITS == key)
            return (uint32_t)slot & (MERGES_LIMIT - 1);
        if (slot == 0)
            return MERGES_NONE;
        at = (at + 1) & (m->n_slots - 1);
    }
    return MERGES_NONE;
}

#endif
