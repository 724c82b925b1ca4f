/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request_reader.c - from the bytes of a connection to a handler.
 *
 *   head_check() -> llhttp -> path -> on_head hook -> body size -> body -> on_request hook
 *
 * A request is refused as early as possible, before its body is read. After a refusal the
 * connection is closed unless the request was well-formed and has no body.
 */
#include "base/os.h"
#include "server/http/http_int.h"

#include <stdio.h>

bool reader_init(reader *r)
{
    *r = (reader){.parser = http_parser_new(), .since = os_now()};
    return r->parser != NULL;
}

void reader_fini(reader *r)
{
    http_parser_free(r->parser);
    exchange_free(r->x);
    r->parser = NULL;
    r->x = NULL;
}

void reader_next(reader *r, double now)
{
    exchange_free(r->x);
    r->x = NULL;
    r->checker = (head_checker){0};
    r->state = READER_IDLE;
    r->served = true;
    r->since = now;
}

/* ---- refusals ---- */

static void reader_refuse(reader *r, const http_error *error, bool may_keep)
{
    r->state = READER_HANDLING;
    connection_http(r->x->c)->refused_requests++;
    r->x->may_keep = may_keep;
    exchange_fail(r->x, error);
}

static bool reader_make_exchange(reader *r, connection *c)
{
    if (r->x == NULL)
        r->x = exchange_new(connection_http(c), c);
    if (r->x == NULL) {
        r->state = READER_HANDLING;
        connection_abort(c);
    }
    return r->x != NULL;
}

/* Sets the path of a request with an incomplete or malformed head, if its first line has one. Only
 * the format of the error depends on it. */
static void reader_guess_path(exchange *x, str bytes)
{
    const char *end = bytes.n > 0 ? memchr(bytes.p, '\r', bytes.n) : NULL;
    str line = {bytes.p, end != NULL ? (size_t)(end - bytes.p) : bytes.n};
    str_next_word(&line, " ");
    const str target = str_next_word(&line, " ");
    str query;
    size_t n;
    if (x->request.path.n > 0 || target.n == 0 || target.n > LIMIT_MOST_TARGET ||
        !strbuf_reserve(&x->path, target.n + 1) ||
        !head_decode_target(target, x->path.p, &n, &query))
        return;
    x->path.n = n;
    x->request.path = strbuf_view(&x->path);
}

static str connection_input(const connection *c)
{
    return (str){c->in.n > c->in_at ? c->in.p + c->in_at : "", c->in.n - c->in_at};
}

void reader_set_refusal(const connection *c, http_error *e)
{
    const limits *l = &connection_http(c)->limits;
    const bool address = c->refusal == CONNECTION_OVER_ADDRESS;
    const limit_name limit = address ? LIMIT_PER_IP : LIMIT_CONNECTIONS;
    http_error_set(e, address ? HTTP_E_RATE : HTTP_E_UNAVAILABLE, "too_many_connections",
                   "too many connections%s; at most %.0f (--limit %s)",
                   address ? " from this address" : "", l->at[limit], limit_rows[limit].name);
}

bool reader_refuse_connection(reader *r, connection *c)
{
    http_error e;
    if (!reader_make_exchange(r, c))
        return false;
    reader_guess_path(r->x, connection_input(c));
    reader_set_refusal(c, &e);
    reader_refuse(r, &e, false);
    return true;
}

static void set_no_memory(http_error *e)
{
    http_error_set(e, HTTP_E_UNAVAILABLE, "out_of_memory", "the server is out of memory");
}

/* Most bytes of the body. */
static double reader_max_body(const exchange *x)
{
    return x->request.max_body > 0 ? x->request.max_body : x->http->limits.at[LIMIT_BODY];
}

static void set_too_large(http_error *e, const exchange *x)
{
    const limit_name limit = x->request.max_body > 0 ? LIMIT_FILE : LIMIT_BODY;
    http_error_set(e, HTTP_E_TOO_LARGE, "request_too_large",
                   "the body must have at most %.0f bytes (--limit %s)", reader_max_body(x),
                   limit_rows[limit].name);
}

