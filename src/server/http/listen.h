/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen.h - listening sockets, from address texts or from systemd; messages to systemd.
 *
 * systemd needs no library: socket activation is two environment variables, sd_notify is one
 * datagram to $NOTIFY_SOCKET.
 */
#ifndef MOTE_SERVER_HTTP_LISTEN_H
#define MOTE_SERVER_HTTP_LISTEN_H

#include "base/err.h"

enum { LISTEN_MAX = 16, LISTEN_NAME_BYTES = 160 };

typedef struct listen_socket {
    int fd;
    bool is_unix;
    bool wide;                      /* reachable from other machines */
    char name[LISTEN_NAME_BYTES];   /* "127.0.0.1:11435", "unix:PATH" */
    char host[LISTEN_NAME_BYTES];   /* allowed in Host: "192.168.1.5"; "" for 0.0.0.0 and [::] */
    char unlink[LISTEN_NAME_BYTES]; /* path to remove at shutdown; "": none */
} listen_socket;

typedef struct listen_set {
    listen_socket sockets[LISTEN_MAX];
    size_t n;
} listen_set;

/* Adds "127.0.0.1:11435", "[::1]:11435", "localhost:PORT", "*:PORT", "unix:PATH" (mode 0600) or
 * "systemd" (all sockets passed to the process). Port 0: any free port. */
mote_status listen_add(listen_set *set, const char *address, mote_error *err);
/* Adds 127.0.0.1 and, if there is IPv6, [::1] with the default port 11435. */
mote_status listen_add_loopback(listen_set *set, mote_error *err);
/* Closes open sockets and removes paths. */
void listen_close(listen_set *set);

/* ---- systemd ---- */

/* Number of sockets passed to this process. */
int systemd_n_sockets(void);
/* Sends "READY=1", "STOPPING=1" or "WATCHDOG=1". Does nothing without $NOTIFY_SOCKET. */
void systemd_notify(const char *text);
/* Interval of WATCHDOG=1 in seconds, half the timeout; 0: no watchdog. */
double systemd_watchdog(void);

#endif
