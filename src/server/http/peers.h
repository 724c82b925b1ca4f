/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - clients by IP address: number of connections, number of wrong API keys.
 *
 * IPv6 addresses are grouped by their first 64 bits, because one client usually has all of them.
 * All clients of UNIX sockets are one peer. It and the loopback addresses have no connection limit:
 * a local proxy connects for all of its clients. Event loop thread only.
 */
#ifndef MOTE_SERVER_HTTP_PEERS_H
#define MOTE_SERVER_HTTP_PEERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct peers peers;

typedef struct peer {
    unsigned char address[16]; /* as IPv6; all zero: a UNIX socket */
    uint64_t id;               /* salted hash of the address; unpredictable, never 0 */
    uint32_t connections;
    uint32_t failures; /* wrong keys since `since` */
    double since;
    struct peer *next;
} peer;

/* NULL: out of memory. */
peers *peers_new(void);
/* NULL is allowed. */
void peers_free(peers *p);

/* Counts a new connection; NULL: out of memory. Call peers_left() when it closes. */
peer *peers_came(peers *p, const unsigned char address[16]);
void peers_left(peer *p);
/* Is it this machine: a UNIX socket, 127.0.0.0/8 or ::1? */
bool peer_is_local(const peer *p);

/* Counts a wrong key; returns the count of the current minute. */
uint32_t peer_failed(peer *p, double now);
/* Frees peers without connections and without recent wrong keys. */
void peers_sweep(peers *p, double now);

#endif
