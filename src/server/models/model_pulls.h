/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_pulls.h - downloads of models by `mote serve --allow-pull`.
 *
 * A pull is a process outside the sandbox of the server, which writes events (src/pull/README.md).
 * Requests for the same files share one pull. It is cancelled when its last client leaves;
 * what was downloaded so far is kept for the next one.
 *
 * Everything runs on the loop thread, except model_pulls_request().
 */
#ifndef MOTE_SERVER_MODELS_MODEL_PULLS_H
#define MOTE_SERVER_MODELS_MODEL_PULLS_H

#include "json/json.h"
#include "server/models/model_registry.h"

/* Where the processes come from. */
typedef struct model_pull_source {
    /* Appends the request for the model `name`. Worker thread. MOTE_E_ARG: no such model to
     * download. */
    mote_status (*request)(void *with, const char *name, strbuf *out, mote_error *err);
    /* Starts the process. *fd: its events; closing it ends the process. NULL: no pulls. */
    mote_status (*start)(void *with, str request, int *fd, mote_error *err);
    void *with;
} model_pull_source;

typedef struct model_pulls model_pulls;
struct event_loop;

typedef struct model_pulls_options {
    model_pull_source source;
    struct event_loop *loop;
    model_registry *models; /* scanned again after a pull */
    unsigned most;          /* at the same time */
} model_pulls_options;

mote_status model_pulls_new(model_pulls **out, const model_pulls_options *options, mote_error *err);
/* All clients must have left. NULL is allowed. */
void model_pulls_free(model_pulls *p);

/* Worker thread: see model_pull_source. */
mote_status model_pulls_request(model_pulls *p, const char *name, strbuf *out, mote_error *err);

/* A request that waits for a pull. The caller owns the memory. */
typedef struct model_pull_client {
    /* An event of mote-pull. `over`: it is the last one, "done" or "error", and the client has
     * left. After "done" the model is in the registry. NULL: the process ended without one. */
    void (*event)(void *with, const json_node *event, bool over);
    void *with;
    /* private */
    struct model_pull *pull; /* NULL: has left */
    struct model_pull_client *next;
} model_pull_client;

/* Starts a pull, or joins the one with the same request. MOTE_E_FULL: too many pulls. */
mote_status model_pulls_join(model_pulls *p, str request, model_pull_client *c, mote_error *err);
/* Ends all pulls, because the server stops. Clients get NULL as the last event. */
void model_pulls_cut(model_pulls *p);
/* Does nothing if the client has left. */
void model_pulls_leave(model_pull_client *c);

#endif
