/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_directory.h - the files of a cache directory: the lock with its counters, the scan,
 * temporary files. Private to disk_cache/. Callers keep the index consistent (disk_cache.c).
 */
#ifndef MOTE_DISK_CACHE_DISK_DIRECTORY_H
#define MOTE_DISK_CACHE_DISK_DIRECTORY_H

#include "disk_cache/disk_index.h"

/* Contents of the file `lock`. */
typedef struct disk_counters {
    char magic[8];
    uint64_t generation; /* changes with every change of the directory */
    uint64_t written, write_bytes, evicted;
    uint64_t since; /* seconds since 1970 */
    uint64_t unused[2];
} disk_counters;
_Static_assert(sizeof(disk_counters) == 64, "written as it is in memory");

enum { DISK_TEMPORARY_BYTES = 48 };

typedef struct disk_directory {
    int fd;   /* of the directory */
    int lock; /* -1: read only */
    disk_counters counters;
    char own[DISK_TEMPORARY_BYTES]; /* temporary file of this object; "": none */
    uint64_t temporary_bytes;       /* of other writers, at the last scan */
} disk_directory;

mote_status disk_directory_open(disk_directory *d, const char *path, bool read_only,
                                mote_error *err);
void disk_directory_close(disk_directory *d);

/* Waits for the lock and reads the counters. Does nothing if it is read only. */
mote_status disk_directory_lock(disk_directory *d, mote_error *err);
/* Before a change: writes a new generation, so that others see the change even if this process is
 * killed. False: the disk is full or cannot be written. */
bool disk_directory_begin_change(disk_directory *d);
/* Writes the counters if `changed`; unlocks. */
void disk_directory_unlock(disk_directory *d, bool changed);
/* Reads the counters without the lock. */
void disk_directory_peek(const disk_directory *d, disk_counters *out);

/* The name of the file of a record, which depends on the cipher. False: the cipher failed. */
bool disk_file_name(char out[DISK_NAME_BYTES], const disk_cipher *cipher, disk_key key,
                    disk_kind kind);

/* Calls `found` for each record; a record that `known` accepts is not opened. Files with an invalid
 * head are removed, and temporary files without a writer. Under the lock, or read only. A foreign
 * record has the key that its name stands for, and no parent. */
typedef struct disk_scan {
    const disk_cipher *cipher; /* NULL: none */
    bool (*known)(void *with, disk_key key, uint64_t bytes);
    void (*found)(void *with, const disk_entry *e);
    void *with;
} disk_scan;
mote_status disk_directory_scan(disk_directory *d, const disk_scan *scan, mote_error *err);

/* A locked temporary file of this size, with the name d->own. -1: errno says why. */
int disk_directory_new_file(disk_directory *d, uint64_t bytes);
/* Gives it the name `to`, or removes it if `to` is NULL. False: errno says why, it is removed. */
bool disk_directory_end_file(disk_directory *d, const char *to);

uint64_t disk_time(void);

#endif
