/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - replies: the head of one, bodies whole and in chunks, errors. See exchange.h. */
#include "base/mem.h"
#include "base/os.h"
#include "server/core/digest.h"
#include "server/http/exchange_int.h"
#include "server/server_int.h"

#include <stdio.h>
#include <time.h>

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {529, "Overloaded"},
};

static const char *reason_of(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Other";
}

/* ---- life ---- */

static bool make_id(char id[EXCHANGE_ID_BYTES])
{
    unsigned char random[12];
    if (!os_random(random, sizeof random))
        return false;
    memcpy(id, "req_", 4);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(id + 4 + 2 * i, 3, "%02x", random[i]);
    return true;
}

exchange *exchange_new(connection *c)
{
    exchange *x = mem_new(1, sizeof *x);
    if (x != NULL && !make_id(x->id)) {
        mem_free(x);
        return NULL;
    }
    if (x != NULL) {
        x->c = c;
        x->came = x->whole = os_now();
    }
    return x;
}

void exchange_free(exchange *x)
{
    if (x == NULL)
        return;
    connection_server(x->c)->body_bytes -= x->body.n;
    strbuf_fini(&x->head_bytes);
    strbuf_fini(&x->path);
    strbuf_fini(&x->body);
    strbuf_fini(&x->headers);
    strbuf_fini(&x->pending);
    mem_free(x);
}

static const char *method_name(const exchange *x)
{
    if (x->head_bytes.n == 0)
        return "-";
    switch (x->head.method) {
    case HTTP_GET: return "GET";
    case HTTP_HEAD: return "HEAD";
    case HTTP_POST: return "POST";
    case HTTP_DELETE: return "DELETE";
    case HTTP_OPTIONS: return "OPTIONS";
    }
    return "-";
}

static void log_it(const exchange *x, int status)
{
    server *s = connection_server(x->c);
    const char *label = x->route != NULL ? x->route->label : "-";
    request_counts_add(s->context.counts, x->dialect, label, status);
    log_write_request(&s->context.log,
                      &(log_request){.id = x->id,
                                     .method = method_name(x),
                                     .label = label,
                                     .status = status,
                                     .seconds = os_now() - x->came,
                                     .in = x->body.n,
                                     .out = x->sent,
                                     .key = x->access.key,
                                     .stats = x->stats.stop != NULL ? &x->stats : NULL});
}

void exchange_note(exchange *x, const log_stats *stats)
{
    x->stats = *stats;
}

void exchange_lost(exchange *x)
{
    enum { CLIENT_CLOSED = 499 };
    log_it(x, CLIENT_CLOSED);
    if (x->gone != NULL)
        x->gone(x->with);
}

void exchange_logged(exchange *x)
{
    log_it(x, x->status);
}

/* ---- what handlers see ---- */

const http_request *exchange_request(const exchange *x)
{
    return &x->request;
}

str exchange_header(const exchange *x, const char *name)
{
    str value = http_head_field(&x->head, x->head_bytes.p, name);
    return value.p != NULL ? value : (str){"", 0};
}

const char *exchange_id(const exchange *x)
{
    return x->id;
}

void *exchange_context(const exchange *x)
{
    return &connection_server(x->c)->context;
}

double exchange_began(const exchange *x)
{
    return x->whole;
}

api_dialect exchange_dialect(const exchange *x)
{
    return x->dialect;
}

void exchange_on_gone(exchange *x, void (*gone)(void *with), void *with)
{
    x->gone = gone;
    x->with = with;
}

static bool fit_for_header(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return false;
    return true;
}

static void put_header(strbuf *out, const char *name, const char *value)
{
    strbuf_text(out, name);
    strbuf_text(out, ": ");
    strbuf_text(out, value);
    strbuf_text(out, "\r\n");
}

void exchange_add_header(exchange *x, const char *name, const char *value)
{
    if (fit_for_header(name) && fit_for_header(value))
        put_header(&x->headers, name, value);
}

/* ---- the head of a reply ---- */

/* Written by hand, because strftime would speak the user's language. */
static void put_date(strbuf *out)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now = time(NULL);
    struct tm t;
    if (gmtime_r(&now, &t) == NULL)
        return;
    char text[64];
    snprintf(text, sizeof text, "%s, %02d %s %d %02d:%02d:%02d GMT", days[t.tm_wday], t.tm_mday,
             months[t.tm_mon], t.tm_year + 1900, t.tm_hour, t.tm_min, t.tm_sec);
    put_header(out, "Date", text);
}

static void put_cors(const exchange *x, strbuf *out)
{
    if (connection_server(x->c)->options.n_origins > 0)
        put_header(out, "Vary", "Origin");
    if (!x->access.cors)
        return;
    strbuf_text(out, "Access-Control-Allow-Origin: ");
    strbuf_put(out, exchange_header(x, "origin"));
    strbuf_text(out, "\r\n");
    put_header(out, "Access-Control-Expose-Headers",
               "x-request-id, request-id, retry-after, mote-model");
}

