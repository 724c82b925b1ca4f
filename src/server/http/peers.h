/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h - who is connected, by address: how many connections, how many wrong keys.
 *
 * An IPv6 address counts by its first 64 bits: whoever has one of them has all. All who
 * come through UNIX sockets are one peer without a limit of its own. Loop thread.
 */
#ifndef MOTE_SERVER_HTTP_PEERS_H
#define MOTE_SERVER_HTTP_PEERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct peers peers;

typedef struct peer {
    unsigned char address[16]; /* as IPv6; all zero: a UNIX socket */
    uint64_t id;               /* of the address, salted: not to be guessed, not 0 */
    uint32_t connections;
    uint32_t failures; /* wrong keys since `since` */
    double since;
    struct peer *next;
} peer;

/* NULL: no memory. */
peers *peers_new(void);
/* NULL is allowed. */
void peers_free(peers *p);

/* Somebody has come; NULL: no memory. One peer_left for each. */
peer *peers_came(peers *p, const unsigned char address[16]);
void peers_left(peer *who);
bool peer_is_local(const peer *who);

/* Counts a wrong key; the count of this minute. */
uint32_t peer_failed(peer *who, double now);
/* Now and then: forgets those who are gone and have nothing to answer for. */
void peers_sweep(peers *p, double now);

#endif
