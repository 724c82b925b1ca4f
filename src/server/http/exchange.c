/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c - replies: head, whole bodies, streams in chunks, errors. See exchange.h. */
#include "server/http/exchange.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/http/http_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
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

static const char *status_reason(int status)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Other";
}

/* ---- life cycle ---- */

exchange *exchange_new(http_server *h, connection *c)
{
    unsigned char random[12];
    exchange *x = os_random(random, sizeof random) ? mem_new(1, sizeof *x) : NULL;
    if (x == NULL)
        return NULL;
    memcpy(x->id, "req_", 4);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(x->id + 4 + 2 * i, 3, "%02x", random[i]);
    x->http = h;
    x->c = c;
    x->received = x->complete = os_now();
    return x;
}

void exchange_free(exchange *x)
{
    if (x == NULL)
        return;
    if (x->c != NULL)
        x->http->body_bytes -= x->body.n + x->taken;
    x->http->reply_bytes -= x->large;
    strbuf_fini(&x->head_bytes);
    strbuf_fini(&x->path);
    strbuf_fini(&x->body);
    strbuf_fini(&x->headers);
    strbuf_fini(&x->pending);
    strbuf_fini(&x->reply);
    mem_free(x);
}

static const char *exchange_method_name(const exchange *x)
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

static void exchange_report(const exchange *x, int status)
{
    const http_hooks *hooks = &x->http->hooks;
    log_request line = {.id = x->id,
                        .method = exchange_method_name(x),
                        .status = status,
                        .seconds = os_now() - x->received,
                        .in = x->body.n + x->taken,
                        .out = x->sent,
                        .stats = x->stats.stop != NULL ? &x->stats : NULL};
    hooks->on_finished(hooks->context, x, &line);
}

void exchange_finished(exchange *x)
{
    exchange_report(x, x->status);
}

void exchange_lost(exchange *x)
{
    enum { CLIENT_CLOSED_REQUEST = 499 };
    exchange_report(x, CLIENT_CLOSED_REQUEST);
    if (x->disconnect != NULL)
        x->disconnect(x->with);
}

/* ---- accessors ---- */

const http_request *exchange_request(const exchange *x)
{
    return &x->request;
}

str exchange_find_header(const exchange *x, const char *name)
{
    return http_head_field(&x->head, x->head_bytes.p, name);
}

str exchange_header(const exchange *x, const char *name)
{
    const str value = exchange_find_header(x, name);
    return value.p != NULL ? value : (str){"", 0};
}

bool exchange_has_header_prefix(const exchange *x, const char *prefix)
{
    const size_t n = strlen(prefix);
    for (uint32_t i = 0; i < x->head.n_fields; i++) {
        const http_field *f = &x->head.fields[i];
        if (f->n_name >= n && strncasecmp(x->head_bytes.p + f->name, prefix, n) == 0)
            return true;
    }
    return false;
}

bool exchange_has_body(const exchange *x)
{
    return x->head.chunked || x->head.length > 0;
}

peer *exchange_peer(const exchange *x)
{
    return x->c != NULL ? x->c->peer : NULL;
}

const char *exchange_id(const exchange *x)
{
    return x->id;
}

strbuf exchange_take_body(exchange *x)
{
    const strbuf body = x->body;
    x->taken += body.n;
    x->body = (strbuf){0};
    x->request.body = (str){"", 0};
    return body;
}

void *exchange_context(const exchange *x)
{
    return x->http->hooks.context;
}

double exchange_began(const exchange *x)
{
    return x->complete;
}

void exchange_note(exchange *x, const log_stats *stats)
{
    x->stats = *stats;
}

void exchange_on_disconnect(exchange *x, void (*disconnect)(void *with), void *with)
{
    x->disconnect = disconnect;
    x->with = with;
}

/* ---- head of a reply ---- */

static void put_header(strbuf *out, const char *name, const char *value)
{
    strbuf_text(out, name);
    strbuf_text(out, ": ");
    strbuf_text(out, value);
    strbuf_text(out, "\r\n");
}

