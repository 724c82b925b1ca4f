/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_hash.h - the hash of a file, and the list of files that were hashed before.
 *
 * Hashing a model takes seconds to minutes. So `$XDG_CACHE_HOME/mote/store/verified` records for each
 * hashed file its device, inode, size and modification time, with the hash. A file with the same
 * four numbers has the recorded hash, unless a program wrote to it and set the time back: `mote
 * verify` therefore always reads the file.
 *
 * The list is a cache. If it is missing, damaged or not writable, files are hashed again. It has at
 * most VERIFIED_MAX entries; the oldest is dropped. Any number of processes may use it at once.
 */
#ifndef MOTE_STORE_FILE_HASH_H
#define MOTE_STORE_FILE_HASH_H

#include "store/digest.h"

enum { VERIFIED_MAX = 4096, VERIFIED_PATH_BYTES = 900 };

typedef struct file_identity {
    uint64_t device, inode, bytes;
    int64_t modified_ns; /* since 1970 */
} file_identity;

/* Follows links. false: there is no regular file at `path`. */
bool file_identity_of(file_identity *out, const char *path);

/* Called about every 4 MiB and at the end; false stops with MOTE_E_CANCELED. */
typedef bool (*file_hash_progress)(void *ctx, uint64_t done, uint64_t total);

/* Hashes a regular file. `identity` (may be NULL) receives the identity of what was hashed.
 * MOTE_E_IO also if the file is written to meanwhile. */
mote_status file_hash(char out[HASH_TEXT_BYTES], hash_kind kind, const char *path,
                      file_identity *identity, file_hash_progress progress, void *ctx,
                      mote_error *err);

/* ---- the list of verified files ---- */

/* The directory of the list: CACHE_HOME/mote/store, else HOME/.cache/mote/store. It holds nothing
 * else, because mote-pull may write there. NULL, empty and relative paths
 * are ignored. false: neither is usable. */
bool verified_directory(char out[VERIFIED_PATH_BYTES], const char *cache_home, const char *home);

/* `hash` and `when` (seconds since 1970; may be NULL) of a file in the list. false: not listed. */
bool verified_find(const char *directory, const file_identity *file, char hash[HASH_TEXT_BYTES],
                   int64_t *when);
/* Adds a file or replaces its entry. Creates the directory. */
mote_status verified_add(const char *directory, const file_identity *file, const char *hash,
                         mote_error *err);
/* Removes the entry of a file, if there is one. */
mote_status verified_remove(const char *directory, const file_identity *file, mote_error *err);

#endif
