/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - figures for those who watch: Prometheus' text format.
 *
 * Label values come from fixed sets: the models that are served, dialects, labels of the route
 * table, statuses that we send, phases, kinds of memory. So however strange the requests are, the
 * number of series has a bound. There is no series for what this engine does not do.
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
void handle_health(exchange *x);
void handle_options(exchange *x);
void handle_metrics(exchange *x);
void handle_status(exchange *x);
void handle_props(exchange *x);
void handle_props_change(exchange *x);
void handle_slots(exchange *x);
void handle_not_offered(exchange *x);
void handle_request_stats(exchange *x);
void handle_cache(exchange *x);
void handle_cache_prefix(exchange *x);
void handle_cache_pin(exchange *x);
void handle_tokenize(exchange *x);
void handle_detokenize(exchange *x);
void handle_apply_template(exchange *x);
void handle_score(exchange *x);
void handle_rerank(exchange *x);

enum { METRICS_MAX_COUNTS = 512 };

/* Requests that are over, by who they spoke like, their route and how it ended. All zero is empty.
 */
typedef struct request_counts {
    struct request_count {
        api_dialect dialect;
        const char *label; /* a constant of the route table */
        int status;        /* as sent; 499: the client went before the end */
        uint64_t n;
    } rows[METRICS_MAX_COUNTS];
    size_t n;
    uint64_t beyond; /* found no row any more */
} request_counts;

void request_counts_add(request_counts *c, api_dialect dialect, const char *label, int status);

/* Figures of one model. */
typedef struct metrics_model {
    const char *name;
    bool loaded;
    sched_stats work;
    uint64_t calls_malformed; /* passed on as text */
    mote_memory memory;       /* its total: with what seeing may take */
    bool sees;
    uint64_t memory_vision; /* planned; 0 if it does not see */
    vision_stats vision;
} metrics_model;

/* All that is printed, gathered at one moment. */
typedef struct metrics_view {
    const char *version, *isa;
    const request_counts *counts;
    metrics_model models[SERVER_MAX_MODELS];
    size_t n_models;
    http_stats http;
    uint64_t structured_outputs;
    uint64_t decoder_exits;
    uint64_t over_quota[QUOTA_KINDS]; /* requests refused for a limit of their key */
    uint64_t memory_limit;            /* 0: none */
    bool draining;
    double uptime;
} metrics_view;

void metrics_gather(metrics_view *v, server_context *s);
void metrics_print(strbuf *out, const metrics_view *v);
/* All models together, without the histograms; its name is that of the first. */
void metrics_sum(metrics_model *out, const metrics_view *v);

#endif
