/* SPDX-License-Identifier: Apache-2.0 */
/* systemd.c - see systemd.h: two environment variables and one datagram, no library. */
#include "server/http/systemd.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static long number_of(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (text == NULL || text[0] == '\0')
        return 0;
    long number = strtol(text, &end, 10);
    return *end == '\0' ? number : 0;
}

int systemd_passed(void)
{
    enum { MOST = 64 };
    long n = number_of("LISTEN_FDS");
    return number_of("LISTEN_PID") == (long)getpid() && n > 0 && n <= MOST ? (int)n : 0;
}

void systemd_tell(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, strlen(path));
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&to, bytes);
    close(fd);
}

double systemd_watchdog(void)
{
    long pid = number_of("WATCHDOG_PID");
    long us = number_of("WATCHDOG_USEC");
    return us > 0 && (pid == 0 || pid == (long)getpid()) ? (double)us / 2e6 : 0;
}
