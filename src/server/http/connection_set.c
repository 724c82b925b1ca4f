/* SPDX-License-Identifier: Apache-2.0 */
/* connection_set.c - all connections: how they come, whose turn it is, when they are late. See
 * connection.h. */
#include "server/http/connection_int.h"

#include "base/mem.h"
#include "server/server_int.h"

#include <netinet/in.h>

enum { KEEPALIVE_SECONDS = 60 };

mote_status connection_set_new(connection_set **out, server *s, event_loop *l, mote_error *err)
{
    *out = mem_new(1, sizeof **out);
    if (*out == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for connections");
    (*out)->server = s;
    (*out)->loop = l;
    return MOTE_OK;
}

void connection_set_free(connection_set *all)
{
    mem_free(all);
}

uint32_t connection_set_open(const connection_set *all)
{
    return all->n;
}

static bool is_busy(const connection *c)
{
    return c->phase == CONNECTION_OPEN &&
           (c->reader.state == READER_HANDLING || c->reader.state == READER_BODY || c->writing ||
            c->out.n > 0);
}

uint32_t connection_set_busy(const connection_set *all)
{
    uint32_t n = 0;
    for (const connection *c = all->first; c != NULL; c = c->next)
        n += is_busy(c);
    return n;
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
        event_loop_again(all->loop);
}

/* ---- the beginning of a connection ---- */

static const char refusal[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                              "Retry-After: 1\r\nConnection: close\r\n\r\n";

static void find_address(connection *c, unsigned char address[16])
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

static bool is_welcome(const connection *c)
{
    const server *s = connection_server(c);
    if (c->who == NULL || c->reader.parser == NULL || s->context.draining)
        return false;
    if (c->all->n > s->limits.at[LIMIT_CONNECTIONS])
        return false;
    return peer_is_local(c->who) || c->who->connections <= s->limits.at[LIMIT_PER_IP];
}

static void enlist(connection *c)
{
    connection_set *all = c->all;
    c->next = all->first;
    if (all->first != NULL)
        all->first->previous = c;
    all->first = c;
    all->n++;
}

static connection *make(connection_set *all, bool is_unix)
{
    connection *c = mem_new(1, sizeof *c);
    if (c == NULL)
        return NULL;
    uv_loop_t *uv = event_loop_uv(all->loop);
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

void connection_set_accept(connection_set *all, uv_stream_t *listener, bool is_unix)
{
    connection *c = make(all, is_unix);
    if (c == NULL) {
        if (all->n_later < SERVER_MAX_LISTEN) {
            all->later[all->n_later].listener = listener;
            all->later[all->n_later++].is_unix = is_unix;
        }
        return;
    }
    if (uv_accept(listener, &c->as.stream) != 0) {
        connection_close_now(c);
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
        connection_close_now(c);
        return;
    }
    if (!is_unix) {
        uv_tcp_nodelay(&c->as.tcp, 1);
        uv_tcp_keepalive(&c->as.tcp, 1, KEEPALIVE_SECONDS); /* finds clients that lost power */
    }
    connection_start_reading(c);
    if (c->doomed)
        connection_close_now(c);
}

/* ---- time ---- */

/* The system takes bytes as the client reads them: if it takes none for long, nobody reads. */
static bool is_stalled(connection *c, double now)
{
    size_t left = connection_unsent(c);
    if (left == 0 || !c->writing)
        return false;
    size_t queue = uv_stream_get_write_queue_size(&c->as.stream);
    if (queue < c->left_before) {
        c->left_before = queue;
        c->progress = now;
    }
    return now - c->progress > connection_server(c)->limits.at[LIMIT_STALL_SECONDS];
}

static void sweep_one(connection *c, double now)
{
    const limits *l = &connection_server(c)->limits;
    if (c->phase == CONNECTION_LINGERING && now - c->reader.since > l->at[LIMIT_LINGER_SECONDS])
        connection_close_now(c);
    if (c->phase != CONNECTION_OPEN)
        return;
    if (is_stalled(c, now))
        connection_abort(c);
    else if (reader_is_late(&c->reader, l, now) && !reader_too_late(&c->reader, c))
        connection_abort(c);
}

static void accept_later(connection_set *all)
{
    const size_t n = all->n_later;
    all->n_later = 0; /* those that fail again come back */
    for (size_t i = 0; i < n; i++)
        connection_set_accept(all, all->later[i].listener, all->later[i].is_unix);
}

void connection_set_sweep(connection_set *all, double now)
{
    accept_later(all);
    for (connection *c = all->first, *next; c != NULL; c = next) {
        next = c->next;
        sweep_one(c, now);
    }
}

void connection_set_drain(connection_set *all)
{
    all->n_later = 0;
    for (connection *c = all->first; c != NULL; c = c->next)
        if (c->phase == CONNECTION_OPEN && c->reader.state == READER_IDLE &&
            connection_unsent(c) == 0)
            connection_abort(c);
}

void connection_set_close(connection_set *all)
{
    for (connection *c = all->first, *next; c != NULL; c = next) {
        next = c->next;
        connection_close_now(c);
    }
}
