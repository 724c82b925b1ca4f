/* SPDX-License-Identifier: Apache-2.0 */
/* request_reader.c - see reader.h. */
#include "server/http/request_reader.h"

#include "base/os.h"
#include "server/server_int.h"

#include <stdio.h>
#include <strings.h>

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
    r->gate = (gate){0};
    r->state = READER_IDLE;
    r->served = true;
    r->since = now;
}

/* ---- refusing ---- */

static void generation(reader *r)
{
    r->state = READER_HANDLING;
}

/* Replies to a request that is not taken further, and closes behind it. */
static void refuse(reader *r, const http_error *error)
{
    generation(r);
    connection_server(r->x->c)->refused_requests++;
    r->x->may_keep = false;
    exchange_fail(r->x, error);
}

static void no_memory(reader *r)
{
    http_error e;
    api_error_set(&e, API_E_UNAVAILABLE, "out_of_memory", "the server has no memory left");
    refuse(r, &e);
}

static bool make_exchange(reader *r, connection *c)
{
    if (r->x == NULL)
        r->x = exchange_new(c);
    if (r->x == NULL) {
        generation(r);
        connection_abort(c);
    }
    return r->x != NULL;
}

static void add_allow(exchange *x, unsigned methods)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "DELETE", "OPTIONS"};
    char text[64] = "";
    size_t n = 0;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (methods & 1u << i)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n > 0 ? ", " : "", names[i]);
    exchange_add_header(x, "Allow", text);
}

static void refuse_head(reader *r, connection *c, head_status answer)
{
    static const struct {
        api_error_kind kind;
        const char *code;
    } rows[] = {
        [HEAD_BAD] = {API_E_INVALID, "bad_request"},
        [HEAD_METHOD] = {API_E_METHOD, "method_not_allowed"},
        [HEAD_TARGET] = {API_E_TARGET, "target_too_long"},
        [HEAD_HEADERS] = {API_E_HEADERS, "headers_too_large"},
        [HEAD_CODING] = {API_E_TYPE, "unsupported_media_type"},
    };
    if (!make_exchange(r, c))
        return;
    http_error e;
    api_error_set(&e, rows[answer].kind, rows[answer].code, "%s", r->gate.why);
    if (answer == HEAD_METHOD)
        add_allow(r->x, HTTP_GET | HTTP_HEAD | HTTP_POST | HTTP_DELETE | HTTP_OPTIONS);
    refuse(r, &e);
}

/* ---- what the head says ---- */

static str field(const exchange *x, const char *name)
{
    return http_head_field(&x->head, x->head_bytes.p, name);
}

static bool any_fetch_field(const exchange *x)
{
    static const char prefix[] = "sec-fetch-";
    for (uint32_t i = 0; i < x->head.n_fields; i++) {
        const http_field *f = &x->head.fields[i];
        if (f->n_name >= sizeof prefix - 1 &&
            strncasecmp(x->head_bytes.p + f->name, prefix, sizeof prefix - 1) == 0)
            return true;
    }
    return false;
}

static access_question question(const exchange *x, double now)
{
    const server *s = connection_server(x->c);
    return (access_question){
        .method = x->head.method,
        .has_body = x->head.chunked || x->head.length > 0,
        .host = field(x, "host"),
        .origin = field(x, "origin"),
        .fetch_site = field(x, "sec-fetch-site"),
        .content_type = field(x, "content-type"),
        .authorization = field(x, "authorization"),
        .api_key = field(x, "x-api-key"),
        .any_fetch_field = any_fetch_field(x),
        .who = connection_peer(x->c),
        .now = now,
        .most_failures = (uint32_t)s->limits.at[LIMIT_FAILURES],
    };
}

/* The one parse of the target, for the router and for everybody else. */
static bool decode_target(exchange *x, http_error *error)
{
    str target = {x->head_bytes.p + x->head.target, x->head.n_target};
    size_t n;
    if (!strbuf_reserve(&x->path, target.n + 1)) {
        api_error_set(error, API_E_UNAVAILABLE, "out_of_memory", "the server has no memory left");
        return false;
    }
    if (!head_decode_target(target, x->path.p, &n, &x->request.query)) {
        api_error_set(error, API_E_INVALID, "bad_request", "the path is not text");
        return false;
    }
    x->path.n = n;
    x->request.path = strbuf_view(&x->path);
    x->request.method = x->head.method;
    x->dialect = route_dialect_of(x->request.path);
    return true;
}

static bool no_route(exchange *x, unsigned allow, http_error *error)
{
    if (allow == 0) {
        api_error_set(error, API_E_NOT_FOUND, "not_found", "there is nothing under this path");
        return false;
    }
    add_allow(x, allow | HTTP_OPTIONS);
    api_error_set(error, API_E_METHOD, "method_not_allowed", "this path has other methods");
    return false;
}

/* Who may use a path is decided by the row that is then called. */
static bool find_route(exchange *x, const access_question *q, http_error *error)
{
    unsigned allow = 0;
    x->route = route_find(x->request.path, x->head.method, &x->request.tail, &allow);
    bool open = x->route != NULL && x->route->privilege == PRIVILEGE_PUBLIC;
    if (x->route != NULL)
        x->dialect = x->route->dialect;
    if (!open && !access_check_key(connection_server(x->c)->context.access, q, &x->access, error))
        return false;
    if (x->route == NULL)
        return no_route(x, allow, error);
    return access_check_scope(&x->access, x->route->privilege, error);
}

