/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_index.h - the records of a cache directory in memory, and which of them is worth least.
 *
 * Not thread-safe: disk_cache.c holds its mutex. Nothing here uses files.
 */
#ifndef MOTE_DISK_CACHE_DISK_INDEX_H
#define MOTE_DISK_CACHE_DISK_INDEX_H

#include "disk_cache/disk_record.h"

typedef struct disk_entry {
    disk_key key, parent, binding;
    disk_kind kind;
    uint64_t ns, position;
    uint64_t bytes;         /* in whole blocks of the file system */
    uint64_t created, used; /* seconds since 1970 */
    uint64_t hits;          /* of this process */
    uint64_t chain;         /* disk_cache_begin_chain that named it last: not evicted meanwhile */
    uint32_t dependents;    /* scratch of disk_index_least */
    bool state_here;        /* likewise */
    bool seen;              /* scratch of a scan of the directory */
    bool is_sealed;         /* encrypted */
    bool is_foreign;        /* of another key (disk_record): counted and evicted, never used */
    char label[DISK_LABEL];
} disk_entry;

typedef struct disk_index {
    disk_entry *entries; /* [n] */
    uint32_t n, room;
    uint32_t *slots; /* [n_slots]: index of an entry plus 1, by key; 0: empty */
    uint32_t n_slots;
    uint64_t bytes; /* of all entries */
} disk_index;

void disk_index_fini(disk_index *x);
/* NULL: no such record. Valid until the next add or remove. */
disk_entry *disk_index_find(const disk_index *x, disk_key key);
/* Adds an entry with a new key. False: out of memory. */
bool disk_index_add(disk_index *x, const disk_entry *e);
void disk_index_remove(disk_index *x, disk_key key);

/*
 * The record to evict next: without dependents, not of `chain`, of the least value. The value of a
 * state is the number of tokens that it saves over the state before it, times its expected use,
 * divided by the bytes that its eviction frees. The expected use grows with the hits and falls with
 * the time since the last one. A page that no state needs has no value, and neither has a foreign
 * record, because its chain is unknown. For DISK_FRESH_SECONDS after it was written, such a record
 * is evicted last: another process may be about to write the state of the page. NULL: no record may
 * be evicted.
 */
enum { DISK_FRESH_SECONDS = 60 };
disk_entry *disk_index_least(disk_index *x, uint64_t chain, uint64_t now);

#endif
