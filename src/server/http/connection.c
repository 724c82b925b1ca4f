/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.c - connections: accept, read, write, deadlines, close. See http_int.h.
 *
 * A connection carries one exchange at a time. Pipelined requests stay in its input buffer until
 * the reply before them is sent, so replies keep the order of requests.
 */
#include "base/mem.h"
#include "base/os.h"
#include "server/http/http_int.h"

#include <netinet/in.h>
#include <unistd.h>

enum {
    MAX_PIPELINED_BYTES = 65536, /* buffered input behind the current request */
    MAX_REQUESTS_PER_TURN = 32,  /* of one connection */
    KEPT_BUFFER_BYTES = 16384,   /* an empty buffer larger than this is freed */
    MAX_LINGER_BYTES = 1 << 20,  /* discarded before a lingering connection is closed */
    TCP_KEEPALIVE_SECONDS = 60,
    REFUSED_SECONDS = 1, /* for the head of a request on a refused connection */
};

/* ---- closing ---- */

static void connection_untouch(connection *c)
{
    connection **at = &c->all->touched;
    while (*at != NULL && *at != c)
        at = &(*at)->next_touched;
    if (*at != NULL)
        *at = c->next_touched;
}

static void connection_on_closed(uv_handle_t *handle)
{
    connection *c = handle->data;
    connection_set *all = c->all;
    connection_untouch(c);
    if (c->previous != NULL)
        c->previous->next = c->next;
    else
        all->first = c->next;
    if (c->next != NULL)
        c->next->previous = c->previous;
    all->n--;
    all->n_refused -= c->refusal != CONNECTION_ACCEPTED;
    if (c->peer != NULL)
        peers_left(c->peer);
    reader_fini(&c->reader);
    strbuf_fini(&c->in);
    strbuf_fini(&c->out);
    strbuf_fini(&c->sending);
    mem_free(c);
}

/* Only at the end of a turn or before a handler has seen the connection. */
static void connection_close(connection *c)
{
    if (c->phase == CONNECTION_CLOSING)
        return;
    c->phase = CONNECTION_CLOSING;
    exchange *x = c->reader.x;
    if (x != NULL && !x->over)
        exchange_lost(x);
    else if (x != NULL && c->ended)
        exchange_finished(x);
    uv_close(&c->as.handle, connection_on_closed);
}

static void connection_on_shutdown(uv_shutdown_t *request, int status)
{
    (void)request;
    (void)status;
}

/* Closing a socket with unread input resets the connection, and the client may lose the reply. So
 * shut down the sending side first and discard input for a while. */
static void connection_linger(connection *c)
{
    c->phase = CONNECTION_LINGERING;
    c->reader.since = os_now();
    c->in.n = c->in_at = 0;
    if (c->eof || uv_shutdown(&c->shutdown, &c->as.stream, connection_on_shutdown) != 0)
        connection_close(c);
}

/* ---- output ---- */

static size_t connection_unsent(const connection *c)
{
    return c->out.n + (c->writing ? uv_stream_get_write_queue_size(&c->as.stream) : 0);
}

static void buffer_reset(strbuf *b)
{
    if (b->room > KEPT_BUFFER_BYTES)
        strbuf_fini(b);
    b->n = 0;
}

static void connection_on_written(uv_write_t *request, int status)
{
    connection *c = request->data;
    c->writing = false;
    buffer_reset(&c->sending);
    c->progress = os_now();
    if (status != 0)
        c->must_close = true;
    connection_touch(c);
}

/* Writes as much as the kernel accepts now; libuv writes the remainder from `sending`. */
static void connection_write_out(connection *c)
{
    if (c->writing)
        return;
    if (c->out.failed) { /* also if n is 0: the first byte may have failed */
        c->must_close = true;
        return;
    }
    if (c->out.n == 0)
        return;
    uv_buf_t all = uv_buf_init(c->out.p, (unsigned)c->out.n);
    const int taken = uv_try_write(&c->as.stream, &all, 1);
    if (taken < 0 && taken != UV_EAGAIN) {
        c->must_close = true;
        return;
    }
    const size_t done = taken > 0 ? (size_t)taken : 0;
    c->progress = os_now();
    if (done == c->out.n) {
        buffer_reset(&c->out);
        return;
    }
    const strbuf swap = c->sending;
    c->sending = c->out;
    c->out = swap;
    uv_buf_t unsent = uv_buf_init(c->sending.p + done, (unsigned)(c->sending.n - done));
    c->write.data = c;
    c->writing = uv_write(&c->write, &c->as.stream, &unsent, 1, connection_on_written) == 0;
    c->unsent_before = c->sending.n - done;
    if (!c->writing)
        c->must_close = true;
}