static bool check_size(const exchange *x, http_error *error)
{
    const server *s = connection_server(x->c);
    if (x->head.length > s->limits.at[LIMIT_BODY]) {
        api_error_set(error, API_E_TOO_LARGE, "request_too_large", "the body may have %.0f bytes",
                      s->limits.at[LIMIT_BODY]);
        return false;
    }
    if ((double)(s->body_bytes + x->head.length) > s->limits.at[LIMIT_BODIES]) {
        api_error_set(error, API_E_UNAVAILABLE, "out_of_memory", "too many large requests at once");
        return false;
    }
    return true;
}

static bool check_head(exchange *x, double now, http_error *error)
{
    server *s = connection_server(x->c);
    access_question q = question(x, now);
    if (!decode_target(x, error) || !access_check_browser(s->context.access, &q, &x->access, error))
        return false;
    if (!find_route(x, &q, error))
        return false;
    x->request.client = x->access.client;
    x->request.ns = x->access.ns;
    x->request.admin = x->access.scopes & 1u << PRIVILEGE_ADMIN;
    x->request.quota = x->access.quota;
    if (s->context.draining && x->route->privilege != PRIVILEGE_PUBLIC) {
        api_error_set(error, API_E_UNAVAILABLE, "draining", "the server is about to stop");
        return false;
    }
    return access_check_type(&q, error) && check_size(x, error);
}

/* ---- reading ---- */

static void answer(reader *r, double now)
{
    exchange *x = r->x;
    x->whole = now;
    x->request.body = strbuf_view(&x->body);
    generation(r);
    connection_server(x->c)->requests++;
    x->route->answer(x);
}

static void begin_body(reader *r, connection *c, double now)
{
    r->state = READER_BODY;
    r->since = r->window = now;
    r->window_bytes = 0;
    if (r->x->head.wants_continue && !r->x->head.http_1_0) {
        strbuf_text(connection_output(c), "HTTP/1.1 100 Continue\r\n\r\n");
        connection_touch(c);
    }
}

static void take_head(reader *r, connection *c, str bytes, double now)
{
    http_error e;
    if (!make_exchange(r, c))
        return;
    exchange *x = r->x;
    x->head = r->gate.head;
    strbuf_put(&x->head_bytes, bytes);
    if (x->head_bytes.failed) {
        x->head_bytes.n = 0;
        no_memory(r);
        return;
    }
    http_parsed parsed = http_parser_head(r->parser, bytes, &x->head);
    if (parsed == HTTP_PARSED_REFUSED) {
        api_error_set(&e, API_E_INVALID, "bad_request", "this is not HTTP");
        refuse(r, &e);
        return;
    }
    x->may_keep = http_parser_keeps_alive(r->parser);
    if (!check_head(x, now, &e)) {
        generation(r);
        connection_server(c)->refused_requests++;
        /* A body that nobody reads would be taken for a request, and so may what is malformed. */
        x->may_keep = x->may_keep && parsed == HTTP_PARSED_WHOLE && e.kind != API_E_INVALID;
        exchange_fail(x, &e);
    } else if (parsed == HTTP_PARSED_WHOLE) {
        answer(r, now);
    } else {
        begin_body(r, c, now);
    }
}

static size_t take_body(reader *r, str bytes, double now)
{
    exchange *x = r->x;
    server *s = connection_server(x->c);
    http_error e;
    size_t used, before = x->body.n;
    http_parsed parsed =
        http_parser_body(r->parser, bytes, &used, &x->body, (size_t)s->limits.at[LIMIT_BODY]);
    s->body_bytes += x->body.n - before;
    switch (parsed) {
    case HTTP_PARSED_WHOLE: answer(r, now); break;
    case HTTP_PARSED_TOO_LARGE:
        api_error_set(&e, API_E_TOO_LARGE, "request_too_large", "the body may have %.0f bytes",
                      s->limits.at[LIMIT_BODY]);
        refuse(r, &e);
        break;
    case HTTP_PARSED_NO_MEMORY: no_memory(r); break;
    case HTTP_PARSED_REFUSED:
        api_error_set(&e, API_E_INVALID, "bad_request", "the body is not framed soundly");
        refuse(r, &e);
        break;
    default:
        if ((double)s->body_bytes > s->limits.at[LIMIT_BODIES])
            no_memory(r);
        break;
    }
    return used;
}

size_t reader_take(reader *r, connection *c, str bytes, double now)
{
    if (bytes.n == 0 || r->state == READER_HANDLING)
        return 0;
    if (r->state == READER_BODY)
        return take_body(r, bytes, now);
    if (r->state == READER_IDLE) {
        r->state = READER_HEAD;
        r->since = now;
    }
    head_status reply_for_head = head_check(&r->gate, bytes, &connection_server(c)->limits);
    if (reply_for_head == HEAD_MORE)
        return 0;
    if (reply_for_head != HEAD_PASS) {
        refuse_head(r, c, reply_for_head);
        return bytes.n;
    }
    size_t used = r->gate.head.bytes;
    take_head(r, c, (str){bytes.p, used}, now);
    return used;
}

/* ---- deadlines ---- */

/* A body that has not enough bytes to show for the last stretch of time is too slow. */
static bool body_is_late(reader *r, const limits *l, double now)
{
    if (now - r->window < l->at[LIMIT_BODY_SECONDS])
        return false;
    size_t came = r->x->body.n - r->window_bytes;
    bool late = (double)came < l->at[LIMIT_BODY_RATE] * l->at[LIMIT_BODY_SECONDS];
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
    case READER_BODY: return body_is_late(r, l, now);
    case READER_HANDLING: return false;
    }
    return false;
}

bool reader_too_late(reader *r, connection *c)
{
    if (r->state == READER_IDLE || !make_exchange(r, c))
        return false;
    http_error e;
    api_error_set(&e, API_E_TIMEOUT, "request_timeout", "the request came too slowly");
    refuse(r, &e);
    return true;
}
