/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_writer.h - a thread that saves sessions while their engine works.
 *
 * The thread that owns a session gives it to the writer and goes on. The writer copies small pieces
 * under a mutex, so the owner can take the session back at any time (disk_writer_release) and waits
 * for one copy at most. One session is saved at a time. What was not written is written by a later
 * save of the same session: records that exist are not written again.
 *
 * The first failed write is reported once. All functions belong to the thread that owns the
 * sessions; `done` and `report` are called on the writer's thread.
 */
#ifndef MOTE_DISK_CACHE_DISK_WRITER_H
#define MOTE_DISK_CACHE_DISK_WRITER_H

#include "disk_cache/disk_session.h"

typedef struct disk_writer disk_writer;

typedef void disk_done_fn(void *with);
typedef void disk_report_fn(void *with, const char *text);

typedef struct disk_writer_calls {
    disk_done_fn *done; /* a save or a refresh has ended; may be NULL */
    disk_report_fn *report;
    void *with;
} disk_writer_calls;

/* The cache must outlive the writer. */
mote_status disk_writer_new(disk_writer **out, disk_cache *cache, const disk_writer_calls *calls,
                            mote_error *err);
/* Waits for the running save. NULL is allowed. */
void disk_writer_free(disk_writer *w);

/* Has the last save ended? *failed, cleared by the call: it could not write. */
bool disk_writer_is_idle(disk_writer *w, bool *failed);

/* What to save of a session. */
typedef struct disk_extent {
    disk_states states;   /* `also` is set by disk_writer_save */
    const disk_part *end; /* end of its prompt, saved with the state before it; NULL: none. The
                             bytes stay valid until the writer is idle or released */
} disk_extent;

/* Starts to save the session, for which the writer must be idle. The session must not be stepped,
 * rewound or freed before the save has ended or disk_writer_release. False: there is nothing to
 * write. */
bool disk_writer_save(disk_writer *w, const disk_scope *scope, const mote_engine *engine,
                      const mote_session *session, const disk_extent *what);
/* The session is not read any more after this call. */
void disk_writer_release(disk_writer *w);
/* Waits for the end of the running save, for at most `seconds`. */
void disk_writer_wait(disk_writer *w, double seconds);

/* Reads the directory again on the writer's thread if another process changed it; `begin`: if it
 * is idle, else only tells whether it does so at present. */
bool disk_writer_refreshes(disk_writer *w, bool begin);

#endif
