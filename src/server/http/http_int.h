/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_int.h - structures shared by the files of server/http.
 *
 * An http_server has a connection_set. A connection has a reader, which turns its input into one
 * exchange at a time. Event loop thread only.
 *
 * A connection is never closed inside a callback of a handler: setters only mark it as touched, and
 * connection_turn() acts on the marks at the end of the loop iteration.
 */
#ifndef MOTE_SERVER_HTTP_HTTP_INT_H
#define MOTE_SERVER_HTTP_HTTP_INT_H

#include "server/http/head.h"
#include "server/http/http_server.h"
#include "server/http/peers.h"

#include <uv.h>

/* ---- exchange ---- */

enum { EXCHANGE_ID_BYTES = 4 + 24 + 1 };

struct exchange {
    struct http_server *http;
    struct connection *c; /* NULL: a local exchange */
    char id[EXCHANGE_ID_BYTES];
    strbuf head_bytes; /* raw head, which `head` has offsets into; empty: head_check() refused it */
    http_head head;
    strbuf path, body;
    size_t taken; /* bytes of a body that the handler has taken */
    http_request request;
    double received; /* os_now() when the head was complete */
    double complete; /* the same for the body */
    bool may_keep;   /* the connection can carry another request after this one */

    void (*disconnect)(void *with);
    void *with;

    strbuf headers;   /* reply headers added by handlers */
    bool by_accept;   /* the reply depends on the Accept header */
    bool by_encoding; /* or on Accept-Encoding */
    strbuf pending;   /* of a stream: written and not yet framed */
    int status;       /* 0: no reply yet */
    uint64_t sent;    /* bytes of the reply body */
    size_t large;     /* the same, if it counts for LIMIT_REPLIES */
    bool streaming, chunked, over;
    bool sized;                  /* a stream of known length, which is in the head */
    void (*drained)(void *with); /* NULL: none */
    void *drained_with;
    log_stats stats; /* stop == NULL: none */

    /* of a local exchange */
    strbuf reply;                             /* body */
    void (*replied)(void *with, exchange *x); /* NULL: canceled */
    void *replied_with;
    struct exchange *next_replied;
};

/* NULL: out of memory or no random bytes. */
exchange *exchange_new(struct http_server *h, struct connection *c);
void exchange_free(exchange *x);
/* Moves what a stream has written to the output of the connection, as one chunk. */
void exchange_frame(exchange *x);
/* The client has closed the connection: calls `disconnect` and on_finished. */
void exchange_lost(exchange *x);
/* The reply is sent: calls on_finished. */
void exchange_finished(exchange *x);
/* The reply of a local exchange is complete: local_exchange_turn() delivers it. */
void local_exchange_end(exchange *x);
/* At the end of a loop iteration. */
void local_exchange_turn(struct http_server *h);

/* ---- reader: bytes of a connection to an exchange ---- */

typedef enum reader_state {
    READER_IDLE, /* no byte of a request received */
    READER_HEAD,
    READER_BODY,
    READER_HANDLING /* a handler has the exchange; call reader_next() after its reply */
} reader_state;

typedef struct reader {
    reader_state state;
    head_checker checker;
    http_parser *parser;
    exchange *x;         /* set when the head is complete */
    bool served;         /* at least one request has been served */
    double since;        /* when the state began */
    double window;       /* start of the current window of the body rate limit */
    size_t window_bytes; /* body bytes received before the window */
} reader;

/* false: out of memory. */
bool reader_init(reader *r);
void reader_fini(reader *r);
/* Prepares for another request. */
void reader_next(reader *r, double now);
/* Consumes unused input; returns the number of bytes consumed. Stops after one request: the state
 * is READER_HANDLING then. */
size_t reader_feed(reader *r, struct connection *c, str bytes, double now);
/* Has a deadline passed? */
bool reader_is_late(reader *r, const limits *l, double now);
/* The error of a connection that is over a limit. */
void reader_set_refusal(const struct connection *c, http_error *e);
/* Replies with that error before the head is complete. false: out of memory. */
bool reader_refuse_connection(reader *r, struct connection *c);
/* Replies with 408. false: there is no request to reply to; close the connection. */
bool reader_reply_late(reader *r, struct connection *c);

/* ---- connection ---- */

