/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hf_cache.h - the cache of huggingface_hub: where it is, its paths, its references.
 *
 *     ROOT/models--owner--name/blobs/ETAG                       64 digits (SHA-256) or 40 (git)
 *                             /refs/main                        a commit, 40 digits
 *                             /snapshots/COMMIT/dir/f.gguf  ->  ../../../blobs/ETAG
 *     ROOT/.locks/models--owner--name/ETAG.lock
 *
 * A file counts as present if its path in a snapshot leads, through links inside of ROOT, to a
 * regular file. A blob may itself be a link into ROOT/blobs, which repositories share.
 */
#ifndef MOTE_STORE_HF_CACHE_H
#define MOTE_STORE_HF_CACHE_H

#include "store/file_list.h"
#include "store/known_models.h"
#include "store/store.h"

enum { HF_COMMIT_BYTES = 41, HF_HASH_BYTES = 65 };

/* HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else HF_HOME/hub, else XDG_CACHE_HOME/huggingface/hub,
 * else ~/.cache/huggingface/hub. An empty variable counts as unset. False: none is set, nor HOME.
 */
bool hf_cache_root(char out[FILE_PATH_BYTES], const store_env *env);

/* Paths of the cache; repo, revision, commit, hash and path must be valid (hub_*_valid). False: too
 * long. */
bool hf_repo_path(char out[FILE_PATH_BYTES], const char *root, const char *repo);
bool hf_blob_path(char out[FILE_PATH_BYTES], const char *root, const char *repo, const char *hash);
bool hf_ref_path(char out[FILE_PATH_BYTES], const char *root, const char *repo,
                 const char *revision);
bool hf_snapshot_path(char out[FILE_PATH_BYTES], const char *root, const char *repo,
                      const char *commit, const char *path);
bool hf_lock_path(char out[FILE_PATH_BYTES], const char *root, const char *repo, const char *hash);

/* The commit of a revision: the revision itself if it is a commit, else the text of its reference
 * without blanks at the end. False: there is none; *why: what is wrong with the file, or NULL. */
bool hf_cache_commit(char out[HF_COMMIT_BYTES], const char *root, const char *repo,
                     const char *revision, const char **why);

/* The blob that a file of a snapshot links to: 40 or 64 digits. False: a plain file, or a link to
 * something else. */
bool hf_cache_hash(char out[HF_HASH_BYTES], const char *snapshot_file);

/* Adds all models of the cache to the list of a store. */
mote_status hf_cache_scan(store *s, mote_error *err);
/* Makes the models of one snapshot the revisions of a store, named "hf:REPO@REVISION:FILE". */
mote_status hf_cache_scan_revision(store *s, const char *repo, const char *revision,
                                   const char *commit, mote_error *err);

#endif