/* The handler may write the next piece of a long body. */
static void connection_report_drained(connection *c, exchange *x)
{
    void (*drained)(void *with) = x->drained;
    if (drained == NULL || c->must_close || x->over || connection_unsent(c) > 0)
        return;
    x->drained = NULL;
    drained(x->drained_with);
}

static void connection_send(connection *c)
{
    exchange *x = c->reader.x;
    const bool streaming = x != NULL && x->streaming;
    if (streaming)
        exchange_frame(x);
    if (!c->must_close)
        connection_write_out(c);
    /* A stream that the client does not read must not fill the memory. */
    if (streaming && (double)connection_unsent(c) > connection_http(c)->limits.at[LIMIT_OUTPUT])
        c->must_close = true;
    if (streaming)
        connection_report_drained(c, x);
}

/* ---- input ---- */

static void connection_stop_reading(connection *c)
{
    if (c->reading)
        uv_read_stop(&c->as.stream);
    c->reading = false;
}

static void connection_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    connection *c = handle->data;
    *out = uv_buf_init(c->all->buffer, CONNECTION_READ_BYTES);
}

static void connection_on_read_end(connection *c, ssize_t status)
{
    connection_stop_reading(c);
    c->eof = true;
    if (status != UV_EOF)
        c->must_close = true;
    if (c->phase == CONNECTION_LINGERING)
        connection_close(c);
    connection_touch(c);
}

static void connection_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    connection *c = stream->data;
    if (n == 0 || c->phase == CONNECTION_CLOSING)
        return;
    if (n < 0) {
        connection_on_read_end(c, n);
        return;
    }
    if (c->phase == CONNECTION_LINGERING) {
        c->lingered += (size_t)n;
        if (c->lingered > MAX_LINGER_BYTES)
            connection_close(c);
        return;
    }
    strbuf_put(&c->in, (str){buffer->base, (size_t)n});
    if (c->in.failed)
        c->must_close = true;
    if (c->reader.state == READER_HANDLING && c->in.n - c->in_at > MAX_PIPELINED_BYTES)
        connection_stop_reading(c);
    connection_touch(c);
}

static void connection_start_reading(connection *c)
{
    if (c->reading)
        return;
    c->reading = uv_read_start(&c->as.stream, connection_on_alloc, connection_on_read) == 0;
    if (!c->reading)
        c->must_close = true;
}

/* Passes buffered input to the reader. false: it needs more bytes. */
static bool connection_use_input(connection *c)
{
    if (c->in.n == c->in_at)
        return false;
    const str bytes = {c->in.p + c->in_at, c->in.n - c->in_at};
    const size_t used = reader_feed(&c->reader, c, bytes, os_now());
    c->in_at += used;
    if (c->in_at == c->in.n) {
        buffer_reset(&c->in);
        c->in_at = 0;
    }
    return used > 0 || c->reader.state == READER_HANDLING;
}

/* ---- the turn of a connection ---- */

/* The reply is sent: prepare for the next request or close. */
static void connection_next_request(connection *c)
{
    exchange_finished(c->reader.x);
    c->ended = false;
    reader_next(&c->reader, os_now());
    if (!c->keep)
        connection_linger(c);
    else if (connection_http(c)->phase >= HTTP_DRAINING && c->in.n == 0)
        connection_close(c);
}

/* Advances an open connection: sends output, starts the next request, feeds input to the reader. At
 * most MAX_REQUESTS_PER_TURN requests, so that other connections get their turn. */
