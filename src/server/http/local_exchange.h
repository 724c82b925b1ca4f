/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_exchange.h - requests that the server makes itself: an exchange without a connection.
 *
 * A handler cannot tell it from the request of a client. The reply goes to a function instead of a
 * socket. The request hooks of the HTTP server are not called: there is no head to check, and the
 * owner counts what it started. Bodies do not count for --limit total-body-bytes: they must not take
 * that memory from clients. Event loop thread only.
 */
#ifndef MOTE_SERVER_HTTP_LOCAL_EXCHANGE_H
#define MOTE_SERVER_HTTP_LOCAL_EXCHANGE_H

#include "server/http/http_server.h"

typedef struct local_request {
    const char *path; /* must stay valid; sets the format of errors */
    void (*handler)(exchange *x);
    uint64_t client, ns; /* as in http_request */
    bool background;
    /* The reply is complete: read it with the functions below. `x` ends when this returns. Called
     * at the end of a loop iteration, never inside local_exchange_start(). */
    void (*replied)(void *with, exchange *x);
    void *with;
} local_request;

/* POSTs `body` and takes its memory. NULL: out of memory; the body is freed. */
exchange *local_exchange_start(http_server *h, const local_request *r, strbuf *body);
/* Ends an exchange without a reply, as if the client had closed the connection. */
void local_exchange_cancel(exchange *x);

/* The HTTP status; 0: the handler ran out of memory, and the body is not complete. */
int local_exchange_status(const exchange *x);
str local_exchange_body(const exchange *x);

#endif
