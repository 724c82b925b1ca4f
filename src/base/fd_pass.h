/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fd_pass.h - descriptors of helper processes: passing one over a UNIX socket, closing inherited
 * ones.
 */
#ifndef MOTE_BASE_FD_PASS_H
#define MOTE_BASE_FD_PASS_H

#include <stdbool.h>

/* Sends `fd` and one byte. The caller still owns `fd`. */
bool fd_send(int socket, int fd, char byte);
/* Waits for the next descriptor; it is closed on exec. -1: the other end is closed, or an error. */
int fd_receive(int socket, char *byte);
/* Closes all descriptors from `first` on. */
void fd_close_from(int first);

#endif
