/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - a model at an address: what `mote serve` starts.
 *
 * One loop thread (libuv) owns sockets, timers, exchanges and replies; the scheduler's engine
 * thread owns the model's work; libuv's pool prepares requests (JSON, rendering, grammars).
 * libuv is seen by door_loop.c and conn.c only, llhttp by http_parse.c.
 */
#ifndef MOTE_SERVER_SERVER_H
#define MOTE_SERVER_SERVER_H

#include "serve/recall.h"
#include "serve/sched.h"
#include "server/exchange.h"

enum {
    SERVER_MAX_LISTEN = 16,
    SERVER_MAX_KEYS = 64,
    SERVER_MAX_HOSTS = 64,
    SERVER_MAX_LIMITS = 16
};

typedef struct server_options {
    const mote_model *model;
    const char *model_path;        /* for its file name and date; never shown whole */
    const char *name;              /* what the model is called; NULL: from the file */
    sched_options sched;           /* model, wake and with are ours; its memory is for everything */
    struct media_nursery *nursery; /* for pictures; NULL: the model cannot see, or must not */
    uint32_t image_tokens;         /* of a picture, unless a request says otherwise; 0: 1,280 */
    /* "127.0.0.1:11435", "[::1]:11435", "unix:PATH"; none: loopback, or what systemd passed */
    const char *listen[SERVER_MAX_LISTEN];
    size_t n_listen;
    /* "KEY" or "KEY scope,scope", KEY in clear or as "sha256:HEX"; without scopes it may infer.
     * Copied as digests. */
    const char *keys[SERVER_MAX_KEYS];
    size_t n_keys;
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
    bool keep_volatile;    /* a billing header in front of a system text stays there */
    bool log_json;
    int log_level;                         /* 0: errors; 1: a line per request; 2: more */
    double drain_seconds;                  /* 0: 30 */
    const char *limits[SERVER_MAX_LIMITS]; /* "NAME=VALUE", see server/door_limits.h */
    size_t n_limits;
} server_options;

/* Opens the sockets and makes the scheduler. The text of a failure says what to change. */
mote_status server_new(server **out, const server_options *options, mote_error *err);
/* Serves until server_stop, then drains. */
mote_status server_run(server *s, mote_error *err);
/* From a signal handler or another thread: first call drains, the second one ends at once. */
void server_stop(server *s);
void server_free(server *s);

/* A new key, in clear, and the line of a key file that lets it infer; both terminated. */
enum { SERVER_KEY_BYTES = 64, SERVER_KEY_LINE_BYTES = 96 };
mote_status server_new_key(char key[SERVER_KEY_BYTES], char line[SERVER_KEY_LINE_BYTES],
                           mote_error *err);

/* What handlers need. */
const server_options *server_settings(const server *s);
sched *server_sched(const server *s);
recall *server_recall(const server *s);
/* NULL: the model cannot see. */
struct sight *server_sight(const server *s);
/* What the dialects keep; see server/api.h, which also says what the loop calls. */
struct api *server_api(const server *s);
const chat_kit *server_kit(const server *s);
/* The vocabulary for grammars; made at the first call, which takes a while: off the loop. */
mote_status server_vocab(server *s, const struct vocab **out, mote_error *err);
/* Terminated; what the model is called in replies. */
const char *server_model_name(const server *s);
bool server_draining(const server *s);
/* A request was answered in the form it had asked for. On the loop. */
void server_count_form(server *s);
/* How many addresses it listens on, and the name of one: "127.0.0.1:11435", "unix:PATH". */
size_t server_n_addresses(const server *s);
const char *server_address(const server *s, size_t i);
/* Figures of the door, for metrics. */
typedef struct server_figures {
    uint32_t connections;
    uint64_t requests;            /* handed to a route */
    uint64_t refused_connections; /* over a limit, or while draining */
    uint64_t refused_requests;    /* at the gate, or by a rule of access.h */
    uint64_t body_bytes;          /* held for requests at present */
    uint64_t forms;               /* requests answered in a form they had asked for */
    double loop_longest;          /* seconds one turn of the loop took at most, */
    double loop_longest_lately;   /* within the last one or two seconds, */
    uint64_t loop_over_20_ms;     /* and how many took longer than they may */
    double loop_busy;             /* seconds in all */
} server_figures;
void server_read_figures(const server *s, server_figures *out);
/* Seconds since 1970 at the start of the process's model file, for `created`. */
int64_t server_model_date(const server *s);

#endif
