/* SPDX-License-Identifier: Apache-2.0 */
/* os.h - files, clock and random bytes of the operating system. */
#ifndef MOTE_BASE_OS_H
#define MOTE_BASE_OS_H

#include "base/err.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "mote reads its files in place");

/* A file mapped read-only. Processes that map the same file share its memory. */
typedef struct os_map {
    const unsigned char *data;
    uint64_t bytes;
} os_map;

mote_status os_map_open(os_map *out, const char *path, mote_error *err);
void os_map_close(os_map *map);
/* Drops the pages from this process (MADV_DONTNEED). They are read again on the next access. */
void os_map_drop_pages(const os_map *map);

/* Monotonic clock, in seconds. */
double os_now(void);

/* Fills `out` with random bytes from the kernel (getrandom). false: the kernel returned an error.
 */
bool os_random(void *out, size_t bytes);

/*
 * Atomic replacement of a file: write to a temporary file in the same directory, fsync, rename,
 * fsync the directory.
 */
typedef struct os_file {
    int fd;
    char path[1024];
    char temporary[1040];
} os_file;

mote_status os_file_create(os_file *f, const char *path, mote_error *err);
mote_status os_file_write(os_file *f, const void *data, size_t bytes, mote_error *err);
/* Renames the file to its final name. After a failure no temporary file remains. */
mote_status os_file_commit(os_file *f, mote_error *err);
/* Removes the temporary file. Does nothing after commit. */
void os_file_abandon(os_file *f);

/* For tests: write, sync or rename number n from now fails with ENOSPC. 0 turns it off. */
void os_fail_at(uint64_t n);
bool os_failed(void);

#endif
