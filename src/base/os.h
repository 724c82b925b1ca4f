/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os.h - files, clock, random bytes and memory of the operating system.
 *
 * os*.h in this directory are the only place where Linux, macOS and the two C libraries of Linux
 * differ. os_linux.c and os_macos.c implement what differs, os.c and os_map.c the rest.
 */
#ifndef MOTE_BASE_OS_H
#define MOTE_BASE_OS_H

#include "base/err.h"
#include "base/os_map.h"

#include <sys/stat.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "mote reads its files in place");

/* Monotonic clock, in seconds. */
double os_now(void);

/* Fills `out` with random bytes from the kernel. false: the kernel returned an error. */
bool os_random(void *out, size_t bytes);

/* Writes all bytes, in as many calls as it takes; signals do not end it. false: errno says why. */
bool os_write_all(int fd, const void *data, size_t bytes);

/*
 * Atomic replacement of a file: write to a temporary file in the same directory, fsync, rename,
 * fsync the directory. The temporary name is PATH, random digits and ".part": one that a killed
 * process has left blocks no other one, and several threads may replace one file; the last commit
 * wins.
 */
typedef struct os_file {
    int fd;
    char path[1024];
    char temporary[1048];
} os_file;

mote_status os_file_create(os_file *f, const char *path, mote_error *err);
mote_status os_file_write(os_file *f, const void *data, size_t bytes, mote_error *err);
/* Renames the file to its final name. After a failure no temporary file remains. */
mote_status os_file_commit(os_file *f, mote_error *err);
/* Removes the temporary file. Does nothing after commit. */
void os_file_abandon(os_file *f);
/* All of it for a text that is in memory. */
mote_status os_file_replace(const char *path, const void *data, size_t bytes, mote_error *err);

/* Writes a file's data to the disk. On macOS also out of the disk's own cache. */
bool os_sync(int fd);
/* A rename of the file is durable only after this. */
bool os_sync_directory_of(const char *path);
/* When the contents changed, in ns since 1970. */
int64_t os_modified_ns(const struct stat *info);
/* Gives the open file `fd` the descriptor `to`, in place of what that was; closed on exec. Closes `fd`
 * in any case. */
bool os_move_descriptor(int fd, int to);

/* Hints to the kernel; without effect where it has no such call. */
void os_will_read_all(int fd);
void os_start_writing(int fd, uint64_t offset, uint64_t bytes);

/* Opens a file to read it past the page cache. -1: errno says why. */
int os_open_uncached(const char *path);

/* A file without a name that ends with its last descriptor: in memory on Linux, in $TMPDIR on macOS.
 * `path` opens it again in this process while the descriptor is open. -1: errno says why. */
enum { OS_MEMORY_PATH_BYTES = 32 };
int os_memory_file(const char *name, char path[OS_MEMORY_PATH_BYTES]);

/* ---- memory ---- */

/* Overwrites bytes that are not read again, which a compiler could remove. */
void os_erase(void *secret, size_t bytes);
/* Returns freed memory of the heap to the system. */
void os_trim_heap(void);
/* Huge pages where the kernel and the file system have them. Has no effect elsewhere. */
void os_prefer_huge_pages(void *block, size_t bytes);
/* No huge pages for these whole pages. */
void os_keep_small_pages(void *block, size_t bytes);
/* Drops a part of a file from the page cache, as far as no process maps it. */
void os_drop_cached(int fd, uint64_t offset, uint64_t bytes);
/* Memory that the system says it can give: on Linux all of the machine (ram.h reads /proc/meminfo and
 * cgroups first), on macOS free and reclaimable pages. 0: unknown. */
uint64_t os_memory_available(void);

/* For tests: write, sync or rename number n from now fails with ENOSPC. 0 turns it off. */
void os_fail_at(uint64_t n);
bool os_failed(void);

#endif