/* `length` is that of the body, or of a stream SIZE_MAX. */
static void put_head(exchange *x, int status, const char *content_type, size_t length)
{
    enum { NO_CONTENT = 204 };
    strbuf *out = connection_output(x->c);
    char line[96];
    x->status = status;
    snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", status, reason_of(status));
    strbuf_text(out, line);
    put_date(out);
    if (content_type != NULL)
        put_header(out, "Content-Type", content_type);
    put_header(out, "x-request-id", x->id);
    put_header(out, "request-id", x->id);
    if (x->streaming) {
        put_header(out, "Cache-Control", "no-cache");
        put_header(out, "X-Accel-Buffering", "no");
    }
    strbuf_put(out, strbuf_view(&x->headers));
    put_cors(x, out);
    if (x->chunked) {
        put_header(out, "Transfer-Encoding", "chunked");
    } else if (!x->streaming && status != NO_CONTENT) {
        snprintf(line, sizeof line, "Content-Length: %zu\r\n", length);
        strbuf_text(out, line);
    }
    if (!x->may_keep)
        put_header(out, "Connection", "close");
    else if (x->head.http_1_0)
        put_header(out, "Connection", "keep-alive");
    strbuf_text(out, "\r\n");
}

static bool has_reply_body(const exchange *x)
{
    return x->head_bytes.n == 0 || x->head.method != HTTP_HEAD;
}

static void end(exchange *x)
{
    x->over = true;
    x->gone = NULL;
    connection_ended(x->c, x->may_keep);
}

/* ---- bodies ---- */

void exchange_reply(exchange *x, int status, const char *content_type, str body)
{
    if (connection_server(x->c)->context.draining)
        x->may_keep = false;
    put_head(x, status, content_type, body.n);
    if (has_reply_body(x)) {
        strbuf_put(connection_output(x->c), body);
        x->sent = body.n;
    }
    end(x);
}

void exchange_begin(exchange *x, int status, const char *content_type)
{
    x->streaming = true;
    x->chunked = !x->head.http_1_0;
    if (x->head.http_1_0 || connection_server(x->c)->context.draining)
        x->may_keep = false; /* an old client knows the end by the end of the connection */
    put_head(x, status, content_type, SIZE_MAX);
    connection_touch(x->c);
}

void exchange_write(exchange *x, str bytes)
{
    if (!has_reply_body(x) || bytes.n == 0)
        return;
    strbuf_put(&x->pending, bytes);
    connection_touch(x->c);
}

void exchange_frame(exchange *x)
{
    strbuf *out = connection_output(x->c);
    if (x->pending.failed)
        connection_abort(x->c);
    if (x->pending.n == 0)
        return;
    char size[24];
    snprintf(size, sizeof size, "%zx\r\n", x->pending.n);
    if (x->chunked)
        strbuf_text(out, size);
    strbuf_put(out, strbuf_view(&x->pending));
    if (x->chunked)
        strbuf_text(out, "\r\n");
    x->sent += x->pending.n;
    x->pending.n = 0;
}

void exchange_end(exchange *x)
{
    exchange_frame(x);
    if (x->chunked && has_reply_body(x))
        strbuf_text(connection_output(x->c), "0\r\n\r\n");
    end(x);
}

void exchange_abort(exchange *x)
{
    x->gone = NULL;
    connection_abort(x->c);
}

/* ---- errors ---- */

static bool worth_another_try(int status)
{
    return status == 429 || status == 503 || status == 529;
}

void exchange_fail(exchange *x, const http_error *e)
{
    strbuf body = {0};
    int status = api_error_print(e, x->dialect, x->id, &body);
    exchange_add_header(x, "x-should-retry", worth_another_try(status) ? "true" : "false");
    if (e->kind == API_E_AUTH)
        exchange_add_header(x, "WWW-Authenticate", "Bearer");
    if (worth_another_try(status)) {
        unsigned ms = e->retry_ms > 0 ? e->retry_ms : 1000;
        char text[24];
        snprintf(text, sizeof text, "%u", (ms + 999) / 1000);
        exchange_add_header(x, "Retry-After", text);
        snprintf(text, sizeof text, "%u", ms);
        exchange_add_header(x, "retry-after-ms", text);
    }
    exchange_reply(x, status, EXCHANGE_JSON, strbuf_view(&body));
    if (body.failed)
        connection_abort(x->c);
    strbuf_fini(&body);
}

void exchange_reply_built(exchange *x, const char *content_type, strbuf *body)
{
    http_error error;
    api_error_no_memory(&error);
    if (body->failed)
        exchange_fail(x, &error);
    else
        exchange_reply(x, 200, content_type, strbuf_view(body));
    strbuf_fini(body);
}
