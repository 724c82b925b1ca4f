/* SPDX-License-Identifier: Apache-2.0 */
/*
 * background.h - replies that take no model but some time: made on a thread of the pool.
 *
 * A handler starts an aside with a function, which sees the body and the server, writes the reply
 * or an error, and is gone. Whether the client still waits is not its business.
 */
#ifndef MOTE_SERVER_API_COMMON_BACKGROUND_H
#define MOTE_SERVER_API_COMMON_BACKGROUND_H

#include "json/json_writer.h"
#include "server/core/context.h"
#include "server/http/event_loop.h"
#include "server/http/exchange.h"
#include "server/models/model_registry.h"

typedef struct background_job {
    server_context *ctx;
    uint64_t ns; /* of the request; so its scope */
    bool admin;
    const json_node *body;    /* an object; NULL: the route has none */
    strbuf tail;              /* what the wildcard of the route stands for */
    strbuf out;               /* the reply */
    const char *content_type; /* JSON unless changed */
    http_error error;         /* if its code is set it is the reply */

    exchange *x; /* aside.c's own from here on */
    strbuf text;
    json_doc *doc;
    void (*run)(struct background_job *s);
} background_job;

/* `with_body`: the request brings a JSON object, or the reply is an error. */
void background_start(exchange *x, void (*run)(background_job *s), bool with_body);

/* A member that must be a string; false: it is missing or something else, and the error says so. */
bool background_text(background_job *s, const char *name, str *out);

#endif
