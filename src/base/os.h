/* SPDX-License-Identifier: Apache-2.0 */
/* os.h - files and the clock, as mote needs them. */
#ifndef MOTE_BASE_OS_H
#define MOTE_BASE_OS_H

#include "base/err.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "mote reads its files in place");

/* A whole file mapped for reading. Other processes may share the same memory. */
typedef struct os_map {
    const unsigned char *data;
    uint64_t bytes;
} os_map;

mote_status os_map_open(os_map *out, const char *path, mote_error *err);
void os_map_close(os_map *map);
/* Its pages leave the process; they come back when they are looked at. */
void os_map_drop_pages(const os_map *map);

/* Seconds on a clock that never jumps. */
double os_now(void);

/* Fills `out` with random bytes from the kernel (getrandom). false: the kernel returned an error.
 */
bool os_random(void *out, size_t bytes);

/*
 * A file that appears under its name only when it is complete: written beside
 * it, synced, renamed, and the directory synced.
 */
typedef struct os_file {
    int fd;
    char path[1024];
    char temporary[1040];
} os_file;

mote_status os_file_create(os_file *f, const char *path, mote_error *err);
mote_status os_file_write(os_file *f, const void *data, size_t bytes, mote_error *err);
/* Makes the file appear. After a failure nothing is left behind. */
mote_status os_file_commit(os_file *f, mote_error *err);
/* Forgets it. Allowed after commit, where it does nothing. */
void os_file_abandon(os_file *f);

/* For tests: write, sync or rename number n from now on fails with ENOSPC. 0 turns it off. */
void os_fail_at(uint64_t n);
bool os_failed(void);

#endif
