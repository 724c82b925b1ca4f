/* SPDX-License-Identifier: Apache-2.0 */
/* connection.c - one connection: see connection.h. All of them are in connection_set.c. */
#include "server/http/connection_int.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/server_int.h"

enum {
    MOST_INPUT = 65536,   /* of requests that wait for the one before them */
    MOST_IN_A_ROW = 32,   /* requests of one connection in one turn */
    KEPT_BYTES = 16384,   /* a buffer beyond this is given back when it is empty */
    MOST_LINGER = 1 << 20 /* bytes of no use that are read before a connection is cut */
};

/* ---- for exchange and reader ---- */

server *connection_server(const connection *c)
{
    return c->all->server;
}

peer *connection_peer(const connection *c)
{
    return c->who;
}

strbuf *connection_output(connection *c)
{
    return &c->out;
}

void connection_touch(connection *c)
{
    if (c->touched || c->phase == CONNECTION_CLOSING)
        return;
    c->touched = true;
    c->next_touched = c->all->touched;
    c->all->touched = c;
}

void connection_ended(connection *c, bool keep)
{
    c->ended = true;
    c->keep = keep;
    connection_touch(c);
}

void connection_abort(connection *c)
{
    c->doomed = true;
    connection_touch(c);
}

/* ---- the end of a connection ---- */

/* What is waiting for its turn may be closed before it comes. */
static void forget_touched(connection *c)
{
    connection **at = &c->all->touched;
    while (*at != NULL && *at != c)
        at = &(*at)->next_touched;
    if (*at != NULL)
        *at = c->next_touched;
}

static void on_closed(uv_handle_t *handle)
{
    connection *c = handle->data;
    connection_set *all = c->all;
    forget_touched(c);
    if (c->previous != NULL)
        c->previous->next = c->next;
    else
        all->first = c->next;
    if (c->next != NULL)
        c->next->previous = c->previous;
    all->n--;
    if (c->who != NULL)
        peers_left(c->who);
    reader_fini(&c->reader);
    strbuf_fini(&c->in);
    strbuf_fini(&c->out);
    strbuf_fini(&c->sending);
    mem_free(c);
}

void connection_close_now(connection *c)
{
    if (c->phase == CONNECTION_CLOSING)
        return;
    c->phase = CONNECTION_CLOSING;
    exchange *x = c->reader.x;
    if (x != NULL && !x->over)
        exchange_lost(x);
    else if (x != NULL && c->ended)
        exchange_logged(x);
    uv_close(&c->as.handle, on_closed);
}

static void on_shut(uv_shutdown_t *request, int status)
{
    (void)request;
    (void)status;
}

/* Closing while the client still writes would take our reply away from it: first we say that
 * nothing more comes, then we read for a while what is of no use. */
static void linger(connection *c)
{
    c->phase = CONNECTION_LINGERING;
    c->reader.since = os_now();
    c->in.n = c->in_at = 0;
    if (c->eof || uv_shutdown(&c->shutdown, &c->as.stream, on_shut) != 0)
        connection_close_now(c);
}

/* ---- out ---- */

size_t connection_unsent(const connection *c)
{
    return c->out.n + (c->writing ? uv_stream_get_write_queue_size(&c->as.stream) : 0);
}

static void emptied(strbuf *b)
{
    if (b->room > KEPT_BYTES)
        strbuf_fini(b);
    b->n = 0;
}

static void on_written(uv_write_t *request, int status)
{
    connection *c = request->data;
    c->writing = false;
    emptied(&c->sending);
    c->progress = os_now();
    if (status != 0)
        c->doomed = true;
    connection_touch(c);
}

/* What the system does not take at once goes into `sending`, and is sent as it can be. */
static void send_out(connection *c)
{
    if (c->writing)
        return;
    if (c->out.failed) { /* also if there was no memory for its first byte */
        c->doomed = true;
        return;
    }
    if (c->out.n == 0)
        return;
    uv_buf_t all = uv_buf_init(c->out.p, (unsigned)c->out.n);
    int taken = uv_try_write(&c->as.stream, &all, 1);
    if (taken < 0 && taken != UV_EAGAIN) {
        c->doomed = true;
        return;
    }
    size_t done = taken > 0 ? (size_t)taken : 0;
    c->progress = os_now();
    if (done == c->out.n) {
        emptied(&c->out);
        return;
    }
    strbuf swap = c->sending;
    c->sending = c->out;
    c->out = swap;
    uv_buf_t rest = uv_buf_init(c->sending.p + done, (unsigned)(c->sending.n - done));
    c->write.data = c;
    c->writing = uv_write(&c->write, &c->as.stream, &rest, 1, on_written) == 0;
    c->left_before = c->sending.n - done;
    if (!c->writing)
        c->doomed = true;
}

