/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_store.h - the files of /v1/files in a directory: uploads, and the results of batches.
 *
 *   file-ID.data   contents
 *   file-ID.json   size, time, purpose, name, and the namespace of the key that owns it
 *
 * A file exists when its .json file does, which is written last and removed first. Contents without
 * one are removed at the start, and so are files with damaged metadata. Files that cannot be read at
 * the start stay on the disk and are not listed. The directory has mode 0700, files 0600. A lock keeps
 * a second server out. What a key cannot name does not exist for it: functions take the namespace of
 * the key.
 *
 * Thread-safe. Functions that touch the disk are for worker threads.
 */
#ifndef MOTE_SERVER_BATCH_FILE_STORE_H
#define MOTE_SERVER_BATCH_FILE_STORE_H

#include "base/err.h"
#include "base/str.h"
#include "server/core/log.h"

#include <stdint.h>

typedef struct file_store file_store;

enum { FILE_ID_BYTES = 48, FILE_NAME_BYTES = 128, FILE_PURPOSE_BYTES = 32, FILE_PATH_BYTES = 1024 };

typedef struct stored_file {
    char id[FILE_ID_BYTES]; /* "file-" and 32 hexadecimal digits */
    uint64_t ns;            /* of the key */
    uint64_t bytes;
    int64_t created; /* seconds since 1970 */
    char purpose[FILE_PURPOSE_BYTES];
    char name[FILE_NAME_BYTES];
} stored_file;

typedef struct file_store_limits {
    uint32_t files;       /* of one namespace */
    uint64_t total_bytes; /* of all files */
} file_store_limits;

typedef struct file_store_stats {
    uint32_t files;
    uint64_t bytes;
} file_store_stats;

/* Creates the directory if it is missing, and reads what it has. The log tells of files that cannot be
 * read. */
mote_status file_store_open(file_store **out, const char *directory,
                            const file_store_limits *limits, const log_options *log,
                            mote_error *err);
/* NULL is allowed. */
void file_store_close(file_store *s);
/* Of a file with this name in the directory: "file-ID.data", "batch_ID.json". */
void file_store_path(const file_store *s, const char *id, const char *suffix,
                     char out[FILE_PATH_BYTES]);

/* Stores contents. Sets id, bytes and created. MOTE_E_FULL: a limit is reached. */
mote_status file_store_add(file_store *s, stored_file *file, str contents, mote_error *err);
/* The contents are at the path of file->id and ".data" already: results of a batch, without limits.
 * Sets bytes and created. */
mote_status file_store_adopt(file_store *s, stored_file *file, mote_error *err);
/* false: the key has no such file. */
bool file_store_find(file_store *s, str id, uint64_t ns, stored_file *out);
/* The disk has no such file of any key, not even one that could not be read at the start. */
bool file_store_is_gone(const file_store *s, const char *id);
/* Removes a file. false: the key has no such file. */
bool file_store_remove(file_store *s, str id, uint64_t ns);
/* The files of a key, newest first: at most `room` of those after the file `after` (empty: from the
 * first one). `purpose`: only these; empty: all. *more: there are others. */
size_t file_store_list(file_store *s, uint64_t ns, str purpose, str after, stored_file *out,
                       size_t room, bool *more);
void file_store_read_stats(file_store *s, file_store_stats *out);

/* Calls `fn` with the names of files in the directory that begin with `prefix` and end with
 * `suffix`. */
void file_store_each(const file_store *s, const char *prefix, const char *suffix,
                     void (*fn)(void *with, const char *name), void *with);

#endif
