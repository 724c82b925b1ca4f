/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os_map.h - files mapped read-only, and what happens if such a file becomes unreadable.
 *
 * If another program truncates a mapped file, or the disk fails, the next access to a missing page
 * raises SIGBUS, which kills the process. With os_map_guard the process survives: the handler maps
 * zeros from that page to the end of the mapping and marks the mapping as damaged. The thread goes
 * on with zeros; its caller checks os_map_check afterwards and discards the result.
 */
#ifndef MOTE_BASE_OS_MAP_H
#define MOTE_BASE_OS_MAP_H

#include "base/err.h"

#include <stddef.h>

/* A file mapped read-only. Processes that map the same file share its memory. */
typedef struct os_map {
    const unsigned char *data;
    uint64_t bytes;
    uint32_t slot; /* in the list of open mappings, from 1; 0: closed */
    char name[64]; /* of the file, without its directory; for messages */
} os_map;

mote_status os_map_open(os_map *out, const char *path, mote_error *err);
void os_map_close(os_map *map);
/* Drops the pages from this process (MADV_DONTNEED). They are read again on the next access. */
void os_map_drop_pages(const os_map *map);

/* Starts to read a part of a mapped file from disk. Returns at once. Affects timing only. */
void os_map_will_need(const void *data, size_t bytes);
/* Drops the whole pages of a part of a mapped file from this process, and from the page cache if no
 * other process maps them. They are read again on the next access. */
void os_map_release(const void *data, size_t bytes);

/* Installs the SIGBUS handler of the process, unless it is installed. Not thread-safe. Faults
 * outside of mapped files go to the handler that was installed before, or kill the process as
 * without this call. */
bool os_map_guard(void);

/* False if an access has failed or the file is shorter than the mapping. The end of a file's last
 * page can turn into zeros without a fault, so this checks the size (fstat). Any thread. */
bool os_map_intact(const os_map *map);
/* MOTE_E_IO with the name of the file if the mapping is not intact. */
mote_status os_map_check(const os_map *map, mote_error *err);
/* Declares the mapping as not intact. */
void os_map_mark_damaged(const os_map *map);
/* Maps the file at `path` again, to the same address, and removes the mark. No other thread may use
 * the data. MOTE_E_MISMATCH: it has another size; the mapping is unchanged. */
mote_status os_map_reopen(const os_map *map, const char *path, mote_error *err);

typedef enum os_map_state {
    OS_MAP_SAME,
    OS_MAP_REPLACED, /* another file has the name now; the mapping still has the old contents */
    OS_MAP_MODIFIED, /* the mapped file was written to since the last call */
    OS_MAP_DAMAGED   /* not intact */
} os_map_state;

/* Compares the file at `path` with the mapped file. Two system calls. */
os_map_state os_map_compare(const os_map *map, const char *path);

#endif