typedef enum connection_phase {
    CONNECTION_OPEN,
    CONNECTION_LINGERING, /* the last reply is sent; input is discarded until the client closes */
    CONNECTION_CLOSING
} connection_phase;

/* Why a connection is over a limit. It stays open until the head of its request is read, so that
 * the error has the format of its API. */
typedef enum connection_refusal {
    CONNECTION_ACCEPTED,
    CONNECTION_OVER_TOTAL,
    CONNECTION_OVER_ADDRESS
} connection_refusal;

typedef struct connection {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } as;
    struct connection_set *all;
    peer *peer;
    connection_phase phase;
    connection_refusal refusal;
    reader reader;
    strbuf in;
    size_t in_at;   /* bytes of `in` that the reader has consumed */
    strbuf out;     /* not yet passed to the kernel */
    strbuf sending; /* passed to libuv, which writes it */
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool writing, reading;
    bool ended;           /* the reply is complete */
    bool keep;            /* another request may follow it */
    bool must_close;      /* close without sending the remaining output */
    bool touched;         /* in the list of touched connections */
    bool eof;             /* the client has closed its side */
    double progress;      /* when the kernel last accepted bytes */
    size_t unsent_before; /* unsent bytes at that time */
    size_t lingered;      /* bytes discarded while lingering */
    struct connection *next, *previous;
    struct connection *next_touched;
} connection;

enum { CONNECTION_READ_BYTES = 65536 };

typedef struct connection_set {
    http_server *http;
    connection *first;
    connection *touched;
    uint32_t n;
    uint32_t n_refused; /* of these, over a limit */
    /* Listeners with a pending connection that could not be accepted for lack of memory. libuv
     * reports no further connection of a listener before that one is accepted, so the next sweep
     * tries again. */
    struct {
        uv_stream_t *listener;
        bool is_unix;
    } retry[LISTEN_MAX];
    size_t n_retry;
    char buffer[CONNECTION_READ_BYTES]; /* of one read; copied before the next */
} connection_set;

/* Accepts the pending connection of a listener, or takes the accepted socket `fd` if it is not
 * negative. */
void connection_set_accept(connection_set *all, uv_stream_t *listener, int fd, bool is_unix);
/* Sends, reads on and closes touched connections. At the end of a loop iteration. */
void connection_set_turn(connection_set *all);
/* Checks deadlines. */
void connection_set_sweep(connection_set *all, double now);
/* Closes idle connections; the others close after their reply. */
void connection_set_drain(connection_set *all);
void connection_set_close(connection_set *all);
uint32_t connection_set_busy(const connection_set *all);

/* ---- server ---- */

/* The life of a server, in this order; see http_server.h. */
typedef enum http_phase {
    HTTP_SERVING,
    HTTP_STOPPING,
    HTTP_CLOSED,
    HTTP_DRAINING,
    HTTP_CUTTING,
    HTTP_FINISHED
} http_phase;

struct http_server {
    http_hooks hooks;
    limits limits;
    bool vary_origin;
    double drain_delay, drain_seconds;
    event_loop *loop;
    peers *peers;
    listen_set listening;
    connection_set connections;
    http_phase phase;
    double phase_until; /* end of the phase; ignored while serving */
    double last_peers_sweep;
    exchange *replied, **last_replied; /* local exchanges with a complete reply, in order */
    uint64_t body_bytes;               /* of clients' requests that are read or handled */
    uint64_t reply_bytes;              /* of large replies that are not sent completely */
    uint64_t requests, refused_connections, refused_requests;
};

/* ---- setters of a connection for exchange.c and request_reader.c ---- */

static inline http_server *connection_http(const connection *c)
{
    return c->all->http;
}

/* Requests a turn at the end of this loop iteration. */
static inline void connection_touch(connection *c)
{
    if (c->touched || c->phase == CONNECTION_CLOSING)
        return;
    c->touched = true;
    c->next_touched = c->all->touched;
    c->all->touched = c;
}

/* The reply is complete. keep: another request may follow. */
static inline void connection_ended(connection *c, bool keep)
{
    c->ended = true;
    c->keep = keep;
    connection_touch(c);
}

/* Closes without sending the remaining output. */
static inline void connection_abort(connection *c)
{
    c->must_close = true;
    connection_touch(c);
}

#endif
