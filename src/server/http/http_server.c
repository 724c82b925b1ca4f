/* SPDX-License-Identifier: Apache-2.0 */
/* http_server.c - start, tick, drain and stop of an HTTP server. See http_server.h. */
#include "server/http/http_server.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/http/http_int.h"

static const double DEFAULT_DRAIN_SECONDS = 30;
/* For requests that clients sent before they could see that the server leaves. */
static const double CLOSED_SECONDS = 0.3;
static const double CUTTING_SECONDS = 1;

/* ---- hooks of the event loop ---- */

static void http_on_wake(void *with)
{
    http_server *h = with;
    if (h->hooks.on_wake != NULL)
        h->hooks.on_wake(h->hooks.context);
}

static void http_on_connection(void *with, struct uv_stream_s *listener, int fd, bool is_unix)
{
    http_server *h = with;
    connection_set_accept(&h->connections, listener, fd, is_unix);
}

static void http_on_iteration(void *with)
{
    http_server *h = with;
    local_exchange_turn(h);
    connection_set_turn(&h->connections);
}

/* ---- the end: see http_server.h ---- */

static void http_finish(http_server *h)
{
    connection_set_close(&h->connections);
    event_loop_finish(h->loop);
    h->phase = HTTP_FINISHED;
}

static void http_enter(http_server *h, http_phase phase, double seconds)
{
    h->phase = phase;
    h->phase_until = os_now() + seconds;
}

static void http_close_listeners(http_server *h)
{
    event_loop_stop_listening(h->loop);
    h->connections.n_retry = 0;
    http_enter(h, HTTP_CLOSED, CLOSED_SECONDS);
}

static void http_drain(http_server *h)
{
    http_enter(h, HTTP_DRAINING, h->drain_seconds);
    connection_set_drain(&h->connections);
    if (h->hooks.on_drain != NULL)
        h->hooks.on_drain(h->hooks.context);
}

static void http_cut(http_server *h)
{
    http_enter(h, HTTP_CUTTING, CUTTING_SECONDS);
    if (h->hooks.on_cut != NULL)
        h->hooks.on_cut(h->hooks.context);
}

/* Enters the next phase of the end if this one is over. */
static void http_advance(http_server *h, double now)
{
    const bool late = now >= h->phase_until;
    const bool busy = connection_set_busy(&h->connections) > 0;
    switch (h->phase) {
    case HTTP_STOPPING:
        if (late)
            http_close_listeners(h);
        break;
    case HTTP_CLOSED:
        if (late || h->connections.n == 0)
            http_drain(h);
        break;
    case HTTP_DRAINING:
        if (!busy)
            http_finish(h);
        else if (late)
            http_cut(h);
        break;
    case HTTP_CUTTING:
        if (!busy || late)
            http_finish(h);
        break;
    default: break;
    }
}

static void http_on_tick(void *with, double now)
{
    http_server *h = with;
    if (h->phase == HTTP_FINISHED)
        return;
    connection_set_sweep(&h->connections, now);
    if (now - h->last_peers_sweep >= 1) {
        h->last_peers_sweep = now;
        peers_sweep(h->peers, now);
    }
    if (h->hooks.on_tick != NULL)
        h->hooks.on_tick(h->hooks.context, now);
    http_advance(h, now);
}

static void http_on_stop(void *with)
{
    http_server *h = with;
    if (h->phase == HTTP_FINISHED)
        return;
    if (h->phase != HTTP_SERVING) { /* the second stop */
        http_finish(h);
        return;
    }
    http_enter(h, HTTP_STOPPING, h->drain_delay);
    if (h->hooks.on_stop != NULL)
        h->hooks.on_stop(h->hooks.context);
    http_advance(h, os_now());
}

/* ---- life cycle ---- */

static mote_status http_open_sockets(http_server *h, const http_server_options *o, mote_error *err)
{
    if (o->no_sockets)
        return MOTE_OK;
    for (size_t i = 0; i < o->n_listen; i++)
        TRY(listen_add(&h->listening, o->listen[i], err));
    if (o->n_listen > 0)
        return MOTE_OK;
    return systemd_n_sockets() > 0 ? listen_add(&h->listening, "systemd", err)
                                   : listen_add_loopback(&h->listening, err);
}

static mote_status http_server_init(http_server *h, const http_server_options *o, mote_error *err)
{
    const event_loop_hooks hooks = {.on_wake = http_on_wake,
                                    .on_tick = http_on_tick,
                                    .on_stop = http_on_stop,
                                    .on_connection = http_on_connection,
                                    .on_iteration = http_on_iteration,
                                    .with = h};
    TRY(http_open_sockets(h, o, err));
    h->peers = peers_new();
    if (h->peers == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of client addresses");
    TRY(event_loop_new(&h->loop, &hooks, (uint32_t)h->limits.at[LIMIT_CONNECTIONS], err));
    h->connections.http = h;
    return MOTE_OK;
}

mote_status http_server_new(http_server **out, const http_server_options *options,
                            const http_hooks *hooks, mote_error *err)
{
    *out = NULL;
    http_server *h = mem_new(1, sizeof *h);
    if (h == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for the HTTP server",
                       sizeof *h);
    h->last_replied = &h->replied;
    h->hooks = *hooks;
    h->limits = *options->limits;
    h->vary_origin = options->vary_origin;
    h->drain_delay = options->drain_delay;
    h->drain_seconds = options->drain_seconds > 0 ? options->drain_seconds : DEFAULT_DRAIN_SECONDS;
    const mote_status status = http_server_init(h, options, err);
    if (status != MOTE_OK) {
        http_server_free(h);
        return status;
    }
    *out = h;
    return MOTE_OK;
}

mote_status http_server_start(http_server *h, mote_error *err)
{
    for (size_t i = 0; i < h->listening.n; i++) {
        listen_socket *at = &h->listening.sockets[i];
        TRY(event_loop_listen(h->loop, at->fd, at->is_unix, err));
        at->fd = -1; /* owned by the loop now */
    }
    return MOTE_OK;
}

void http_server_run(http_server *h)
{
    h->last_peers_sweep = os_now();
    event_loop_run(h->loop);
}

void http_server_stop(http_server *h)
{
    event_loop_stop(h->loop);
}

void http_server_free(http_server *h)
{
    if (h == NULL)
        return;
    event_loop_free(h->loop);
    peers_free(h->peers);
    listen_close(&h->listening);
    mem_free(h);
}

/* ---- accessors ---- */

const listen_set *http_server_listening(const http_server *h)
{
    return &h->listening;
}

event_loop *http_server_loop(const http_server *h)
{
    return h->loop;
}

uint32_t http_server_busy(const http_server *h)
{
    return connection_set_busy(&h->connections);
}

void http_server_read_stats(const http_server *h, http_stats *out)
{
    *out = (http_stats){.connections = h->connections.n,
                        .requests = h->requests,
                        .refused_connections = h->refused_connections,
                        .refused_requests = h->refused_requests,
                        .body_bytes = h->body_bytes};
    event_loop_read_stats(h->loop, &out->loop);
}