/* A stream that nobody reads must not pile up here. */
static void check_pile(connection *c)
{
    const exchange *x = c->reader.x;
    if (x != NULL && x->streaming &&
        (double)connection_unsent(c) > connection_server(c)->limits.at[LIMIT_OUTPUT])
        c->doomed = true;
}

/* ---- the turn of one connection ---- */

static void stop_reading(connection *c)
{
    if (c->reading)
        uv_read_stop(&c->as.stream);
    c->reading = false;
}

static str waiting_input(const connection *c)
{
    if (c->in.n == c->in_at)
        return (str){"", 0};
    return (str){c->in.p + c->in_at, c->in.n - c->in_at};
}

/* false: the request needs bytes that are not there. */
static bool use_input(connection *c)
{
    str bytes = waiting_input(c);
    if (bytes.n == 0)
        return false;
    size_t used = reader_take(&c->reader, c, bytes, os_now());
    c->in_at += used;
    if (c->in_at == c->in.n) {
        emptied(&c->in);
        c->in_at = 0;
    }
    return used > 0 || c->reader.state == READER_HANDLING;
}

/* The reply before is sent: the connection is ready for the next request, or over. */
static void next_request(connection *c)
{
    exchange_logged(c->reader.x);
    c->ended = false;
    if (!c->keep) {
        reader_next(&c->reader, os_now());
        linger(c);
        return;
    }
    reader_next(&c->reader, os_now());
    if (connection_server(c)->context.draining && c->in.n == 0)
        connection_close_now(c);
}

static void send_all(connection *c)
{
    if (c->reader.x != NULL && c->reader.x->streaming)
        exchange_frame(c->reader.x);
    if (!c->doomed)
        send_out(c);
    check_pile(c);
}

void connection_turn(connection *c)
{
    for (int i = 0; i < MOST_IN_A_ROW; i++) {
        send_all(c);
        if (!c->doomed && c->ended && connection_unsent(c) == 0)
            next_request(c);
        if (c->phase != CONNECTION_OPEN)
            return;
        bool generation = c->reader.state == READER_HANDLING;
        if (c->doomed || (generation && !c->ended && c->eof)) {
            connection_close_now(c);
            return;
        }
        if (generation)
            return;
        if (!use_input(c)) {
            if (c->eof)
                connection_close_now(c);
            else
                connection_start_reading(c);
            return;
        }
    }
    connection_touch(c);
}

/* ---- in ---- */

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    connection *c = handle->data;
    *out = uv_buf_init(c->all->buffer, CONNECTION_READ_BYTES);
}

static void discard(connection *c, size_t n)
{
    c->lingered += n;
    if (c->lingered > MOST_LINGER)
        connection_close_now(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    connection *c = stream->data;
    if (n == 0 || c->phase == CONNECTION_CLOSING)
        return;
    if (n < 0) {
        stop_reading(c);
        c->eof = true;
        if (n != UV_EOF)
            c->doomed = true;
        if (c->phase == CONNECTION_LINGERING)
            connection_close_now(c);
        connection_touch(c);
        return;
    }
    if (c->phase == CONNECTION_LINGERING) {
        discard(c, (size_t)n);
        return;
    }
    strbuf_put(&c->in, (str){buffer->base, (size_t)n});
    if (c->in.failed)
        c->doomed = true;
    if (c->reader.state == READER_HANDLING && c->in.n - c->in_at > MOST_INPUT)
        stop_reading(c);
    connection_touch(c);
}

void connection_start_reading(connection *c)
{
    if (c->reading)
        return;
    c->reading = uv_read_start(&c->as.stream, give_buffer, on_read) == 0;
    if (!c->reading)
        c->doomed = true;
}
