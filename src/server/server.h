/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - models at an address: what `mote serve` starts.
 *
 * One loop thread (libuv) owns sockets, timers, exchanges and replies; the engine thread of
 * each model's scheduler owns its work; libuv's pool prepares requests (JSON, rendering, grammars).
 * libuv is seen by http_loop.c and connection.c only, llhttp by http_parse.c.
 */
#ifndef MOTE_SERVER_SERVER_H
#define MOTE_SERVER_SERVER_H

#include "server/http/exchange.h"
#include "server/models/model_registry.h"

enum {
    SERVER_MAX_LISTEN = 16,
    SERVER_MAX_KEYS = 64,
    SERVER_MAX_HOSTS = 64,
    SERVER_MAX_LIMITS = 16
};

typedef struct server server;

typedef struct server_options {
    model_to_serve models[SERVER_MAX_MODELS]; /* the first answers for those nobody has */
    size_t n_models;
    sched_options sched; /* model, wake and with are ours; its memory is for everything */
    struct fork_server *fork_server; /* for pictures; NULL: the model cannot see, or must not */
    uint32_t image_tokens;           /* of a picture, unless a request says otherwise; 0: 1,280 */
    /* "127.0.0.1:11435", "[::1]:11435", "unix:PATH"; none: loopback, or what systemd passed */
    const char *listen[SERVER_MAX_LISTEN];
    size_t n_listen;
    str keys;             /* lines as api_keys.h has them; copied as digests */
    const char *key_file; /* where they come from, to be looked at again; NULL: from no file */
    const char *hosts[SERVER_MAX_HOSTS]; /* more names for Host */
    size_t n_hosts;
    const char *origins[SERVER_MAX_HOSTS]; /* pages that may ask, exactly as browsers name them */
    size_t n_origins;
    bool unauthenticated; /* a wide address without a key is wanted */
    bool strict;          /* unknown fields are errors */
    bool no_ext;          /* no `mote` object in replies */
    /* For requests that say nothing about it; AUTO: the size of the model decides. */
    mote_think think;
    uint32_t think_budget; /* 0: MOTE_THINK_MEDIUM */
    bool no_soft_switch;   /* /think and /no_think are words like others */
    uint32_t preset;    /* for requests that name none: 0: by what they show; else 1 + mote_task */
    const char *system; /* for conversations without a system message; NULL: none */
    bool keep_volatile; /* a billing header in front of a system text stays there */
    bool log_json;
    int log_level;        /* 0: errors; 1: a line per request; 2: more */
    double keep_alive;    /* of a model nobody asks, in seconds; negative: for ever */
    double drain_seconds; /* 0: 30 */
    const char *limits[SERVER_MAX_LIMITS]; /* "NAME=VALUE", see server/door/http_limits.h */
    size_t n_limits;
} server_options;

/* Opens the sockets and makes the scheduler. The text of a failure says what to change. */
mote_status server_new(server **out, const server_options *options, mote_error *err);
/* Serves until server_stop, then drains. */
mote_status server_run(server *s, mote_error *err);
/* From a signal handler or another thread: first call drains, the second one ends at once. */
void server_stop(server *s);
void server_free(server *s);

/* A new key, in clear, and the line of a key file that lets it infer, under this name if there is
 * one; all terminated. */
enum { SERVER_KEY_BYTES = 64, SERVER_KEY_NAME_BYTES = 33, SERVER_KEY_LINE_BYTES = 128 };
mote_status server_new_key(char key[SERVER_KEY_BYTES], char line[SERVER_KEY_LINE_BYTES],
                           const char *name, mote_error *err);

/* What handlers need. */
const server_options *server_settings(const server *s);
/* At least one; the first is for requests that name none. */
size_t server_n_models(const server *s);
served_model *server_model(const server *s, size_t i);
/* Keys that it knows now. */
size_t server_n_keys(const server *s);
/* How many addresses it listens on, and the name of one: "127.0.0.1:11435", "unix:PATH". */
size_t server_n_addresses(const server *s);
const char *server_address(const server *s, size_t i);

#endif
