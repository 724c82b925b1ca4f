/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_loop.h - the one thread that owns all sockets: libuv's loop and what hangs on it.
 *
 * Its owner is told when somebody woke it, every tenth of a second, when a stop was asked
 * for, when somebody connects, and at the end of each turn, before it sleeps again. How
 * long a turn took is measured: nobody may hold the thread for more than a moment.
 */
#ifndef MOTE_SERVER_DOOR_DOOR_LOOP_H
#define MOTE_SERVER_DOOR_DOOR_LOOP_H

#include "base/err.h"

typedef struct loop loop;
struct uv_loop_s;
struct uv_stream_s;

typedef struct loop_hooks {
    void (*woken)(void *with);
    void (*tick)(void *with, double now);
    void (*stop)(void *with); /* once for each loop_stop that the loop has seen */
    void (*connected)(void *with, struct uv_stream_s *listener, bool is_unix);
    void (*turn)(void *with);
    void *with;
} loop_hooks;

/* `descriptors`: how many the process may have open; the loop has room for them from now on and
 * takes no memory for another one. */
mote_status loop_new(loop **out, const loop_hooks *hooks, uint32_t descriptors, mote_error *err);
/* After loop_run. NULL is allowed. */
void loop_free(loop *l);

/* Serves a listening socket, which is the loop's from now on. */
mote_status loop_listen(loop *l, int fd, bool is_unix, mote_error *err);
void loop_stop_listening(loop *l);

/* Runs until loop_finish, and until every connection is closed and all work is done. */
void loop_run(loop *l);
void loop_finish(loop *l);
struct uv_loop_s *loop_uv(loop *l);

/* From any thread: the hook `woken` soon. */
void loop_wake(loop *l);
/* From any thread or a signal handler. */
void loop_stop(loop *l);
/* Calls the hook `turn` again without waiting for anything. */
void loop_again(loop *l);

/* See exchange_work. */
bool loop_work(loop *l, void (*work)(void *with), void (*done)(void *with), void *with);

typedef struct loop_figures {
    uint64_t turns;
    double busy;           /* seconds of all turns together */
    double longest;        /* turn so far */
    double longest_lately; /* within the last one or two seconds */
    uint64_t over_20_ms;   /* turns */
} loop_figures;

void loop_read_figures(const loop *l, loop_figures *out);

#endif
