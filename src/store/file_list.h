/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_list.h - the files below a directory, in byte order of their paths, and bounded reading of
 * small files. For directories that other programs write: nothing is trusted, everything has a
 * limit.
 */
#ifndef MOTE_STORE_FILE_LIST_H
#define MOTE_STORE_FILE_LIST_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum { FILE_PATH_BYTES = 4096 };

typedef struct listed_file {
    char *path; /* relative to the directory */
    uint64_t bytes;
    int64_t modified;   /* seconds since 1970 */
    bool directory;     /* listed only with depth 0 */
    const char *broken; /* why it cannot be used: a link without a target, a socket ...; or NULL */
} listed_file;

typedef struct file_list {
    listed_file *files;
    uint32_t n, room;
    listed_file *unread; /* [n_unread]: directories that cannot be read; `broken` is the reason */
    uint32_t n_unread, unread_room;
    bool cut; /* the directory has more than `limit` entries, or is deeper than `depth` */
} file_list;

/* Lists regular files, also behind links, up to `depth` directories below `root`. Links to
 * directories are not followed. With depth 0 directories are listed too. Names with control
 * characters or more than 255 bytes are left out. A directory that does not exist is empty; one that
 * cannot be read is in `unread`. */
mote_status file_list_read(file_list *out, const char *root, unsigned depth, uint32_t limit,
                           mote_error *err);
void file_list_fini(file_list *l);
/* MOTE_E_IO: a directory of the list, which was read from `root`, could not be read. */
mote_status file_list_check(const file_list *l, const char *root, mote_error *err);

/* The names in a directory that `wanted` accepts, in byte order; of more than `room` the first.
 * Returns their number. */
enum { FILE_NAME_BYTES = 256 };
size_t file_names(char (*out)[FILE_NAME_BYTES], size_t room, const char *directory,
                  bool (*wanted)(const char *name));

/* Joins with a slash. False: longer than FILE_PATH_BYTES. */
bool file_join(char out[FILE_PATH_BYTES], const char *directory, const char *name);

/* Reads a regular file of at most `limit` bytes. False: there is none, *why says what it is instead
 * ("a directory", "larger than 1048576 bytes"); a missing file has the reason NULL. */
bool file_read_small(strbuf *out, const char *path, size_t limit, const char **why);

/* The path, with all links resolved, is below `root`; *why otherwise. */
bool file_inside(const char *path, const char *root, const char **why);

#endif
