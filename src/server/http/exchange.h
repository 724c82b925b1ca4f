/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange.h - one HTTP request and its reply, as a handler sees them.
 *
 * A handler gets an exchange when the request is complete and the on_head hook has accepted it. It
 * replies exactly once, immediately or later: with a whole body or as a stream. If the client
 * closes the connection first, the function set with exchange_on_disconnect() is called. After that
 * call, and after the end of the reply, the exchange must not be used.
 *
 * All functions run on the event loop thread. event_loop_work() runs a function on a worker thread.
 */
#ifndef MOTE_SERVER_HTTP_EXCHANGE_H
#define MOTE_SERVER_HTTP_EXCHANGE_H

#include "base/err.h"
#include "base/str.h"

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
    str path;  /* percent-decoded once; used for routing and for access checks */
    str query; /* without '?', not decoded */
    str body;

    /* Set by the on_head hook. The HTTP layer uses `cors` only. */
    const struct route *route; /* NULL: no route matched */
    int dialect;               /* api_dialect: format of error bodies */
    str tail;                  /* the part of the path that matched the wildcard of the route */
    uint64_t client;           /* id of the key, or of the address if there are no keys */
    uint64_t ns;               /* cache namespace, one per key; 0 if there are no keys */
    bool admin;                /* the key has the scope admin, or there are no keys */
    struct quota *quota;       /* of the key; NULL if there are no keys */
    const char *key;           /* name of the key; NULL or "": none */
    bool cors;                 /* the Origin is allowed: send the CORS headers */
    bool background;           /* other requests come first */
    double max_body;           /* most bytes of the body; 0: --limit body-bytes */
} http_request;

const http_request *exchange_request(const exchange *x);
/* Moves the request body to the caller. It counts for --limit total-body-bytes until the exchange
 * ends. */
strbuf exchange_take_body(exchange *x);
/* Value of a request header by its lower-case name; empty if absent. */
str exchange_header(const exchange *x, const char *name);
/* The same; p is NULL if absent. */
str exchange_find_header(const exchange *x, const char *name);
/* Does the name of any request header start with `prefix`? Case is ignored. */
bool exchange_has_header_prefix(const exchange *x, const char *prefix);
/* Does the request have a body? */
bool exchange_has_body(const exchange *x);
/* The client address; see peers.h. */
struct peer *exchange_peer(const exchange *x);
/* "req_" and 24 hex digits, zero-terminated. */
const char *exchange_id(const exchange *x);
/* `context` of the hooks. */
void *exchange_context(const exchange *x);
/* os_now() when the request was complete. */
double exchange_began(const exchange *x);

/* Call both before the reply begins. `disconnect` replaces an earlier one; NULL: none. */
void exchange_on_disconnect(exchange *x, void (*disconnect)(void *with), void *with);
/* Adds a reply header. Ignored if a text contains a control character. Both texts are copied. */
void exchange_add_header(exchange *x, const char *name, const char *value);
/* The reply depends on the Accept header: adds it to Vary, for caches. */
void exchange_vary_by_accept(exchange *x);
/* The same for Accept-Encoding. */
void exchange_vary_by_encoding(exchange *x);
/* "GET, HEAD" for a set of methods. */
enum { HTTP_METHODS_BYTES = 48 };
void http_method_names(char out[HTTP_METHODS_BYTES], unsigned methods);

/* Sends a whole reply; the body is copied. Ends the exchange. If the body is large and the replies
 * that clients have not read yet exceed --limit total-reply-bytes, sends 503 instead. */
void exchange_reply(exchange *x, int status, const char *content_type, str body);
#define EXCHANGE_JSON "application/json; charset=utf-8"
/* Sends `body` with status 200 and frees it. If building it ran out of memory, sends 503. */
void exchange_reply_built(exchange *x, const char *content_type, strbuf *body);

/* A stream: begin, any number of writes, end. Written bytes are copied and sent together at the end
 * of the loop iteration. A client that reads nothing for --limit stall-seconds, or leaves more than
 * --limit output-buffer-bytes unread, is disconnected. */
void exchange_begin(exchange *x, int status, const char *content_type);
/* The same for a body of `bytes` bytes, which the writes must have together. */
void exchange_begin_sized(exchange *x, int status, const char *content_type, size_t bytes);
void exchange_write(exchange *x, str bytes);
/* Calls `drained` once, when the kernel has taken what was written so far. A body that is longer than
 * the buffer is written in such pieces. Not if the connection is closed before. */
void exchange_on_drained(exchange *x, void (*drained)(void *with), void *with);
/* Most bytes of such a piece. */
size_t exchange_piece_bytes(const exchange *x);
void exchange_end(exchange *x);
/* Closes the connection immediately, so that the client sees an incomplete stream. */
void exchange_abort(exchange *x);

/* Stats for the log line, copied. Call it before the reply ends. */
struct log_stats;
void exchange_note(exchange *x, const struct log_stats *stats);

/* ---- errors ---- */

typedef enum http_error_kind {
    HTTP_E_INVALID,     /* 400 */
    HTTP_E_AUTH,        /* 401 */
    HTTP_E_PERMISSION,  /* 403 */
    HTTP_E_NOT_FOUND,   /* 404 */
    HTTP_E_METHOD,      /* 405 */
    HTTP_E_ACCEPT,      /* 406 */
    HTTP_E_TIMEOUT,     /* 408 */
    HTTP_E_CONFLICT,    /* 409 */
    HTTP_E_TOO_LARGE,   /* 413 */
    HTTP_E_TARGET,      /* 414 */
    HTTP_E_TYPE,        /* 415 */
    HTTP_E_RATE,        /* 429 */
    HTTP_E_HEADERS,     /* 431 */
    HTTP_E_QUEUE,       /* 429; 529 in the Anthropic API */
    HTTP_E_INTERNAL,    /* 500 */
    HTTP_E_UNSUPPORTED, /* 501 */
    HTTP_E_UNAVAILABLE  /* 503 */
} http_error_kind;

typedef struct http_error {
    http_error_kind kind;
    const char *code;  /* short stable word; NULL: no error */
    char param[128];   /* the field, as a JSON pointer or messages[2].content; may be "" */
    char text[512];    /* for people; never contains addresses, paths or keys */
    const char *more;  /* further members of an OpenAI error object, ",\"n_ctx\":5"; may be NULL */
    unsigned retry_ms; /* for Retry-After; 0: default */
    unsigned allow;    /* methods for the header Allow; 0: do not send it */
} http_error;

void http_error_set(http_error *e, http_error_kind kind, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The HTTP status of a kind. */
int http_error_status(http_error_kind kind);
/* Translates an error of the scheduler, the renderer or the engine. */
void http_error_from(http_error *error, const mote_error *from);

/* The following return false, so that a reader can end with `return http_error_...`. */

bool http_error_no_memory(http_error *error);
/* The field `at`, such as messages[2].content, is invalid. The text is `at` and the format. */
bool http_error_invalid(http_error *error, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with another code. */
bool http_error_refused(http_error *error, const char *at, const char *code, const char *why);
bool http_error_unsupported(http_error *error, const char *at, const char *what);

/* Replies with an error, formatted by the print_error hook. Ends the exchange. */
void exchange_fail(exchange *x, const http_error *e);

#endif
