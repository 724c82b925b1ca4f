/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_restore.h - reads the records of a prefix into a session, with several threads.
 *
 * A damaged or missing record ends the restore: then there is no session. Nothing else is lost, the
 * caller computes the prefix.
 */
#ifndef MOTE_DISK_CACHE_DISK_RESTORE_H
#define MOTE_DISK_CACHE_DISK_RESTORE_H

#include "disk_cache/disk_session.h"
#include "disk_cache/disk_writer.h"

typedef struct disk_restore disk_restore;

/* What to restore. */
typedef struct disk_prefix {
    const mote_token *tokens; /* [n], more than `position`; valid until disk_restore_end */
    size_t n, position;       /* position: of disk_session_find */
    const mote_image *const *images;
    size_t n_images;
    uint64_t context; /* of the new session */
    bool with_end;    /* all n tokens, with logits, if the disk has the end of this prompt */
    const mote_lora_use *loras;
    size_t n_loras;
} disk_prefix;

/* Prepares a session and starts the threads. `done`, if not NULL, is called on the last thread when
 * it has finished. Engine thread. */
mote_status disk_restore_new(disk_restore **out, disk_cache *cache, const disk_scope *scope,
                             mote_engine *engine, const disk_prefix *prefix, disk_done_fn *done,
                             void *with, mote_error *err);
bool disk_restore_is_running(const disk_restore *r);
void disk_restore_cancel(disk_restore *r);
/* Waits for the threads and frees the restore. Returns the session; NULL: a record was damaged or
 * missing, or it was canceled. If the session has all n tokens, it has the logits of the last one,
 * and other sessions of the engine have none. Engine thread. */
mote_session *disk_restore_end(disk_restore *r);

#endif
