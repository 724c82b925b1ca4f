/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event_loop.h - the libuv loop: sockets, timer, wake-ups from other threads, worker threads.
 *
 * One thread runs the loop and calls all hooks. Code on it must not block: the time of each
 * iteration is measured, and iterations over 20 ms are counted. event_loop_work() moves work to
 * worker threads (work_lanes.h).
 */
#ifndef MOTE_SERVER_HTTP_EVENT_LOOP_H
#define MOTE_SERVER_HTTP_EVENT_LOOP_H

#include "base/err.h"

typedef struct event_loop event_loop;
struct uv_loop_s;
struct uv_stream_s;

typedef struct event_loop_hooks {
    void (*on_wake)(void *with);             /* after event_loop_wake(); calls may be merged */
    void (*on_tick)(void *with, double now); /* every 100 ms */
    void (*on_stop)(void *with);             /* once for each event_loop_stop() */
    /* A connection is pending: accept it with uv_accept(), or open `fd` if it is not negative. */
    void (*on_connection)(void *with, struct uv_stream_s *listener, int fd, bool is_unix);
    void (*on_iteration)(void *with); /* after the callbacks of an iteration, before it sleeps */
    void *with;
} event_loop_hooks;

/* `descriptors`: number of open connections to prepare for. Raises the file descriptor limit and
 * grows libuv's tables now, because libuv aborts if it cannot grow them later. */
mote_status event_loop_new(event_loop **out, const event_loop_hooks *hooks, uint32_t descriptors,
                           mote_error *err);
/* After event_loop_run() has returned. NULL is allowed. */
void event_loop_free(event_loop *l);

/* Accepts connections of a listening socket and takes ownership of it. */
mote_status event_loop_listen(event_loop *l, int fd, bool is_unix, mote_error *err);
/* Accepts all pending connections, then closes the listening sockets. Closing alone would reset
 * pending connections, and requests already sent on them would be lost. */
void event_loop_stop_listening(event_loop *l);

/* Runs until event_loop_finish() was called, all connections are closed and all work is done. */
void event_loop_run(event_loop *l);
void event_loop_finish(event_loop *l);
struct uv_loop_s *event_loop_uv(event_loop *l);

/* Any thread: the loop calls on_wake soon. */
void event_loop_wake(event_loop *l);
/* Any thread or a signal handler: the loop calls on_stop. */
void event_loop_stop(event_loop *l);
/* Makes the loop run another iteration without sleeping. */
void event_loop_again(event_loop *l);

/* Costs up to WORK_SHORT run on libuv's thread pool, up to WORK_MEDIUM on a thread of lower
 * priority, larger ones on a third. The unit is the time to tokenize a byte in the worst case,
 * about 0.3 microseconds. */
enum { WORK_SHORT = 32768, WORK_MEDIUM = 1 << 20 };

/* Runs `run` on a worker thread, then `done` on the loop thread. `cost` is an estimate. false: out
 * of memory; neither is called. */
bool event_loop_work(event_loop *l, size_t cost, void (*run)(void *with), void (*done)(void *with),
                     void *with);
/* The result is not needed any more. If `run` has not begun, it may be left out; `done` is called
 * in every case. */
void event_loop_cancel_work(event_loop *l, const void *with);

/* A descriptor of another process, such as a pipe or a socket. Loop thread. */
typedef struct event_watch event_watch;

/* Calls `readable` whenever `fd` has data or its other end is closed. Reads must not block: `fd` is
 * set to non-blocking. Owns `fd`, also after a failure. NULL: no memory or not possible. */
event_watch *event_loop_watch(event_loop *l, int fd, void (*readable)(void *with, int fd),
                              void *with);
/* Closes the descriptor. NULL is allowed. */
void event_loop_unwatch(event_watch *w);

typedef struct event_loop_stats {
    uint64_t iterations;
    double busy;           /* seconds of all iterations together, without sleep */
    double longest;        /* seconds */
    double longest_recent; /* the same, within the last one or two seconds */
    uint64_t over_20_ms;   /* iterations longer than that */
} event_loop_stats;

void event_loop_read_stats(const event_loop *l, event_loop_stats *out);

#endif
