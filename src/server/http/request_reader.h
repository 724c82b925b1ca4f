/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_reader.h - from the bytes of a connection to a handler.
 *
 *   gate -> llhttp -> Host, Origin -> key -> route -> scope -> type, size -> body -> handler
 *
 * All that can be refused from the head is refused before the body is read; then the
 * connection is closed, because what follows on it is of no use any more.
 */
#ifndef MOTE_SERVER_HTTP_REQUEST_READER_H
#define MOTE_SERVER_HTTP_REQUEST_READER_H

#include "server/http/exchange_int.h"
#include "server/http/http_parser.h"

typedef enum reader_state {
    READER_IDLE, /* nothing of a request has come */
    READER_HEAD,
    READER_BODY,
    READER_HANDLING /* the handler has it; call reader_next when it is done */
} reader_state;

typedef struct reader {
    reader_state state;
    gate gate;
    http_parser *parser;
    exchange *x;         /* from the end of the head on */
    bool served;         /* there was a request before */
    double since;        /* when the state began */
    double window;       /* the present stretch of the body: since when, */
    size_t window_bytes; /* and how many bytes there were before it */
} reader;

/* false: no memory. */
bool reader_init(reader *r);
void reader_fini(reader *r);
/* Ready for another request. */
void reader_next(reader *r, double now);

/* Looks at `bytes`, all that has come and was not used yet; returns how many of them are used up.
 * Stops when a request is whole: state is READER_HANDLING then, and may be so at once again. */
size_t reader_take(reader *r, connection *c, str bytes, double now);
/* A deadline has passed: answers with 408. false: there is nothing to answer, close. */
bool reader_too_late(reader *r, connection *c);
/* Has one? */
bool reader_is_late(reader *r, const limits *l, double now);

#endif
