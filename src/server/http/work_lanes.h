/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_lanes.h - worker threads: work by cost, so that long work does not delay short work.
 *
 *   short    the thread pool of libuv
 *   medium   one thread of lower priority
 *   long     one thread of lowest priority
 *
 * A client decides how much work its request is, so long requests must neither occupy all workers
 * nor take processor time from the engine threads. In the lanes of one thread the work with the
 * earliest deadline runs first; a deadline is the arrival time and the estimated run time, so
 * smaller work overtakes larger work, and no work waits for ever. Event loop thread only.
 */
#ifndef MOTE_SERVER_HTTP_WORK_LANES_H
#define MOTE_SERVER_HTTP_WORK_LANES_H

#include "base/err.h"

typedef struct work_lanes work_lanes;
struct uv_loop_s;

typedef struct work {
    size_t cost; /* bytes to tokenize, or work that takes as long; see event_loop.h */
    void (*run)(void *with);
    void (*done)(void *with);
    void *with;
} work;

mote_status work_lanes_new(work_lanes **out, struct uv_loop_s *uv, mote_error *err);
/* Closes the handle in the loop as soon as no work is left. */
void work_lanes_finish(work_lanes *l);
/* Ends the threads, before the loop is closed. No work may be left. NULL is allowed. */
void work_lanes_stop(work_lanes *l);
/* After the loop is closed. NULL is allowed. */
void work_lanes_free(work_lanes *l);

/* false: out of memory. */
bool work_lanes_add(work_lanes *l, const work *w);
/* If the work of `with` waits in a lane of one thread, `done` is called soon and `run` never. */
void work_lanes_cancel(work_lanes *l, const void *with);

#endif
