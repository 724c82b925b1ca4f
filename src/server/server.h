/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - the server behind `mote serve`: models, HTTP server and APIs assembled.
 *
 * Threads: the event loop thread (the caller of server_run()) runs HTTP and all handlers. Each
 * model has an engine thread (sched/) and vision threads (vision/). libuv's thread pool parses and
 * renders requests and prints long replies.
 */
#ifndef MOTE_SERVER_SERVER_H
#define MOTE_SERVER_SERVER_H

#include "server/auth/access.h"
#include "server/core/context.h"
#include "server/core/server_sandbox.h"
#include "server/http/listen.h"
#include "server/models/model_pulls.h"

enum { SERVER_MAX_LIMITS = 16 };

typedef struct server server;

/* Work inside the process instead of clients: `mote batch`. All functions run on the thread of
 * server_run(). */
typedef struct server_local {
    void (*start)(void *with, server_context *ctx); /* when server_run() begins; NULL: not local */
    void (*tick)(void *with, double now);           /* every 100 ms */
    void (*stop)(void *with);                       /* end all requests now */
    void *with;
} server_local;

typedef struct server_options {
    server_local local;                       /* with `start`, the server has no sockets */
    model_to_serve models[SERVER_MAX_MODELS]; /* the first one also serves unknown names */
    size_t n_models;
    model_catalog catalog;          /* installed models, loaded on request, instead of `models` */
    mote_isa isa;                   /* of installed models */
    const char *const *directories; /* [n_directories]: the files of installed models */
    size_t n_directories;
    model_pull_source pull;          /* downloads of models; `start` NULL: not allowed */
    sched_options sched;             /* memory: for all models together; wake, with: ignored */
    struct fork_server *fork_server; /* image decoder; NULL: no images */
    uint32_t image_tokens;           /* default maximum per image; 0: 1,280 */
    const char *chat_template;       /* of all models; NULL or "auto": that of each file */
    const char *listen[LISTEN_MAX];  /* addresses as in listen.h; none: systemd or loopback */
    size_t n_listen;
    str keys;             /* lines as in api_keys.h; only digests are kept */
    const char *key_file; /* file of `keys`, read again when it changes; NULL: none */
    const char *hosts[ACCESS_MAX_HOSTS]; /* additional names allowed in Host */
    size_t n_hosts;
    const char *origins[ACCESS_MAX_HOSTS]; /* allowed CORS origins, exactly as browsers send them */
    size_t n_origins;
    bool web;             /* browsers get the chat page */
    bool unauthenticated; /* allow addresses reachable from other machines without an API key */
    request_defaults defaults;
    log_options log;
    double keep_alive;    /* seconds; negative: models stay loaded */
    double drain_delay;   /* seconds; see http_server.h */
    double drain_seconds; /* 0: 30 */
    server_sandbox_mode sandbox;
    const char *files; /* directory of /v1/files and /v1/batches; NULL: none are stored */
    const char *limits[SERVER_MAX_LIMITS]; /* "NAME=VALUE"; see limits.h */
    size_t n_limits;
} server_options;

/* Opens the listening sockets, creates models and schedulers, and enters the sandbox, which
 * restricts the whole process for good. Call it before the process starts threads. */
mote_status server_new(server **out, const server_options *options, mote_error *err);
/* Serves until server_stop(), then drains. */
mote_status server_run(server *s, mote_error *err);
/* Any thread or a signal handler. The first call drains, the second one closes all connections. */
void server_stop(server *s);
void server_free(server *s);

/* ---- for the startup message ---- */

const server_options *server_settings(const server *s);
const server_sandbox *server_sandbox_state(const server *s);
/* Given models. */
size_t server_n_models(const server *s);
served_model *server_model(const server *s, size_t i);
void server_registry_stats(const server *s, model_registry_stats *out);
size_t server_n_keys(const server *s);
/* Addresses: "127.0.0.1:11435", "unix:PATH". */
size_t server_n_addresses(const server *s);
const char *server_address(const server *s, size_t i);

#endif
