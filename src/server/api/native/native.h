/* SPDX-License-Identifier: Apache-2.0 */
/*
 * native.h - handlers of the native routes; values shared by /metrics and /v1/status.
 *
 * Label values of metrics come from fixed sets: served models, APIs, routes, HTTP status codes,
 * phases, kinds of memory. So requests cannot create an unbounded number of series.
 */
#ifndef MOTE_SERVER_API_NATIVE_NATIVE_H
#define MOTE_SERVER_API_NATIVE_NATIVE_H

#include "server/auth/quota.h"
#include "server/core/context.h"
#include "server/http/http_server.h"
#include "server/models/model_registry.h"
#include "server/vision/vision_service.h"

/* Handlers of the route table. */
void handle_root(exchange *x);
void handle_web(exchange *x);
void handle_health(exchange *x);
void handle_options(exchange *x);
void handle_metrics(exchange *x);
void handle_status(exchange *x);
void handle_props(exchange *x);
void handle_props_change(exchange *x);
void handle_slots(exchange *x);
void handle_not_offered(exchange *x);
void handle_request_stats(exchange *x);
void handle_request_last(exchange *x);
void handle_cache(exchange *x);
void handle_cache_prefix(exchange *x);
void handle_cache_pin(exchange *x);
void handle_tokenize(exchange *x);
void handle_detokenize(exchange *x);
void handle_tokenizer_info(exchange *x);
void handle_apply_template(exchange *x);
void handle_score(exchange *x);
void handle_rerank(exchange *x);

enum { METRICS_MAX_COUNTS = 512 };

/* Finished requests by API, route and HTTP status. All zero: empty. */
typedef struct request_counts {
    struct request_count {
        api_dialect dialect;
        const char *label; /* a constant of the route table */
        int status;        /* 499: the client disconnected before the end */
        uint64_t n;
    } rows[METRICS_MAX_COUNTS];
    size_t n;
    uint64_t beyond; /* requests without a row because the table is full */
} request_counts;

void request_counts_add(request_counts *c, api_dialect dialect, const char *label, int status);

/* Values of one model. */
typedef struct metrics_model {
    const char *name;
    bool loaded;
    uint64_t context;
    uint32_t threads;
    double leaves_in; /* seconds until it is unloaded; INFINITY: never */
    sched_stats work;
    sched_disk_stats disk;    /* all 0 without a disk cache */
    uint64_t calls_malformed; /* malformed tool calls passed on as text */
    served_model_cache_counts cache;
    mote_memory memory;     /* total includes memory_vision */
    bool has_vision;        /* has a vision encoder */
    uint64_t memory_vision; /* planned; 0 without a vision encoder */
    vision_stats vision;
} metrics_model;

/* A snapshot of all values. */
typedef struct metrics_view {
    const char *version, *isa;
    const request_counts *counts;
    metrics_model models[SERVER_MAX_MODELS]; /* the loaded ones */
    size_t n_models;
    bool has_catalog; /* `registry` is set */
    model_registry_stats registry;
    http_stats http;
    uint64_t structured_outputs;
    uint64_t decoder_exits;
    bool has_batches;
    batch_counts batches;
    uint64_t over_quota[QUOTA_KINDS]; /* requests rejected by a rate limit of their key */
    uint64_t memory_limit;            /* 0: none */
    bool draining;
    double uptime;
} metrics_view;

/* Event loop thread. */
void metrics_gather(metrics_view *v, server_context *s);
void metrics_print(strbuf *out, const metrics_view *v);
/* The sum of all models, without histograms. The name is that of the first model, or "". */
void metrics_sum(metrics_model *out, const metrics_view *v);

#endif
