/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - one request and its reply, as those who answer it see them.
 *
 * Everything here belongs to the loop thread; event_loop_work() runs a function on a worker thread.
 * By the time a handler sees an exchange, its request is whole, went through the gate, and came
 * with the privilege that its route asks for. A handler replies exactly once, now or later: in one
 * piece, or as a stream. If the client goes first, `gone` is called and the exchange must
 * not be touched again; after the end of a reply likewise, without the call.
 */
#ifndef MOTE_SERVER_HTTP_EXCHANGE_H
#define MOTE_SERVER_HTTP_EXCHANGE_H

#include "base/err.h"
#include "base/strbuf.h"
#include "server/core/context.h"

typedef struct exchange exchange;

typedef enum http_method {
    HTTP_GET = 1,
    HTTP_HEAD = 2,
    HTTP_POST = 4,
    HTTP_DELETE = 8,
    HTTP_OPTIONS = 16
} http_method;

typedef struct http_request {
    http_method method;
    str path;  /* decoded once; what the router and the privilege check saw */
    str query; /* without '?', as it came */
    str tail;  /* of a route that ends with a wildcard: what it stands for */
    str body;
    uint64_t client;     /* by key, or by address without one */
    uint64_t ns;         /* by key; 0 if there are no keys */
    bool admin;          /* the key has that scope, or there are no keys */
    struct quota *quota; /* what the key may use; NULL if there are no keys */
} http_request;

const http_request *exchange_request(const exchange *x);
/* The value of a request header, by its name in lower case; empty if it did not come. */
str exchange_header(const exchange *x, const char *name);
/* "req_" and 24 characters, terminated. */
const char *exchange_id(const exchange *x);
/* The context of the hooks: a server_context. */
void *exchange_context(const exchange *x);
/* Seconds on os_now's clock when the request was whole. */
double exchange_began(const exchange *x);

/* Both before the reply begins. `gone` replaces an earlier one; NULL: none. */
void exchange_on_gone(exchange *x, void (*gone)(void *with), void *with);
/* Neither text may hold a line break; the value is copied. */
void exchange_add_header(exchange *x, const char *name, const char *value);

/* The whole reply; the body is copied. Ends the exchange. */
void exchange_reply(exchange *x, int status, const char *content_type, str body);
#define EXCHANGE_JSON "application/json; charset=utf-8"
/* The same with 200, of a body that was built, which is freed; if there was no memory to build it,
 * the reply says so. */
void exchange_reply_built(exchange *x, const char *content_type, strbuf *body);

/* A stream: begin, any number of writes, end. Bytes are copied and sent together at the end of
 * the loop's turn. A client that takes nothing for too long, or lets too much pile up, is gone. */
void exchange_begin(exchange *x, int status, const char *content_type);
void exchange_write(exchange *x, str bytes);
void exchange_end(exchange *x);
/* Closes the connection at once, so that the client sees a stream without an end. */
void exchange_abort(exchange *x);

/* What the log says about the work that was done for it, copied; before the reply ends. */
struct log_stats;
void exchange_note(exchange *x, const struct log_stats *stats);

/* ---- errors, in the form of the route's dialect ---- */

typedef enum api_error_kind {
    API_E_INVALID,     /* 400 */
    API_E_AUTH,        /* 401 */
    API_E_PERMISSION,  /* 403 */
    API_E_NOT_FOUND,   /* 404 */
    API_E_METHOD,      /* 405 */
    API_E_TIMEOUT,     /* 408 */
    API_E_CONFLICT,    /* 409 */
    API_E_TOO_LARGE,   /* 413 */
    API_E_TARGET,      /* 414 */
    API_E_TYPE,        /* 415 */
    API_E_RATE,        /* 429 */
    API_E_HEADERS,     /* 431 */
    API_E_QUEUE,       /* 429, for Anthropic's clients 529 */
    API_E_INTERNAL,    /* 500 */
    API_E_UNSUPPORTED, /* 501 */
    API_E_UNAVAILABLE  /* 503 */
} api_error_kind;

typedef struct http_error {
    api_error_kind kind;
    const char *code;  /* a short stable word */
    char param[128];   /* where in the body, as a JSON pointer or messages[2].content; may be "" */
    char text[512];    /* for a person; no addresses, no paths, no keys */
    const char *more;  /* more members of OpenAI's error object, ",\"n_ctx\":5"; may be NULL */
    unsigned retry_ms; /* when to come again; 0: not said */
} http_error;

void api_error_set(http_error *e, api_error_kind kind, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* For want of memory, which may be there in a second. */
void api_error_no_memory(http_error *e);
/* The error as a body of this dialect, appended to `out`; returns the HTTP status. */
int api_error_print(const http_error *e, api_dialect dialect, const char *request_id, strbuf *out);
/* Replies with it, headers included. Ends the exchange. */
void exchange_fail(exchange *x, const http_error *e);
api_dialect exchange_dialect(const exchange *x);

#endif
