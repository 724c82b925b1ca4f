/* SPDX-License-Identifier: Apache-2.0 */
/* event_loop.c - see event_loop.h. */
#include "server/http/event_loop.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/os_socket.h"
#include "server/http/listen.h"
#include "server/http/work_lanes.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

enum { TICK_MS = 100, SPARE_DESCRIPTORS = 64, BACKLOG = 1024 };
static const double SLOW_ITERATION = 0.020; /* seconds */

typedef struct listener {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } as;
    event_loop *l;
    bool is_unix;
} listener;

struct event_loop {
    uv_loop_t uv;
    event_loop_hooks hooks;
    uv_async_t wake, stop;
    uv_timer_t tick;
    uv_prepare_t before_sleep;
    uv_check_t after_sleep;
    uv_idle_t again;
    uv_poll_t high; /* used by loop_grow_table() only */
    work_lanes *lanes;
    listener listeners[LISTEN_MAX];
    size_t n_listeners;
    atomic_uint stops;
    unsigned stops_seen;
    double iterated; /* end of the last iteration */
    uint64_t slept;  /* nanoseconds slept until then */
    double second;   /* start of the current second of longest_now */
    double longest_now, longest_before;
    event_loop_stats stats;
};

/* ---- iterations ---- */

/* Time since the last iteration without sleep. */
static double loop_busy_time(event_loop *l, double now)
{
    uint64_t slept = uv_metrics_idle_time(&l->uv);
    double busy = l->iterated > 0 ? now - l->iterated - (double)(slept - l->slept) * 1e-9 : 0;
    l->iterated = now;
    l->slept = slept;
    return busy;
}

static void loop_measure(event_loop *l)
{
    double now = os_now();
    double took = loop_busy_time(l, now);
    l->stats.iterations++;
    l->stats.busy += took;
    l->stats.over_20_ms += took > SLOW_ITERATION;
    if (took > l->stats.longest)
        l->stats.longest = took;
    if (now - l->second > 1) {
        l->second = now;
        l->longest_before = l->longest_now;
        l->longest_now = 0;
    }
    if (took > l->longest_now)
        l->longest_now = took;
}

static void loop_on_prepare(uv_prepare_t *handle)
{
    event_loop *l = handle->data;
    l->hooks.on_iteration(l->hooks.with);
    loop_measure(l);
}

/* Socket callbacks have run. Touched connections get their turn before libuv frees closed handles.
 */
static void loop_on_check(uv_check_t *handle)
{
    event_loop *l = handle->data;
    l->hooks.on_iteration(l->hooks.with);
}

static void loop_on_idle(uv_idle_t *handle)
{
    uv_idle_stop(handle);
}

void event_loop_again(event_loop *l)
{
    uv_idle_start(&l->again, loop_on_idle);
}

/* ---- wake-ups, stop, tick ---- */

static void loop_on_wake(uv_async_t *handle)
{
    event_loop *l = handle->data;
    l->hooks.on_wake(l->hooks.with);
}

static void loop_on_stop(uv_async_t *handle)
{
    event_loop *l = handle->data;
    for (unsigned n = atomic_load(&l->stops); l->stops_seen < n; l->stops_seen++)
        l->hooks.on_stop(l->hooks.with);
}

void event_loop_wake(event_loop *l)
{
    uv_async_send(&l->wake);
}

void event_loop_stop(event_loop *l)
{
    atomic_fetch_add(&l->stops, 1);
    uv_async_send(&l->stop);
}

static void loop_on_tick(uv_timer_t *handle)
{
    event_loop *l = handle->data;
    l->hooks.on_tick(l->hooks.with, os_now());
}

void event_loop_read_stats(const event_loop *l, event_loop_stats *out)
{
    *out = l->stats;
    out->longest_recent = l->longest_now > l->longest_before ? l->longest_now : l->longest_before;
}

/* ---- listening ---- */

static void loop_on_connection(uv_stream_t *stream, int status)
{
    listener *from = stream->data;
    if (status == 0)
        from->l->hooks.on_connection(from->l->hooks.with, stream, -1, from->is_unix);
}

