/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_server.h - an HTTP/1.1 server: sockets, connections, limits and request parsing.
 *
 * The server knows nothing about models or APIs. Its owner decides through http_hooks: on_head
 * checks access and picks a route before the body is read, on_request replies. One thread, that of
 * http_server_run(), runs all hooks and all exchange functions.
 *
 *   http_server_new()    opens the listening sockets and creates the event loop
 *   http_server_start()  begins to accept connections
 *   http_server_run()    serves until http_server_stop(), then drains
 *
 * The first http_server_stop() begins an orderly end, so that no request is lost behind a proxy:
 *
 *   1. stopping   For `drain_delay` seconds everything is served, and load balancers can see that
 *                 the server leaves (on_stop). Every reply closes its connection.
 *   2. closed     The listening sockets are closed after all pending connections are accepted. For
 *                 a moment, requests that were on their way still arrive and are served.
 *   3. draining   Idle connections are closed. Running requests have `drain_seconds` to finish.
 *   4. cutting    on_cut ends those that are left; their replies are sent, then all is closed.
 *
 * The second http_server_stop() closes all connections immediately.
 */
#ifndef MOTE_SERVER_HTTP_HTTP_SERVER_H
#define MOTE_SERVER_HTTP_HTTP_SERVER_H

#include "server/core/limits.h"
#include "server/core/log.h"
#include "server/http/event_loop.h"
#include "server/http/exchange.h"
#include "server/http/listen.h"

typedef struct http_server http_server;

typedef struct http_hooks {
    /* The request head is complete and the body is not read. Sets the second part of *request.
     * false: *error is the reply. */
    bool (*on_head)(void *context, const exchange *x, http_request *request, http_error *error);
    /* The request is complete. Replies now or later. */
    void (*on_request)(void *context, exchange *x);
    /* The reply is sent, or the client has closed the connection (status 499). `line` is filled
     * except for `label` and `key`. */
    void (*on_finished)(void *context, const exchange *x, log_request *line);
    /* Appends the body of an error reply to `out`; returns the HTTP status. */
    int (*print_error)(void *context, const exchange *x, const http_error *e, strbuf *out);
    /* After event_loop_wake(). May be NULL, as all that follow. */
    void (*on_wake)(void *context);
    /* Every 100 ms. */
    void (*on_tick)(void *context, double now);
    /* The server begins to stop. */
    void (*on_stop)(void *context);
    /* The server begins to drain: requests that begin from now on are refused. */
    void (*on_drain)(void *context);
    /* The time of running requests is over: fail them. */
    void (*on_cut)(void *context);
    void *context;
} http_hooks;

typedef struct http_server_options {
    const limits *limits;      /* copied */
    const char *const *listen; /* [n_listen] addresses as in listen.h; none: systemd or loopback */
    size_t n_listen;
    bool no_sockets;      /* listen nowhere: local exchanges only */
    bool vary_origin;     /* replies depend on Origin: send `Vary: Origin` */
    double drain_delay;   /* seconds between the stop and the closing of the listening sockets */
    double drain_seconds; /* 0: 30 */
} http_server_options;

mote_status http_server_new(http_server **out, const http_server_options *options,
                            const http_hooks *hooks, mote_error *err);
mote_status http_server_start(http_server *h, mote_error *err);
void http_server_run(http_server *h);
/* Any thread or a signal handler. */
void http_server_stop(http_server *h);
/* After http_server_run() has returned. NULL is allowed. */
void http_server_free(http_server *h);

const listen_set *http_server_listening(const http_server *h);
/* For event_loop_wake() and event_loop_work(). */
event_loop *http_server_loop(const http_server *h);
/* Connections with an unfinished request or unsent bytes. */
uint32_t http_server_busy(const http_server *h);

typedef struct http_stats {
    uint32_t connections;         /* open now */
    uint64_t requests;            /* passed to on_request */
    uint64_t refused_connections; /* over a limit, or while draining */
    uint64_t refused_requests;    /* malformed, over a limit, or refused by on_head */
    uint64_t body_bytes;          /* of request bodies in memory now */
    event_loop_stats loop;
} http_stats;

void http_server_read_stats(const http_server *h, http_stats *out);

#endif