static bool has_control_character(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7F)
            return true;
    return false;
}

void exchange_add_header(exchange *x, const char *name, const char *value)
{
    if (!has_control_character(name) && !has_control_character(value))
        put_header(&x->headers, name, value);
}

void exchange_vary_by_accept(exchange *x)
{
    x->by_accept = true;
}

void exchange_vary_by_encoding(exchange *x)
{
    x->by_encoding = true;
}

void http_method_names(char out[HTTP_METHODS_BYTES], unsigned methods)
{
    static const char *const names[] = {"GET", "HEAD", "POST", "DELETE", "OPTIONS"};
    size_t n = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (methods & 1u << i)
            n += (size_t)snprintf(out + n, HTTP_METHODS_BYTES - n, "%s%s", n > 0 ? ", " : "",
                                  names[i]);
}

/* Not strftime(): its names depend on the locale. */
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

static void put_vary(const exchange *x, strbuf *out)
{
    const struct {
        bool set;
        const char *name;
    } rows[] = {{x->by_accept, "Accept"},
                {x->by_encoding, "Accept-Encoding"},
                {x->http->vary_origin, "Origin"}};
    const char *before = "Vary: ";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].set)
            continue;
        strbuf_text(out, before);
        strbuf_text(out, rows[i].name);
        before = ", ";
    }
    if (before[0] == ',')
        strbuf_text(out, "\r\n");
}

static void put_cors(const exchange *x, strbuf *out)
{
    if (!x->request.cors)
        return;
    strbuf_text(out, "Access-Control-Allow-Origin: ");
    strbuf_put(out, exchange_header(x, "origin"));
    strbuf_text(out, "\r\n");
    put_header(out, "Access-Control-Expose-Headers",
               "x-request-id, request-id, retry-after, mote-model");
}

/* `length` is ignored for streams of unknown length. */
static void exchange_put_head(exchange *x, int status, const char *content_type, size_t length)
{
    enum { NO_CONTENT = 204, NOT_MODIFIED = 304 };
    char line[96];
    x->status = status;
    if (x->c == NULL)
        return;
    strbuf *out = &x->c->out;
    snprintf(line, sizeof line, "HTTP/1.1 %d %s\r\n", status, status_reason(status));
    strbuf_text(out, line);
    put_date(out);
    if (content_type != NULL)
        put_header(out, "Content-Type", content_type);
    put_header(out, "x-request-id", x->id);
    put_header(out, "request-id", x->id);
    if (x->streaming && !x->sized) {
        put_header(out, "Cache-Control", "no-cache");
        put_header(out, "X-Accel-Buffering", "no");
    }
    strbuf_put(out, strbuf_view(&x->headers));
    put_vary(x, out);
    put_cors(x, out);
    if (x->chunked) {
        put_header(out, "Transfer-Encoding", "chunked");
    } else if ((!x->streaming || x->sized) && status != NO_CONTENT && status != NOT_MODIFIED) {
        snprintf(line, sizeof line, "Content-Length: %zu\r\n", length);
        strbuf_text(out, line);
    }
    if (!x->may_keep)
        put_header(out, "Connection", "close");
    else if (x->head.http_1_0)
        put_header(out, "Connection", "keep-alive");
    strbuf_text(out, "\r\n");
}

/* ---- bodies ---- */

/* Where the reply goes. */
static strbuf *exchange_out(exchange *x)
{
    return x->c != NULL ? &x->c->out : &x->reply;
}

/* Without the remaining output. */
static void exchange_close(exchange *x)
{
    if (x->c != NULL)
        connection_abort(x->c);
    else
        x->reply.failed = true;
}

static void exchange_touch(exchange *x)
{
    if (x->c != NULL)
        connection_touch(x->c);
}

static bool exchange_has_reply_body(const exchange *x)
{
    return x->head_bytes.n == 0 || x->head.method != HTTP_HEAD;
}

