/* SPDX-License-Identifier: Apache-2.0 */
/* fd_pass.c - implements fd_pass.h. */
#include "base/fd_pass.h"
#include "base/os_socket.h"

#include <errno.h>
#include <string.h>

/* Room for one descriptor, aligned for its header. */
typedef union fd_box {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
} fd_box;

bool fd_send(int socket, int fd, char byte)
{
    fd_box box;
    memset(&box, 0, sizeof box);
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &box, .msg_controllen = sizeof box};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int fd_receive(int socket, char *byte)
{
    fd_box box;
    struct iovec part = {byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &box, .msg_controllen = sizeof box};
    ssize_t n;
    do
        n = os_receive_message(socket, &message);
    while (n < 0 && errno == EINTR);
    const struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    int fd = -1;
    if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}
