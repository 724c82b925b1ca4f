/* SPDX-License-Identifier: Apache-2.0 */
/* os.h - written files, clock and random bytes of the operating system; os_map.h: mapped files. */
#ifndef MOTE_BASE_OS_H
#define MOTE_BASE_OS_H

#include "base/err.h"
#include "base/os_map.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "mote reads its files in place");

/* Monotonic clock, in seconds. */
double os_now(void);

/* Fills `out` with random bytes from the kernel. false: the kernel returned an error. */
bool os_random(void *out, size_t bytes);

/* Writes all bytes, in as many calls as it takes; signals do not end it. false: errno says why. */
bool os_write_all(int fd, const void *data, size_t bytes);

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
/* All of it for a text that is in memory. */
mote_status os_file_replace(const char *path, const void *data, size_t bytes, mote_error *err);

/* For tests: write, sync or rename number n from now fails with ENOSPC. 0 turns it off. */
void os_fail_at(uint64_t n);
bool os_failed(void);

#endif
