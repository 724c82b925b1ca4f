/* SPDX-License-Identifier: Apache-2.0 */
/* conn.c - see conn.h. */
#include "server/conn.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/reader.h"
#include "server/server_int.h"

#include <netinet/in.h>
#include <uv.h>

enum {
    READ_BYTES = 65536,
    MOST_INPUT = 65536, /* of requests that wait for the one before them */
    MOST_IN_A_ROW = 32, /* requests of one connection in one turn */
    KEEPALIVE_SECONDS = 60,
    KEPT_BYTES = 16384,   /* a buffer beyond this is given back when it is empty */
    MOST_LINGER = 1 << 20 /* bytes of no use that are read before a connection is cut */
};

typedef enum conn_phase {
    CONN_OPEN,
    CONN_LINGERING, /* the reply is sent, the client may still be writing */
    CONN_CLOSING
} conn_phase;

struct conn {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } as;
    conns *all;
    peer *who;
    conn_phase phase;
    reader reader;
    strbuf in;
    size_t in_at;   /* of `in`, used up */
    strbuf out;     /* to be handed to the system */
    strbuf sending; /* the system has it */
    uv_write_t write;
    uv_shutdown_t shutdown;
    bool writing, reading, ended, keep, doomed, touched;
    bool eof;           /* nothing more comes from the client */
    double progress;    /* the system last took something */
    size_t left_before; /* bytes it had not taken then */
    size_t lingered;
    struct conn *next, *previous; /* of all */
    struct conn *next_touched;
};

struct conns {
    server *server;
    loop *loop;
    conn *first;
    conn *touched;
    uint32_t n;
    /* Listeners with a connection that there was no memory for: libuv says nothing of others before
     * it is accepted, so it is tried again at the next sweep. */
    struct {
        uv_stream_t *listener;
        bool is_unix;
    } later[SERVER_MAX_LISTEN];
    size_t n_later;
    char buffer[READ_BYTES]; /* of one read; its bytes are taken before the next */
};

/* ---- all of them ---- */