static void reader_refuse_head(reader *r, connection *c, str bytes, head_status status)
{
    static const struct {
        http_error_kind kind;
        const char *code;
    } rows[] = {
        [HEAD_BAD] = {HTTP_E_INVALID, "bad_request"},
        [HEAD_METHOD] = {HTTP_E_METHOD, "method_not_allowed"},
        [HEAD_TARGET] = {HTTP_E_TARGET, "target_too_long"},
        [HEAD_HEADERS] = {HTTP_E_HEADERS, "headers_too_large"},
        [HEAD_CODING] = {HTTP_E_TYPE, "unsupported_media_type"},
    };
    if (!reader_make_exchange(r, c))
        return;
    reader_guess_path(r->x, bytes);
    http_error e;
    http_error_set(&e, rows[status].kind, rows[status].code, "%s", r->checker.why);
    if (status == HEAD_METHOD)
        e.allow = HTTP_GET | HTTP_HEAD | HTTP_POST | HTTP_DELETE | HTTP_OPTIONS;
    reader_refuse(r, &e, false);
}

/* ---- head ---- */

/* The only place that decodes the target. Routing and access checks use the same result. */
static bool reader_decode_target(exchange *x, http_error *error)
{
    const str target = {x->head_bytes.p + x->head.target, x->head.n_target};
    size_t n;
    if (!strbuf_reserve(&x->path, target.n + 1)) {
        set_no_memory(error);
        return false;
    }
    if (!head_decode_target(target, x->path.p, &n, &x->request.query)) {
        http_error_set(error, HTTP_E_INVALID, "bad_request",
                       "the path must be valid UTF-8 without control characters");
        return false;
    }
    x->path.n = n;
    x->request.path = strbuf_view(&x->path);
    x->request.method = x->head.method;
    return true;
}

static bool reader_check_head(exchange *x, http_error *error)
{
    const http_server *h = connection_http(x->c);
    if (!reader_decode_target(x, error))
        return false;
    if (x->c->refusal != CONNECTION_ACCEPTED) {
        reader_set_refusal(x->c, error);
        return false;
    }
    if (!h->hooks.on_head(h->hooks.context, x, &x->request, error))
        return false;
    if (x->head.length > reader_max_body(x)) {
        set_too_large(error, x);
        return false;
    }
    if ((double)(h->body_bytes + x->head.length) > h->limits.at[LIMIT_BODIES]) {
        http_error_set(error, HTTP_E_UNAVAILABLE, "out_of_memory",
                       "the bodies of all requests together are too large (--limit %s)",
                       limit_rows[LIMIT_BODIES].name);
        return false;
    }
    return true;
}

static void reader_handle(reader *r, double now)
{
    exchange *x = r->x;
    http_server *h = connection_http(x->c);
    x->complete = now;
    x->request.body = strbuf_view(&x->body);
    r->state = READER_HANDLING;
    h->requests++;
    h->hooks.on_request(h->hooks.context, x);
}

