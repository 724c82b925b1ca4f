/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_int.h - the inside of an exchange, for exchange.c, reader.c and connection.c. */
#ifndef MOTE_SERVER_HTTP_EXCHANGE_INT_H
#define MOTE_SERVER_HTTP_EXCHANGE_INT_H

#include "server/auth/access.h"
#include "server/http/connection.h"
#include "server/http/head.h"
#include "server/core/log.h"

enum { EXCHANGE_ID_BYTES = 4 + 24 + 1 };

struct exchange {
    connection *c;
    char id[EXCHANGE_ID_BYTES];
    strbuf head_bytes; /* what the offsets of `head` count from; empty: it did not pass the gate */
    http_head head;
    strbuf path, body;
    http_request request;
    const route *route; /* NULL: none was found, or nobody looked yet */
    api_dialect dialect;
    access_answer access;
    double came;   /* the head was complete */
    double whole;  /* and the body */
    bool may_keep; /* the request allows another one behind it */

    void (*gone)(void *with);
    void *with;

    strbuf headers; /* added by handlers */
    strbuf pending; /* of a stream: not yet framed */
    int status;     /* 0: no reply yet */
    uint64_t sent;  /* bytes of the reply's body */
    bool streaming, chunked, over;
    log_stats stats; /* for the log; its `stop` is NULL: there are none */
};

/* NULL: no memory, or no random bytes. */
exchange *exchange_new(connection *c);
void exchange_free(exchange *x);
/* Frames what a stream has written, at the end of a turn. */
void exchange_frame(exchange *x);
/* The client has gone: tells the handler and the log. */
void exchange_lost(exchange *x);
/* Tells the log about a reply that is complete. */
void exchange_logged(exchange *x);

#endif
