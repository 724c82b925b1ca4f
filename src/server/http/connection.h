/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connection.h - connections: bytes in, bytes out, deadlines.
 *
 * A connection carries one exchange at a time. Requests that come early wait in its
 * input until the reply before theirs is on its way, so answers keep the order of
 * questions. Everything that ends a connection is only noted when it happens and done at the end of
 * the loop's turn: nothing disappears under the hands of a handler.
 */
#ifndef MOTE_SERVER_HTTP_CONNECTION_H
#define MOTE_SERVER_HTTP_CONNECTION_H

#include "server/http/event_loop.h"
#include "server/http/peers.h"
#include "server/server.h"

typedef struct server server;
typedef struct connection connection;
typedef struct connection_set connection_set;

/* All connections of a server. */
mote_status connection_set_new(connection_set **out, server *s, event_loop *l, mote_error *err);
/* None may be open. NULL is allowed. */
void connection_set_free(connection_set *all);

/* Takes the connection that waits at a listening socket of the loop. */
void connection_set_accept(connection_set *all, struct uv_stream_s *listener, bool is_unix);
/* The end of the loop's turn: sends, closes, goes on with the next request. */
void connection_set_turn(connection_set *all);
/* Deadlines; a few times a second. */
void connection_set_sweep(connection_set *all, double now);

/* Those that wait for a request are closed; the others after their reply. */
void connection_set_drain(connection_set *all);
/* All of them, now. */
void connection_set_close(connection_set *all);
uint32_t connection_set_open(const connection_set *all);
/* How many have an exchange that is being answered, or bytes of a reply to send. */
uint32_t connection_set_busy(const connection_set *all);

/* ---- for the exchange and the reader of a connection ---- */

server *connection_server(const connection *c);
peer *connection_peer(const connection *c);
/* What is to be sent, in order. */
strbuf *connection_output(connection *c);
/* Something is to be done at the end of this turn. */
void connection_touch(connection *c);
/* The reply is complete. keep: another request may follow. */
void connection_ended(connection *c, bool keep);
/* Close without sending what is left. */
void connection_abort(connection *c);

#endif