mote_status event_loop_listen(event_loop *l, int fd, bool is_unix, mote_error *err)
{
    if (l->n_listeners == LISTEN_MAX)
        return err_set(err, MOTE_E_ARG, "too many addresses to listen on; at most %d", LISTEN_MAX);
    listener *at = &l->listeners[l->n_listeners];
    int failed = is_unix ? uv_pipe_init(&l->uv, &at->as.pipe, 0) : uv_tcp_init(&l->uv, &at->as.tcp);
    if (failed == 0) {
        l->n_listeners++;
        at->as.handle.data = at;
        at->l = l;
        at->is_unix = is_unix;
        failed = is_unix ? uv_pipe_open(&at->as.pipe, fd) : uv_tcp_open(&at->as.tcp, fd);
    }
    if (failed == 0)
        failed = uv_listen(&at->as.stream, BACKLOG, loop_on_connection);
    if (failed != 0)
        return err_set(err, MOTE_E_IO, "cannot listen: %s", uv_strerror(failed));
    return MOTE_OK;
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

static void listener_accept_pending(listener *from)
{
    event_loop *l = from->l;
    uv_os_fd_t listening;
    if (uv_fileno(&from->as.handle, &listening) != 0)
        return;
    for (int fd; (fd = os_accept(listening)) >= 0;)
        l->hooks.on_connection(l->hooks.with, &from->as.stream, fd, from->is_unix);
}

void event_loop_stop_listening(event_loop *l)
{
    for (size_t i = 0; i < l->n_listeners; i++) {
        if (!uv_is_closing(&l->listeners[i].as.handle))
            listener_accept_pending(&l->listeners[i]);
        close_handle(&l->listeners[i].as.handle);
    }
}

/* ---- work ---- */

bool event_loop_work(event_loop *l, size_t cost, void (*run)(void *with), void (*done)(void *with),
                     void *with)
{
    return work_lanes_add(l->lanes, &(work){cost, run, done, with});
}

void event_loop_cancel_work(event_loop *l, const void *with)
{
    work_lanes_cancel(l->lanes, with);
}

/* ---- watched descriptors ---- */

struct event_watch {
    uv_poll_t poll;
    int fd;
    void (*readable)(void *with, int fd);
    void *with;
};

static void watch_on_poll(uv_poll_t *handle, int status, int events)
{
    event_watch *w = handle->data;
    (void)status; /* the read reports an error */
    (void)events;
    w->readable(w->with, w->fd);
}

static void watch_on_close(uv_handle_t *handle)
{
    mem_free(handle->data);
}

event_watch *event_loop_watch(event_loop *l, int fd, void (*readable)(void *with, int fd),
                              void *with)
{
    event_watch *w = mem_new(1, sizeof *w);
    if (w == NULL || uv_poll_init(&l->uv, &w->poll, fd) != 0) {
        mem_free(w);
        close(fd);
        return NULL;
    }
    w->poll.data = w;
    w->fd = fd;
    w->readable = readable;
    w->with = with;
    if (uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT, watch_on_poll) == 0)
        return w;
    event_loop_unwatch(w);
    return NULL;
}

void event_loop_unwatch(event_watch *w)
{
    if (w == NULL)
        return;
    uv_close((uv_handle_t *)&w->poll, watch_on_close);
    close(w->fd);
}

/* ---- life cycle ---- */

static void loop_on_poll(uv_poll_t *handle, int status, int events)
{
    (void)handle;
    (void)status;
    (void)events;
}

/* libuv aborts without file descriptors for its own use. So check the limit before it starts. */
static mote_status loop_raise_fd_limit(uint32_t descriptors, int *high, mote_error *err)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max &&
        limit.rlim_cur < descriptors + SPARE_DESCRIPTORS) {
        rlim_t wanted = descriptors + SPARE_DESCRIPTORS;
        limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (limit.rlim_cur < descriptors + SPARE_DESCRIPTORS / 2)
        return err_set(err, MOTE_E_ARG,
                       "%u connections need more open files than the limit of %llu; raise "
                       "`ulimit -n` or set --limit connections=N",
                       descriptors, (unsigned long long)limit.rlim_cur);
    const rlim_t most = descriptors + SPARE_DESCRIPTORS;
    *high = (int)(limit.rlim_cur - 1 < most ? limit.rlim_cur - 1 : most);
    return MOTE_OK;
}

/* libuv also aborts if its table of descriptors cannot grow. Polling the highest possible
 * descriptor once grows the table to its final size. */