static void exchange_complete(exchange *x)
{
    x->over = true;
    x->disconnect = NULL;
    if (x->c != NULL)
        connection_ended(x->c, x->may_keep);
    else
        local_exchange_end(x);
}

/* Counts a large reply until the client has read it. false: the limit is reached. */
static bool exchange_reserve_reply(exchange *x, size_t bytes)
{
    enum { LARGE = 65536 };
    http_server *h = x->http;
    if (bytes <= LARGE || x->c == NULL)
        return true;
    if ((double)(h->reply_bytes + bytes) > h->limits.at[LIMIT_REPLIES])
        return false;
    x->large = bytes;
    h->reply_bytes += bytes;
    return true;
}

void exchange_reply(exchange *x, int status, const char *content_type, str body)
{
    if (!exchange_reserve_reply(x, body.n)) {
        http_error error;
        http_error_set(&error, HTTP_E_UNAVAILABLE, "out_of_memory",
                       "the replies that clients have not read yet are too large (--limit %s)",
                       limit_rows[LIMIT_REPLIES].name);
        exchange_fail(x, &error);
        return;
    }
    if (x->http->phase != HTTP_SERVING)
        x->may_keep = false;
    exchange_put_head(x, status, content_type, body.n);
    if (exchange_has_reply_body(x)) {
        strbuf_put(exchange_out(x), body);
        x->sent = body.n;
    }
    exchange_complete(x);
}

void exchange_reply_built(exchange *x, const char *content_type, strbuf *body)
{
    http_error error;
    http_error_no_memory(&error);
    if (body->failed)
        exchange_fail(x, &error);
    else
        exchange_reply(x, 200, content_type, strbuf_view(body));
    strbuf_fini(body);
}

void exchange_begin(exchange *x, int status, const char *content_type)
{
    x->streaming = true;
    x->chunked = x->c != NULL && !x->head.http_1_0;
    if (x->head.http_1_0 || x->http->phase != HTTP_SERVING)
        x->may_keep = false; /* in HTTP/1.0 the end of the connection ends the body */
    exchange_put_head(x, status, content_type, 0);
    exchange_touch(x);
}

void exchange_begin_sized(exchange *x, int status, const char *content_type, size_t bytes)
{
    x->streaming = x->sized = true;
    if (x->http->phase != HTTP_SERVING)
        x->may_keep = false;
    exchange_put_head(x, status, content_type, bytes);
    exchange_touch(x);
}

void exchange_on_drained(exchange *x, void (*drained)(void *with), void *with)
{
    x->drained = drained;
    x->drained_with = with;
    exchange_touch(x);
}

size_t exchange_piece_bytes(const exchange *x)
{
    enum { PIECE = 65536 };
    const double half = x->http->limits.at[LIMIT_OUTPUT] / 2; /* the head comes on top */
    return half < PIECE ? (size_t)half : PIECE;
}

void exchange_write(exchange *x, str bytes)
{
    if (!exchange_has_reply_body(x) || bytes.n == 0)
        return;
    strbuf_put(&x->pending, bytes);
    exchange_touch(x);
}

void exchange_frame(exchange *x)
{
    strbuf *out = exchange_out(x);
    if (x->pending.failed)
        exchange_close(x);
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
    if (x->chunked && exchange_has_reply_body(x))
        strbuf_text(exchange_out(x), "0\r\n\r\n");
    exchange_complete(x);
}

void exchange_abort(exchange *x)
{
    x->disconnect = NULL;
    exchange_close(x);
    if (x->c == NULL)
        local_exchange_end(x);
}

/* ---- errors ---- */

static bool is_retryable(int status)
{
    return status == 429 || status == 503 || status == 529;
}