static void connection_turn(connection *c)
{
    for (int i = 0; i < MAX_REQUESTS_PER_TURN; i++) {
        connection_send(c);
        if (!c->must_close && c->ended && connection_unsent(c) == 0)
            connection_next_request(c);
        if (c->phase != CONNECTION_OPEN)
            return;
        const bool handling = c->reader.state == READER_HANDLING;
        if (c->must_close || (handling && !c->ended && c->eof)) {
            connection_close(c);
            return;
        }
        if (handling)
            return;
        if (!connection_use_input(c)) {
            if (c->eof)
                connection_close(c);
            else
                connection_start_reading(c);
            return;
        }
    }
    connection_touch(c); /* there is more input: continue in the next iteration */
}

void connection_set_turn(connection_set *all)
{
    connection *list = all->touched;
    all->touched = NULL;
    while (list != NULL) {
        connection *c = list;
        list = c->next_touched;
        c->touched = false;
        if (c->phase == CONNECTION_OPEN)
            connection_turn(c);
    }
    if (all->touched != NULL)
        event_loop_again(all->http->loop);
}

/* ---- accepting ---- */

/* Without memory, or with too many refused connections. The body has the format of OpenAI. */
static const char refusal_text[] =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n"
    "Content-Length: 114\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    "{\"error\":{\"message\":\"too many "
    "connections\",\"type\":\"unavailable_error\",\"param\":null,"
    "\"code\":\"too_many_connections\"}}";

/* The client address as IPv6; all zero for a UNIX socket. */
static void connection_get_address(connection *c, unsigned char address[16])
{
    struct sockaddr_storage from;
    int bytes = sizeof from;
    memset(address, 0, 16);
    if (c->as.handle.type != UV_TCP ||
        uv_tcp_getpeername(&c->as.tcp, (struct sockaddr *)&from, &bytes) != 0)
        return;
    if (from.ss_family == AF_INET) {
        address[10] = address[11] = 0xFF;
        memcpy(address + 12, &((const struct sockaddr_in *)&from)->sin_addr, 4);
    } else if (from.ss_family == AF_INET6) {
        memcpy(address, &((const struct sockaddr_in6 *)&from)->sin6_addr, 16);
    }
}

static connection_refusal connection_check_limits(const connection *c)
{
    const http_server *h = connection_http(c);
    if (c->all->n - c->all->n_refused > h->limits.at[LIMIT_CONNECTIONS])
        return CONNECTION_OVER_TOTAL;
    const bool any = peer_is_local(c->peer) || c->peer->connections <= h->limits.at[LIMIT_PER_IP];
    return any ? CONNECTION_ACCEPTED : CONNECTION_OVER_ADDRESS;
}

/* false: the connection is refused at once, without reading a request. */
static bool connection_admit(connection *c)
{
    enum { MAX_REFUSED = 32 }; /* they need descriptors too */
    if (c->peer == NULL || c->reader.parser == NULL)
        return false;
    const connection_refusal refusal = connection_check_limits(c);
    if (refusal == CONNECTION_ACCEPTED)
        return true;
    if (c->all->n_refused >= MAX_REFUSED)
        return false;
    c->refusal = refusal;
    c->all->n_refused++;
    c->all->http->refused_connections++;
    return true;
}

static connection *connection_new(connection_set *all, bool is_unix)
{
    connection *c = mem_new(1, sizeof *c);
    if (c == NULL)
        return NULL;
    uv_loop_t *uv = event_loop_uv(all->http->loop);
    const int failed = is_unix ? uv_pipe_init(uv, &c->as.pipe, 0) : uv_tcp_init(uv, &c->as.tcp);
    if (failed != 0) {
        mem_free(c);
        return NULL;
    }
    c->as.handle.data = c;
    c->all = all;
    c->next = all->first;
    if (all->first != NULL)
        all->first->previous = c;
    all->first = c;
    all->n++;
    return c;
}

static bool connection_take_socket(connection *c, uv_stream_t *listener, int fd)
{
    if (fd < 0)
        return uv_accept(listener, &c->as.stream) == 0;
    const bool is_tcp = c->as.handle.type == UV_TCP;
    if ((is_tcp ? uv_tcp_open(&c->as.tcp, fd) : uv_pipe_open(&c->as.pipe, fd)) == 0)
        return true;
    close(fd);
    return false;
}

void connection_set_accept(connection_set *all, uv_stream_t *listener, int fd, bool is_unix)
{
    connection *c = connection_new(all, is_unix);
    if (c == NULL) {
        if (fd >= 0) {
            close(fd);
        } else if (all->n_retry < LISTEN_MAX) {
            all->retry[all->n_retry].listener = listener;
            all->retry[all->n_retry++].is_unix = is_unix;
        }
        return;
    }
    if (!connection_take_socket(c, listener, fd)) {
        connection_close(c);
        return;
    }
    unsigned char address[16];
    connection_get_address(c, address);
    c->peer = peers_came(all->http->peers, address);
    reader_init(&c->reader);
    if (!connection_admit(c)) {
        uv_buf_t text = uv_buf_init((char *)(uintptr_t)refusal_text, sizeof refusal_text - 1);
        uv_try_write(&c->as.stream, &text, 1);
        all->http->refused_connections++;
        connection_close(c);
        return;
    }
    if (!is_unix) {
        uv_tcp_nodelay(&c->as.tcp, 1);
        uv_tcp_keepalive(&c->as.tcp, 1, TCP_KEEPALIVE_SECONDS); /* detects clients that vanished */
    }
    connection_start_reading(c);
    if (c->must_close)
        connection_close(c);
}

/* ---- deadlines, drain, close ---- */

/* The kernel accepts bytes as the client reads them. No progress means that the client does not
 * read. */
static bool connection_is_stalled(connection *c, double now)
{
    if (connection_unsent(c) == 0 || !c->writing)
        return false;
    const size_t queued = uv_stream_get_write_queue_size(&c->as.stream);
    if (queued < c->unsent_before) {
        c->unsent_before = queued;
        c->progress = now;
    }
    return now - c->progress > connection_http(c)->limits.at[LIMIT_STALL_SECONDS];
}

static void connection_sweep(connection *c, double now)
{
    const limits *l = &connection_http(c)->limits;
    if (c->phase == CONNECTION_LINGERING && now - c->reader.since > l->at[LIMIT_LINGER_SECONDS])
        connection_close(c);
    if (c->phase != CONNECTION_OPEN)
        return;
    const bool waits = c->reader.state == READER_IDLE || c->reader.state == READER_HEAD;
    if (connection_is_stalled(c, now))
        connection_abort(c);
    else if (c->refusal != CONNECTION_ACCEPTED && waits && now - c->reader.since > REFUSED_SECONDS)
        reader_refuse_connection(&c->reader, c);
    else if (reader_is_late(&c->reader, l, now) && !reader_reply_late(&c->reader, c))
        connection_abort(c);
}

void connection_set_sweep(connection_set *all, double now)
{
    const size_t n_retry = all->n_retry;
    all->n_retry = 0; /* connection_set_accept() adds failures again */
    for (size_t i = 0; i < n_retry; i++)
        connection_set_accept(all, all->retry[i].listener, -1, all->retry[i].is_unix);
    for (connection *c = all->first, *next; c != NULL; c = next) {
        next = c->next;
        connection_sweep(c, now);
    }
}

uint32_t connection_set_busy(const connection_set *all)
{
    uint32_t n = 0;
    for (const connection *c = all->first; c != NULL; c = c->next)
        n += c->phase == CONNECTION_LINGERING ||
             (c->phase == CONNECTION_OPEN &&
              (c->reader.state != READER_IDLE || c->writing || c->out.n > 0));
    return n;
}

void connection_set_drain(connection_set *all)
{
    for (connection *c = all->first; c != NULL; c = c->next)
        if (c->phase == CONNECTION_OPEN && c->reader.state == READER_IDLE &&
            connection_unsent(c) == 0)
            connection_abort(c);
}

void connection_set_close(connection_set *all)
{
    for (connection *c = all->first, *next; c != NULL; c = next) {
        next = c->next;
        connection_close(c);
    }
}