static mote_status loop_grow_table(event_loop *l, int high, mote_error *err)
{
    int ends[2];
    if (!os_pipe(ends))
        return err_set(err, MOTE_E_IO, "cannot create a pipe: %s", strerror(errno));
    int watched = dup2(ends[0], high);
    bool grown = watched >= 0 && uv_poll_init(&l->uv, &l->high, watched) == 0 &&
                 uv_poll_start(&l->high, UV_READABLE, loop_on_poll) == 0;
    if (grown)
        uv_poll_stop(&l->high);
    if (l->high.loop != NULL)
        close_handle((uv_handle_t *)&l->high);
    uv_run(&l->uv, UV_RUN_NOWAIT);
    close(ends[0]);
    close(ends[1]);
    if (watched >= 0)
        close(watched);
    return grown ? MOTE_OK : err_set(err, MOTE_E_IO, "cannot poll file descriptor %d", high);
}

static int loop_add_handles(event_loop *l)
{
    int failed = uv_async_init(&l->uv, &l->wake, loop_on_wake);
    failed = failed != 0 ? failed : uv_async_init(&l->uv, &l->stop, loop_on_stop);
    failed = failed != 0 ? failed : uv_timer_init(&l->uv, &l->tick);
    failed = failed != 0 ? failed : uv_prepare_init(&l->uv, &l->before_sleep);
    failed = failed != 0 ? failed : uv_check_init(&l->uv, &l->after_sleep);
    failed = failed != 0 ? failed : uv_idle_init(&l->uv, &l->again);
    l->wake.data = l->stop.data = l->tick.data = l->before_sleep.data = l->after_sleep.data = l;
    l->again.data = l;
    failed = failed != 0 ? failed : uv_timer_start(&l->tick, loop_on_tick, TICK_MS, TICK_MS);
    failed = failed != 0 ? failed : uv_prepare_start(&l->before_sleep, loop_on_prepare);
    return failed != 0 ? failed : uv_check_start(&l->after_sleep, loop_on_check);
}

mote_status event_loop_new(event_loop **out, const event_loop_hooks *hooks, uint32_t descriptors,
                           mote_error *err)
{
    int high = 0;
    *out = NULL;
    TRY(loop_raise_fd_limit(descriptors, &high, err));
    event_loop *l = mem_new(1, sizeof *l);
    const int failed = l != NULL ? uv_loop_init(&l->uv) : UV_ENOMEM;
    if (failed != 0) {
        mem_free(l);
        return err_set(err, failed == UV_ENOMEM ? MOTE_E_MEMORY : MOTE_E_IO,
                       "cannot create the event loop: %s", uv_strerror(failed));
    }
    l->hooks = *hooks;
    uv_loop_configure(&l->uv, UV_METRICS_IDLE_TIME);
    mote_status status = loop_grow_table(l, high, err);
    if (status == MOTE_OK && loop_add_handles(l) != 0)
        status = err_set(err, MOTE_E_IO, "cannot create the handles of the event loop");
    if (status == MOTE_OK)
        status = work_lanes_new(&l->lanes, &l->uv, err);
    if (status != MOTE_OK) {
        event_loop_free(l);
        return status;
    }
    *out = l;
    return MOTE_OK;
}

static void loop_close_any(uv_handle_t *handle, void *with)
{
    (void)with;
    close_handle(handle);
}

void event_loop_free(event_loop *l)
{
    if (l == NULL)
        return;
    work_lanes_stop(l->lanes);
    uv_walk(&l->uv, loop_close_any, NULL);
    uv_run(&l->uv, UV_RUN_DEFAULT);
    uv_loop_close(&l->uv);
    work_lanes_free(l->lanes);
    mem_free(l);
}

void event_loop_run(event_loop *l)
{
    uv_run(&l->uv, UV_RUN_DEFAULT);
}

void event_loop_finish(event_loop *l)
{
    event_loop_stop_listening(l);
    uv_handle_t *own[] = {
        (uv_handle_t *)&l->wake,         (uv_handle_t *)&l->stop,        (uv_handle_t *)&l->tick,
        (uv_handle_t *)&l->before_sleep, (uv_handle_t *)&l->after_sleep, (uv_handle_t *)&l->again,
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        close_handle(own[i]);
    work_lanes_finish(l->lanes);
}

struct uv_loop_s *event_loop_uv(event_loop *l)
{
    return &l->uv;
}