void exchange_fail(exchange *x, const http_error *e)
{
    const http_hooks *hooks = &x->http->hooks;
    strbuf body = {0};
    const int status = hooks->print_error(hooks->context, x, e, &body);
    if (e->allow != 0) {
        char names[HTTP_METHODS_BYTES];
        http_method_names(names, e->allow);
        exchange_add_header(x, "Allow", names);
    }
    exchange_add_header(x, "x-should-retry", is_retryable(status) ? "true" : "false");
    if (e->kind == HTTP_E_AUTH)
        exchange_add_header(x, "WWW-Authenticate", "Bearer");
    if (is_retryable(status)) {
        const unsigned ms = e->retry_ms > 0 ? e->retry_ms : 1000;
        char text[24];
        snprintf(text, sizeof text, "%u", (ms + 999) / 1000);
        exchange_add_header(x, "Retry-After", text);
        snprintf(text, sizeof text, "%u", ms);
        exchange_add_header(x, "retry-after-ms", text);
    }
    exchange_reply(x, status, EXCHANGE_JSON, strbuf_view(&body));
    if (body.failed)
        exchange_close(x);
    strbuf_fini(&body);
}

int http_error_status(http_error_kind kind)
{
    static const int statuses[] = {
        [HTTP_E_INVALID] = 400,     [HTTP_E_AUTH] = 401,        [HTTP_E_PERMISSION] = 403,
        [HTTP_E_NOT_FOUND] = 404,   [HTTP_E_METHOD] = 405,      [HTTP_E_ACCEPT] = 406,
        [HTTP_E_TIMEOUT] = 408,     [HTTP_E_CONFLICT] = 409,    [HTTP_E_TOO_LARGE] = 413,
        [HTTP_E_TARGET] = 414,      [HTTP_E_TYPE] = 415,        [HTTP_E_RATE] = 429,
        [HTTP_E_HEADERS] = 431,     [HTTP_E_QUEUE] = 429,       [HTTP_E_INTERNAL] = 500,
        [HTTP_E_UNSUPPORTED] = 501, [HTTP_E_UNAVAILABLE] = 503,
    };
    return statuses[kind];
}

void http_error_set(http_error *e, http_error_kind kind, const char *code, const char *format, ...)
{
    *e = (http_error){.kind = kind, .code = code};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(e->text, sizeof e->text, format, arguments);
    va_end(arguments);
}

bool http_error_no_memory(http_error *error)
{
    http_error_set(error, HTTP_E_UNAVAILABLE, "out_of_memory", "out of memory for this request");
    error->retry_ms = 1000;
    return false;
}

void http_error_from(http_error *error, const mote_error *from)
{
    switch (from->status) {
    case MOTE_E_MEMORY: http_error_no_memory(error); break;
    case MOTE_E_ARG:
    case MOTE_E_FORMAT:
        http_error_set(error, HTTP_E_INVALID, "invalid_value", "%s", from->text);
        break;
    case MOTE_E_UNSUPPORTED:
        http_error_set(error, HTTP_E_INVALID, "unsupported_schema", "%s", from->text);
        break;
    case MOTE_E_FULL:
        http_error_set(error, HTTP_E_INVALID, "context_length_exceeded", "%s", from->text);
        break;
    case MOTE_E_CANCELED:
        http_error_set(error, HTTP_E_UNAVAILABLE, "draining", "the server is shutting down");
        error->retry_ms = 1000;
        break;
    case MOTE_E_IO: /* the weights could not be read */
    case MOTE_E_MISMATCH:
        http_error_set(error, HTTP_E_UNAVAILABLE, "model_file_damaged", "%s", from->text);
        break;
    default:
        http_error_set(error, HTTP_E_INTERNAL, "internal_error",
                       "internal error: the generation failed");
        break;
    }
}

bool http_error_invalid(http_error *error, const char *at, const char *format, ...)
{
    char text[400];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    http_error_set(error, HTTP_E_INVALID, "invalid_value", "%s %s", at, text);
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}

bool http_error_refused(http_error *error, const char *at, const char *code, const char *why)
{
    http_error_invalid(error, at, "%s", why);
    error->code = code;
    return false;
}

bool http_error_unsupported(http_error *error, const char *at, const char *what)
{
    http_error_set(error, HTTP_E_INVALID, "unsupported", "%s is not supported", what);
    snprintf(error->param, sizeof error->param, "%s", at);
    return false;
}