mote_status conns_new(conns **out, server *s, loop *l, mote_error *err)
{
    *out = mem_new(1, sizeof **out);
    if (*out == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for connections");
    (*out)->server = s;
    (*out)->loop = l;
    return MOTE_OK;
}

void conns_free(conns *all)
{
    mem_free(all);
}

uint32_t conns_open(const conns *all)
{
    return all->n;
}

static bool is_busy(const conn *c)
{
    return c->phase == CONN_OPEN && (c->reader.state == READER_ANSWERING ||
                                     c->reader.state == READER_BODY || c->writing || c->out.n > 0);
}

uint32_t conns_busy(const conns *all)
{
    uint32_t n = 0;
    for (const conn *c = all->first; c != NULL; c = c->next)
        n += is_busy(c);
    return n;
}

/* ---- for exchange and reader ---- */

server *conn_server(const conn *c)
{
    return c->all->server;
}

peer *conn_peer(const conn *c)
{
    return c->who;
}

strbuf *conn_output(conn *c)
{
    return &c->out;
}

void conn_touch(conn *c)
{
    if (c->touched || c->phase == CONN_CLOSING)
        return;
    c->touched = true;
    c->next_touched = c->all->touched;
    c->all->touched = c;
}

void conn_ended(conn *c, bool keep)
{
    c->ended = true;
    c->keep = keep;
    conn_touch(c);
}

void conn_abort(conn *c)
{
    c->doomed = true;
    conn_touch(c);
}

/* ---- the end of a connection ---- */

/* What is waiting for its turn may be closed before it comes. */
static void forget_touched(conn *c)
{
    conn **at = &c->all->touched;
    while (*at != NULL && *at != c)
        at = &(*at)->next_touched;
    if (*at != NULL)
        *at = c->next_touched;
}

static void on_closed(uv_handle_t *handle)
{
    conn *c = handle->data;
    conns *all = c->all;
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

static void close_now(conn *c)
{
    if (c->phase == CONN_CLOSING)
        return;
    c->phase = CONN_CLOSING;
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
static void linger(conn *c)
{
    c->phase = CONN_LINGERING;
    c->reader.since = os_now();
    c->in.n = c->in_at = 0;
    if (c->eof || uv_shutdown(&c->shutdown, &c->as.stream, on_shut) != 0)
        close_now(c);
}

/* ---- out ---- */

static size_t unsent(const conn *c)
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
    conn *c = request->data;
    c->writing = false;
    emptied(&c->sending);
    c->progress = os_now();
    if (status != 0)
        c->doomed = true;
    conn_touch(c);
}

/* What the system does not take at once goes into `sending`, and is sent as it can be. */
static void send_out(conn *c)
{
    if (c->writing || c->out.n == 0)
        return;
    if (c->out.failed) {
        c->doomed = true;
        return;
    }
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
static void check_pile(conn *c)
{
    const exchange *x = c->reader.x;
    if (x != NULL && x->streaming && (double)unsent(c) > conn_server(c)->limits.at[LIMIT_OUTPUT])
        c->doomed = true;
}

/* ---- the turn of one connection ---- */

static void start_reading(conn *c);

static void stop_reading(conn *c)
{
    if (c->reading)
        uv_read_stop(&c->as.stream);
    c->reading = false;
}

static str waiting_input(const conn *c)
{
    if (c->in.n == c->in_at)
        return (str){"", 0};
    return (str){c->in.p + c->in_at, c->in.n - c->in_at};
}

/* false: the request needs bytes that are not there. */
static bool use_input(conn *c)
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
    return used > 0 || c->reader.state == READER_ANSWERING;
}

/* The reply before is sent: the connection is ready for the next request, or over. */
static void next_request(conn *c)
{
    exchange_logged(c->reader.x);
    c->ended = false;
    if (!c->keep) {
        reader_next(&c->reader, os_now());
        linger(c);
        return;
    }
    reader_next(&c->reader, os_now());
    if (conn_server(c)->draining && c->in.n == 0)
        close_now(c);
}

static void send_all(conn *c)
{
    if (c->reader.x != NULL && c->reader.x->streaming)
        exchange_frame(c->reader.x);
    if (!c->doomed)
        send_out(c);
    check_pile(c);
}

static void turn_of(conn *c)
{
    for (int i = 0; i < MOST_IN_A_ROW; i++) {
        send_all(c);
        if (!c->doomed && c->ended && unsent(c) == 0)
            next_request(c);
        if (c->phase != CONN_OPEN)
            return;
        bool answering = c->reader.state == READER_ANSWERING;
        if (c->doomed || (answering && !c->ended && c->eof)) {
            close_now(c);
            return;
        }
        if (answering)
            return;
        if (!use_input(c)) {
            if (c->eof)
                close_now(c);
            else
                start_reading(c);
            return;
        }
    }
    conn_touch(c);
}

void conns_turn(conns *all)
{
    conn *list = all->touched;
    all->touched = NULL;
    while (list != NULL) {
        conn *c = list;
        list = c->next_touched;
        c->touched = false;
        if (c->phase == CONN_OPEN)
            turn_of(c);
    }
    if (all->touched != NULL)
        loop_again(all->loop);
}

/* ---- in ---- */

static void give_buffer(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    conn *c = handle->data;
    *out = uv_buf_init(c->all->buffer, READ_BYTES);
}

static void discard(conn *c, size_t n)
{
    c->lingered += n;
    if (c->lingered > MOST_LINGER)
        close_now(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    conn *c = stream->data;
    if (n == 0 || c->phase == CONN_CLOSING)
        return;
    if (n < 0) {
        stop_reading(c);
        c->eof = true;
        if (n != UV_EOF)
            c->doomed = true;
        if (c->phase == CONN_LINGERING)
            close_now(c);
        conn_touch(c);
        return;
    }
    if (c->phase == CONN_LINGERING) {
        discard(c, (size_t)n);
        return;
    }
    strbuf_put(&c->in, (str){buffer->base, (size_t)n});
    if (c->in.failed)
        c->doomed = true;
    if (c->reader.state == READER_ANSWERING && c->in.n - c->in_at > MOST_INPUT)
        stop_reading(c);
    conn_touch(c);
}

static void start_reading(conn *c)
{
    if (c->reading)
        return;
    c->reading = uv_read_start(&c->as.stream, give_buffer, on_read) == 0;
    if (!c->reading)
        c->doomed = true;
}

/* ---- the beginning of a connection ---- */

static const char refusal[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                              "Retry-After: 1\r\nConnection: close\r\n\r\n";

static void find_address(conn *c, unsigned char address[16])
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

static bool is_welcome(const conn *c)
{
    const server *s = conn_server(c);
    if (c->who == NULL || c->reader.parser == NULL || s->draining)
        return false;
    if (c->all->n > s->limits.at[LIMIT_CONNECTIONS])
        return false;
    return peer_is_local(c->who) || c->who->connections <= s->limits.at[LIMIT_PER_IP];
}

static void enlist(conn *c)
{
    conns *all = c->all;
    c->next = all->first;
    if (all->first != NULL)
        all->first->previous = c;
    all->first = c;
    all->n++;
}

static conn *make(conns *all, bool is_unix)
{
    conn *c = mem_new(1, sizeof *c);
    if (c == NULL)
        return NULL;
    uv_loop_t *uv = loop_uv(all->loop);
    int failed = is_unix ? uv_pipe_init(uv, &c->as.pipe, 0) : uv_tcp_init(uv, &c->as.tcp);
    if (failed != 0) {
        mem_free(c);
        return NULL;
    }
    c->as.handle.data = c;
    c->all = all;
    enlist(c);
    return c;
}

void conns_accept(conns *all, uv_stream_t *listener, bool is_unix)
{
    conn *c = make(all, is_unix);
    if (c == NULL) {
        if (all->n_later < SERVER_MAX_LISTEN) {
            all->later[all->n_later].listener = listener;
            all->later[all->n_later++].is_unix = is_unix;
        }
        return;
    }
    if (uv_accept(listener, &c->as.stream) != 0) {
        close_now(c);
        return;
    }
    unsigned char address[16];
    find_address(c, address);
    c->who = peers_came(all->server->peers, address);
    reader_init(&c->reader);
    if (!is_welcome(c)) {
        uv_buf_t text = uv_buf_init((char *)(uintptr_t)refusal, sizeof refusal - 1);
        uv_try_write(&c->as.stream, &text, 1);
        all->server->refused_connections++;
        close_now(c);
        return;
    }
    if (!is_unix) {
        uv_tcp_nodelay(&c->as.tcp, 1);
        uv_tcp_keepalive(&c->as.tcp, 1, KEEPALIVE_SECONDS); /* finds clients that lost power */
    }
    start_reading(c);
    if (c->doomed)
        close_now(c);
}

/* ---- time ---- */

/* The system takes bytes as the client reads them: if it takes none for long, nobody reads. */
static bool is_stalled(conn *c, double now)
{
    size_t left = unsent(c);
    if (left == 0 || !c->writing)
        return false;
    size_t queue = uv_stream_get_write_queue_size(&c->as.stream);
    if (queue < c->left_before) {
        c->left_before = queue;
        c->progress = now;
    }
    return now - c->progress > conn_server(c)->limits.at[LIMIT_STALL_SECONDS];
}

static void sweep_one(conn *c, double now)
{
    const limits *l = &conn_server(c)->limits;
    if (c->phase == CONN_LINGERING && now - c->reader.since > l->at[LIMIT_LINGER_SECONDS])
        close_now(c);
    if (c->phase != CONN_OPEN)
        return;
    if (is_stalled(c, now))
        conn_abort(c);
    else if (reader_is_late(&c->reader, l, now) && !reader_too_late(&c->reader, c))
        conn_abort(c);
}

static void accept_later(conns *all)
{
    const size_t n = all->n_later;
    all->n_later = 0; /* those that fail again come back */
    for (size_t i = 0; i < n; i++)
        conns_accept(all, all->later[i].listener, all->later[i].is_unix);
}

void conns_sweep(conns *all, double now)
{
    accept_later(all);
    for (conn *c = all->first, *next; c != NULL; c = next) {
        next = c->next;
        sweep_one(c, now);
    }
}

void conns_drain(conns *all)
{
    all->n_later = 0;
    for (conn *c = all->first; c != NULL; c = c->next)
        if (c->phase == CONN_OPEN && c->reader.state == READER_IDLE && unsent(c) == 0)
            conn_abort(c);
}

void conns_close(conns *all)
{
    for (conn *c = all->first, *next; c != NULL; c = next) {
        next = c->next;
        close_now(c);
    }
}
