/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.h - listening sockets: from addresses as people write them, or from systemd.
 *
 * A wide address is one that others than this machine can reach.
 */
#ifndef MOTE_SERVER_HTTP_LISTEN_H
#define MOTE_SERVER_HTTP_LISTEN_H

#include "base/err.h"

enum { LISTEN_MAX = 16, LISTEN_NAME_BYTES = 160 };

typedef struct listen_socket {
    int fd;
    bool is_unix, wide;
    char name[LISTEN_NAME_BYTES];   /* "127.0.0.1:11435", "unix:PATH" */
    char host[LISTEN_NAME_BYTES];   /* what Host may say to it: "192.168.1.5"; "" for any address */
    char unlink[LISTEN_NAME_BYTES]; /* a path to remove at the end; "": none */
} listen_socket;

typedef struct listen_set {
    listen_socket sockets[LISTEN_MAX];
    size_t n;
} listen_set;

/* "127.0.0.1:11435", "[::1]:11435", "name:port" of this machine, "unix:PATH" with mode 0600,
 * "systemd": what was passed to the process. Port 0: any that is free. */
mote_status listen_add(listen_set *set, const char *address, mote_error *err);
/* Both loopback addresses with the usual port; without IPv6 one is enough. */
mote_status listen_add_loopback(listen_set *set, mote_error *err);
/* Closes what is still open and removes paths. */
void listen_close(listen_set *set);

#endif
