/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os_socket.h - sockets and pipes that are closed on exec, as far as systems differ.
 *
 * Writing to a socket of these functions with MSG_NOSIGNAL raises no SIGPIPE. os_linux.c and
 * os_macos.c implement it. macOS sets the flags after the call: a process that another thread forks
 * and executes in between inherits the descriptor.
 */
#ifndef MOTE_BASE_OS_SOCKET_H
#define MOTE_BASE_OS_SOCKET_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Like socket(). -1: errno says why. */
int os_socket(int domain, int type, int protocol);
/* The same; no call on it waits. */
int os_socket_nonblocking(int domain, int type, int protocol);
/* A connected pair of UNIX stream sockets. */
bool os_socket_pair(int pair[2]);
/* Accepts a connection, on which no call waits. -1: errno says why. */
int os_accept(int listening);
/* Like recvmsg(); descriptors in the message are closed on exec. */
ssize_t os_receive_message(int socket, struct msghdr *message);
/* Like pipe(): ends[0] is read, ends[1] is written. */
bool os_pipe(int ends[2]);

#endif
