/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_cache.h - KV pages and recurrent states in a directory, shared by processes of one user.
 *
 * One file per record (disk_record.h); the names of the files are the index. So a record is
 * complete or absent after a crash, nothing is ever rewritten or compacted, and removing a file
 * frees its space at once. docs/prefix-cache.md describes the whole tier, docs/decisions/0026 why
 * it is not a database.
 *
 * The file `lock` is locked (flock) while a process reserves space or removes records. It holds the
 * generation of the directory and the wear counters. A process reads the directory again if the
 * generation changed. Space is reserved by the size of a temporary file, so the sum over all
 * processes never exceeds the cap. A temporary file has a lock as long as its writer runs; without
 * one it is removed.
 *
 * All functions are thread-safe. disk_cache_has and disk_cache_use never wait for a file.
 */
#ifndef MOTE_DISK_CACHE_DISK_CACHE_H
#define MOTE_DISK_CACHE_DISK_CACHE_H

#include "disk_cache/disk_record.h"

typedef struct disk_cache disk_cache;

/* Opens the directory, creates it with mode 0700 if it does not exist, and reads the heads of its
 * records. `cap` in bytes for everything in it; records above it are evicted. read_only: for lists;
 * put and remove fail. With a cipher, which must outlive the cache, records are encrypted. Those of
 * another key, and those that are not encrypted, count for the cap but are never found; without a
 * cipher encrypted ones are not. */
mote_status disk_cache_open(disk_cache **out, const char *directory, uint64_t cap, bool read_only,
                            const disk_cipher *cipher, mote_error *err);
/* NULL is allowed. */
void disk_cache_close(disk_cache *c);
/* Has another process changed the directory? Reads 64 bytes. */
bool disk_cache_is_stale(const disk_cache *c);
/* Reads the directory again if another process changed it. */
mote_status disk_cache_refresh(disk_cache *c, mote_error *err);

uint64_t disk_cache_cap(const disk_cache *c);

/* What the index knows about a record. */
typedef struct disk_item {
    disk_key key, binding;
    disk_kind kind;
    uint64_t ns, position, bytes, created, used, hits;
    bool is_sealed, is_foreign; /* as in disk_record */
    char label[DISK_LABEL];
} disk_item;

/* ---- records ---- */

bool disk_cache_has(disk_cache *c, disk_key key);
/* Is it the parent of another record? */
bool disk_cache_has_children(disk_cache *c, disk_key key);
/* Writes at most `room` keys of the pages and half pages after the page `parent`, or of the first
 * ones if it is zero, of this binding and namespace; those used last first. Returns how many. */
size_t disk_cache_next_pages(disk_cache *c, disk_key parent, disk_key binding, uint64_t ns,
                             disk_item *out, size_t room);
/* Reads the head of a record. */
mote_status disk_cache_read_head(disk_cache *c, disk_key key, disk_kind kind, disk_head *out,
                                 mote_error *err);
/* The record was used, by one more job if `hit`: it is worth more. Writes nothing. */
void disk_cache_use(disk_cache *c, disk_key key, bool hit);

/* A chain is written: pages, then a state. From here on records that disk_cache_keep names, or that
 * are put, are not evicted for others of the chain. Returns the number of the chain. */
uint64_t disk_cache_begin_chain(disk_cache *c);
/* Returns false if there is no such record. */
bool disk_cache_keep(disk_cache *c, disk_key key, uint64_t chain);

/* Makes the names of the new records durable. Without it they may be lost in a power failure. */
void disk_cache_end_chain(disk_cache *c);

/* Writes a record, unless it exists. head: all but the checks, magic, format and time. Evicts
 * others to stay below the cap. MOTE_E_FULL: it does not fit even so. MOTE_E_IO: the disk is full,
 * the directory cannot be written. MOTE_E_CANCELED: the source gave up. */
mote_status disk_cache_put(disk_cache *c, disk_head *head, uint64_t chain, disk_source_fn *source,
                           void *with, mote_error *err);

/* Reads the record that `wanted` describes to `to`. MOTE_E_FORMAT: it was damaged, and is removed.
 * MOTE_E_MISMATCH: it is another one, or of another key. MOTE_E_IO: it is gone. */
mote_status disk_cache_get(disk_cache *c, const disk_head *wanted, void *to,
                           const atomic_bool *cancel, mote_error *err);

/* ---- for lists ---- */

/* Writes at most `room` records; returns their total number. */
size_t disk_cache_list(disk_cache *c, disk_item *out, size_t room);
/* Removes a record, or all. */
mote_status disk_cache_remove(disk_cache *c, disk_key key, mote_error *err);
mote_status disk_cache_remove_all(disk_cache *c, mote_error *err);
/* Reads a whole record and compares its checksums. A damaged one is removed, unless read_only.
 * MOTE_E_MISMATCH: it is encrypted with another key. */
mote_status disk_cache_verify(disk_cache *c, disk_key key, mote_error *err);

typedef struct disk_stats {
    uint64_t cap, bytes;    /* now */
    uint64_t pages, states; /* records */
    uint64_t sealed;        /* records that are encrypted */
    uint64_t foreign;       /* of them, those of another key */
    uint64_t plain;         /* records that are not encrypted */
    uint64_t written,
        write_bytes;  /* records and bytes, of all processes since the directory exists */
    uint64_t evicted; /* records, likewise */
    uint64_t since;   /* seconds since 1970: the directory was created */
    /* of this process */
    uint64_t read, read_bytes, damaged, own_written, own_write_bytes;
} disk_stats;

void disk_cache_read_stats(disk_cache *c, disk_stats *out);

/* The directory of this user: cache/prefix if `cache` (MOTE_CACHE) is set, else
 * cache_home/mote/prefix, else home/.cache/mote/prefix. False: none is set, or it is too long. */
bool disk_cache_directory(char *out, size_t room, const char *cache, const char *cache_home,
                          const char *home);

#endif
