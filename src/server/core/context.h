/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - the state that request handlers share.
 *
 * server.c owns one server_context and fills it before the first connection is accepted. Handlers
 * get it with exchange_context() and never see the server itself. Pointers to objects of higher
 * directories are opaque here; a file that uses one includes the header of its object.
 *
 * Threading: the event loop thread reads and writes everything. Worker threads may use `defaults`,
 * `models` and the text stores, which have their own locks.
 */
#ifndef MOTE_SERVER_CORE_CONTEXT_H
#define MOTE_SERVER_CORE_CONTEXT_H

#include "server/core/log.h"
#include "server/core/text_store.h"

#include <mote_chat.h>

/* The API that sets the error format of a reply. */
typedef enum api_dialect {
    API_OPENAI, /* also the default for unknown paths */
    API_ANTHROPIC,
    API_OLLAMA
} api_dialect;

/* Values for requests that do not set them. */
typedef struct request_defaults {
    bool strict;              /* reject unknown fields */
    bool no_ext;              /* no `mote` object in replies */
    bool no_soft_switch;      /* do not interpret /think and /no_think in messages */
    bool keep_billing_header; /* keep a billing header in front of the system text */
    bool official;            /* render as the model's template does; false: keep-thinking */
    mote_think think;         /* AUTO: depends on the size of the model */
    uint32_t think_budget;    /* tokens; 0: MOTE_THINK_MEDIUM */
    uint32_t preset;          /* sampling preset, 1 + mote_task; 0: chosen by request content */
    const char *system;       /* for conversations without a system message; NULL: none */
} request_defaults;

/* For metrics. */
typedef struct batch_counts {
    uint32_t running, waiting; /* batches now */
    uint64_t done, failed;     /* requests of batches; done ones include failed ones */
} batch_counts;

struct access_rules;
struct batches;
struct event_loop;
struct file_store;
struct generation;
struct http_server;
struct limits;
struct model_pulls;
struct model_registry;
struct request_counts;
struct server_sandbox;

typedef struct server_context {
    request_defaults defaults;
    bool web; /* browsers get the chat page */
    const struct limits *limits;
    log_options log;
    struct model_registry *models;
    struct model_pulls *pulls; /* downloads of models; NULL: not allowed */
    bool several_models;       /* log lines have the name of the model */
    const struct server_sandbox *sandbox;
    uint64_t memory_limit; /* bytes for all models together; 0: none */
    struct http_server *http;
    struct event_loop *loop; /* of `http`, for event_loop_work() */
    struct access_rules *access;
    struct generation *generations; /* head of the list of running generations */
    text_store *responses;          /* replies of /v1/responses, by id */
    text_store *items;              /* the items of those replies, by id */
    text_store *reports;            /* `mote` objects of recent requests, by request id */
    bool stopping;                  /* /health says so; requests are still accepted */
    bool draining;                  /* the server finishes running requests and accepts no others */
    double started;                 /* os_now() */
    uint64_t structured_outputs;    /* completed requests with a response format other than text */
    uint64_t decoder_exits;         /* times the image decoder process has ended unexpectedly */
    struct file_store *files;       /* of /v1/files; NULL: none are stored */
    struct batches *batches;        /* of /v1/batches; NULL without `files` */
    batch_counts batch_counts;
    struct request_counts *counts; /* completed requests by dialect, route and status */
} server_context;

#endif
