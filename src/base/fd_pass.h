/* SPDX-License-Identifier: Apache-2.0 */
/* fd_pass.h - passes a descriptor to another process over a UNIX socket. */
#ifndef MOTE_BASE_FD_PASS_H
#define MOTE_BASE_FD_PASS_H

#include <stdbool.h>

/* Sends `fd` and one byte. The caller still owns `fd`. */
bool fd_send(int socket, int fd, char byte);
/* Waits for the next descriptor; it is closed on exec. -1: the other end is closed, or an error. */
int fd_receive(int socket, char *byte);

#endif