static void reader_begin_body(reader *r, connection *c, double now)
{
    r->state = READER_BODY;
    r->since = r->window = now;
    r->window_bytes = 0;
    if (r->x->head.wants_continue && !r->x->head.http_1_0) {
        strbuf_text(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
        connection_touch(c);
    }
}

/* The head has passed the checker: parses it, asks the on_head hook, then handles the request or
 * reads its body. */
static void reader_take_head(reader *r, connection *c, str bytes, double now)
{
    http_error e;
    if (!reader_make_exchange(r, c))
        return;
    exchange *x = r->x;
    x->head = r->checker.head;
    strbuf_put(&x->head_bytes, bytes);
    if (x->head_bytes.failed) {
        x->head_bytes.n = 0;
        set_no_memory(&e);
        reader_refuse(r, &e, false);
        return;
    }
    const http_parsed parsed = http_parser_head(r->parser, bytes, &x->head);
    if (parsed == HTTP_PARSED_REFUSED) {
        reader_guess_path(x, bytes);
        http_error_set(&e, HTTP_E_INVALID, "bad_request", "the request is not valid HTTP");
        reader_refuse(r, &e, false);
        return;
    }
    x->may_keep = http_parser_keeps_alive(r->parser);
    if (!reader_check_head(x, &e)) {
        /* An unread body would be parsed as the next request. So close, unless there is none. */
        reader_refuse(r, &e,
                      x->may_keep && parsed == HTTP_PARSED_WHOLE && e.kind != HTTP_E_INVALID &&
                          c->refusal == CONNECTION_ACCEPTED);
    } else if (parsed == HTTP_PARSED_WHOLE) {
        reader_handle(r, now);
    } else {
        reader_begin_body(r, c, now);
    }
}

/* ---- body ---- */

static size_t reader_take_body(reader *r, str bytes, double now)
{
    exchange *x = r->x;
    http_server *h = connection_http(x->c);
    http_error e = {0};
    size_t used;
    const size_t before = x->body.n;
    const http_parsed parsed =
        http_parser_body(r->parser, bytes, &used, &x->body, (size_t)reader_max_body(x));
    h->body_bytes += x->body.n - before;
    switch (parsed) {
    case HTTP_PARSED_WHOLE: reader_handle(r, now); return used;
    case HTTP_PARSED_TOO_LARGE: set_too_large(&e, x); break;
    case HTTP_PARSED_NO_MEMORY: set_no_memory(&e); break;
    case HTTP_PARSED_REFUSED:
        http_error_set(&e, HTTP_E_INVALID, "bad_request", "invalid chunked body");
        break;
    default:
        if ((double)h->body_bytes > h->limits.at[LIMIT_BODIES])
            set_no_memory(&e);
        break;
    }
    if (e.code != NULL)
        reader_refuse(r, &e, false);
    return used;
}

size_t reader_feed(reader *r, connection *c, str bytes, double now)
{
    if (bytes.n == 0 || r->state == READER_HANDLING)
        return 0;
    if (r->state == READER_BODY)
        return reader_take_body(r, bytes, now);
    if (r->state == READER_IDLE) {
        r->state = READER_HEAD;
        r->since = now;
    }
    const head_status status = head_check(&r->checker, bytes, &connection_http(c)->limits);
    if (status == HEAD_MORE)
        return 0;
    if (status != HEAD_PASS) {
        reader_refuse_head(r, c, bytes, status);
        return bytes.n;
    }
    const size_t used = r->checker.head.bytes;
    reader_take_head(r, c, (str){bytes.p, used}, now);
    return used;
}

/* ---- deadlines ---- */

/* The body must arrive at LIMIT_BODY_RATE at least, measured in windows of LIMIT_BODY_SECONDS. */
static bool reader_body_is_late(reader *r, const limits *l, double now)
{
    if (now - r->window < l->at[LIMIT_BODY_SECONDS])
        return false;
    const size_t received = r->x->body.n - r->window_bytes;
    const bool late = (double)received < l->at[LIMIT_BODY_RATE] * l->at[LIMIT_BODY_SECONDS];
    r->window = now;
    r->window_bytes = r->x->body.n;
    return late;
}

bool reader_is_late(reader *r, const limits *l, double now)
{
    switch (r->state) {
    case READER_IDLE:
        return now - r->since > l->at[r->served ? LIMIT_IDLE_SECONDS : LIMIT_HEAD_SECONDS];
    case READER_HEAD: return now - r->since > l->at[LIMIT_HEAD_SECONDS];
    case READER_BODY: return reader_body_is_late(r, l, now);
    case READER_HANDLING: return false;
    }
    return false;
}

bool reader_reply_late(reader *r, connection *c)
{
    if (r->state == READER_IDLE || !reader_make_exchange(r, c))
        return false;
    reader_guess_path(r->x, connection_input(c));
    http_error e;
    http_error_set(&e, HTTP_E_TIMEOUT, "request_timeout", "the request arrived too slowly");
    reader_refuse(r, &e, false);
    return true;
}
