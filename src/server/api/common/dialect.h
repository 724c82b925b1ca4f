/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dialect.h - how an API route reads requests and prints replies, and the two ways to handle one.
 *
 * dispatch_start(): routes that use a model. The body is parsed by `read` into a request, the same
 * for all APIs; generation.c runs it and calls the printer.
 *
 * background_start(): routes that need no engine but take too long for the event loop. A
 * function builds the whole reply on a worker thread.
 */
#ifndef MOTE_SERVER_API_COMMON_DIALECT_H
#define MOTE_SERVER_API_COMMON_DIALECT_H

#include "server/generation/generation.h"

#include <stdatomic.h>

typedef struct dialect {
    const char *label; /* in /v1/status: "openai", "anthropic", "ollama", "responses" */
    unsigned fields;   /* PARAM_IN_*: its rows of the parameter table */
    /* Worker thread. The body is a JSON object and the rows of `fields` have been read. false:
     * *error is set. */
    bool (*read)(request *a, http_error *error);
    /* Worker thread, if the model is not loaded. true: the request needs no model, and `rendered` of
     * the printer replies. NULL: every request needs one. */
    bool (*needs_no_model)(request *a);
    bool tokenizes; /* `read` tokenizes texts, which costs more than to parse them */
    generation_printer printer;
} dialect;

/* Reads the request and runs it. `d` must stay valid. The quota of the key must admit it. */
void dispatch_start(exchange *x, const dialect *d);

/* Parses a body, which must be a JSON object. false: *error is set; free *doc in any case. */
bool body_read(json_doc **doc, str text, http_error *error);

typedef struct background_job {
    server_context *ctx;
    uint64_t ns, client;      /* cache namespace and number of the key */
    bool admin;               /* the key has scope admin */
    const json_node *body;    /* a JSON object; NULL: the route has no body */
    strbuf tail;              /* the path behind the prefix of a wildcard route */
    strbuf query;             /* of the target, not decoded */
    strbuf text;              /* the body as it was sent */
    strbuf out;               /* the reply */
    const char *content_type; /* EXCHANGE_JSON unless changed */
    http_error error;         /* replied instead of `out` if its code is set */
    request request; /* with_model: `served` is the loaded model; body and root are not set */
    /* `run` may set a model to unload. The reply is sent when that is over: `unloaded` prints it on
     * the loop thread. */
    model_unload unload;
    void (*unloaded)(struct background_job *s);

    /* private to dispatch.c */
    exchange *x; /* NULL: the client has disconnected */
    atomic_bool gone;
    struct quota *quota; /* charged at the end; NULL: none */
    size_t bytes;        /* of the body */
    bool with_model, waiting, unloading;
    bool raw;        /* the body is not JSON */
    model_wait wait; /* for the model to be loaded */
    json_doc *doc;
    void (*run)(struct background_job *s);
} background_job;

/* Calls `run` on a worker thread and sends the reply. `with_body`: the body must be a JSON object.
 */
void background_start(exchange *x, void (*run)(background_job *s), bool with_body);
/* The same with a body in another format, which `run` reads from `text`. */
void background_start_raw(exchange *x, void (*run)(background_job *s));
/* The same with a body that may name a model, which is loaded first. The quota of the key must
 * admit the request and is charged for it. */
void background_start_with_model(exchange *x, void (*run)(background_job *s));
/* Has the client not disconnected? `s`: a background_job. For mote_tokenize_with_hook(). */
bool background_goes_on(void *s);
/* Reads a required string member of the body. false: s->error is set. */
bool background_text(background_job *s, const char *name, str *out);

#endif
