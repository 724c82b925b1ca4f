/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_loop.h - the one thread that owns all sockets: libuv's loop and what hangs on it.
 *
 * Its owner is told when somebody woke it, every tenth of a second, when a stop was asked
 * for, when somebody connects, and at the end of each turn, before it sleeps again. How
 * long a turn took is measured: nobody may hold the thread for more than a moment.
 */
#ifndef MOTE_SERVER_HTTP_EVENT_LOOP_H
#define MOTE_SERVER_HTTP_EVENT_LOOP_H

#include "base/err.h"

typedef struct event_loop event_loop;
struct uv_loop_s;
struct uv_stream_s;

typedef struct event_loop_hooks {
    void (*woken)(void *with);
    void (*tick)(void *with, double now);
    void (*stop)(void *with); /* once for each event_loop_stop that the loop has seen */
    void (*connected)(void *with, struct uv_stream_s *listener, bool is_unix);
    void (*turn)(void *with);
    void *with;
} event_loop_hooks;

/* `descriptors`: how many the process may have open; the loop has room for them from now on and
 * takes no memory for another one. */
mote_status event_loop_new(event_loop **out, const event_loop_hooks *hooks, uint32_t descriptors,
                           mote_error *err);
/* After event_loop_run. NULL is allowed. */
void event_loop_free(event_loop *l);

/* Serves a listening socket, which is the loop's from now on. */
mote_status event_loop_listen(event_loop *l, int fd, bool is_unix, mote_error *err);
void event_loop_stop_listening(event_loop *l);

/* Runs until event_loop_finish, and until every connection is closed and all work is done. */
void event_loop_run(event_loop *l);
void event_loop_finish(event_loop *l);
struct uv_loop_s *event_loop_uv(event_loop *l);

/* From any thread: the hook `woken` soon. */
void event_loop_wake(event_loop *l);
/* From any thread or a signal handler. */
void event_loop_stop(event_loop *l);
/* Calls the hook `turn` again without waiting for anything. */
void event_loop_again(event_loop *l);

/* Runs `work` on a worker thread, then `done` on the loop thread. false: out of memory; neither is
 * called. */
bool event_loop_work(event_loop *l, void (*work)(void *with), void (*done)(void *with), void *with);

typedef struct event_loop_stats {
    uint64_t turns;
    double busy;           /* seconds of all turns together */
    double longest;        /* turn so far */
    double longest_lately; /* within the last one or two seconds */
    uint64_t over_20_ms;   /* turns */
} event_loop_stats;

void event_loop_read_stats(const event_loop *l, event_loop_stats *out);

#endif
