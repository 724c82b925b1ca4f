/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conn.h - connections: bytes in, bytes out, deadlines.
 *
 * A connection carries one exchange at a time. Requests that come early wait in its
 * input until the reply before theirs is on its way, so answers keep the order of
 * questions. Everything that ends a connection is only noted when it happens and done at the end of
 * the loop's turn: nothing disappears under the hands of a handler.
 */
#ifndef MOTE_SERVER_DOOR_CONN_H
#define MOTE_SERVER_DOOR_CONN_H

#include "server/door/door_loop.h"
#include "server/door/peers.h"
#include "server/server.h"

typedef struct conn conn;
typedef struct conns conns;

/* All connections of a server. */
mote_status conns_new(conns **out, server *s, loop *l, mote_error *err);
/* None may be open. NULL is allowed. */
void conns_free(conns *all);

/* Takes the connection that waits at a listening socket of the loop. */
void conns_accept(conns *all, struct uv_stream_s *listener, bool is_unix);
/* The end of the loop's turn: sends, closes, goes on with the next request. */
void conns_turn(conns *all);
/* Deadlines; a few times a second. */
void conns_sweep(conns *all, double now);

/* Those that wait for a request are closed; the others after their reply. */
void conns_drain(conns *all);
/* All of them, now. */
void conns_close(conns *all);
uint32_t conns_open(const conns *all);
/* How many have an exchange that is being answered, or bytes of a reply to send. */
uint32_t conns_busy(const conns *all);

/* ---- for the exchange and the reader of a connection ---- */

server *conn_server(const conn *c);
peer *conn_peer(const conn *c);
/* What is to be sent, in order. */
strbuf *conn_output(conn *c);
/* Something is to be done at the end of this turn. */
void conn_touch(conn *c);
/* The reply is complete. keep: another request may follow. */
void conn_ended(conn *c, bool keep);
/* Close without sending what is left. */
void conn_abort(conn *c);

#endif
