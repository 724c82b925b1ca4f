/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_remove.h - removes a model from the Hugging Face cache. The only part of the store that
 * changes files of the cache.
 *
 * Order: the links of the snapshot, so that no program finds the model any more; then the blobs
 * without any other link of the repository; then references to a snapshot that is empty, and the
 * snapshot; then a repository without snapshots and blobs. A process that is killed at any point
 * leaves a cache that huggingface_hub reads without warnings; at most a blob stays that no link
 * leads to.
 *
 * Never removed: files of other programs' stores, anything that a link leads to outside of the
 * blobs of the repository, and the blobs that repositories share (ROOT/blobs).
 */
#ifndef MOTE_STORE_STORE_REMOVE_H
#define MOTE_STORE_STORE_REMOVE_H

#include "store/store.h"

#include "base/str.h"

typedef struct store_removed {
    uint32_t files;  /* links or files of the snapshot */
    uint64_t freed;  /* bytes */
    uint64_t shared; /* bytes that stay because something else uses them */
} store_removed;

/* Appends a sentence per line to *out about what else uses the files of the model: other
 * revisions in the cache, and references other than `main`. Nothing is appended if there are none.
 */
mote_status store_remove_users(const store *s, const store_model *m, strbuf *out, mote_error *err);

/*
 * Removes weights, mmproj and MTP file of a model of this store. mmproj and MTP file stay while the
 * snapshot has other models.
 *
 * MOTE_E_ARG: the model is not in the Hugging Face cache; the text says what to do. MOTE_E_IO: a
 * file cannot be removed, or is being downloaded.
 */
mote_status store_remove(const store *s, const store_model *m, store_removed *out, mote_error *err);

#endif
