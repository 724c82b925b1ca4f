/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c - see listen.h. */
#include "server/http/listen.h"

#include "base/os_socket.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024, DEFAULT_PORT = 11435, SYSTEMD_FIRST_FD = 3, SYSTEMD_MAX_FDS = 64 };

typedef union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
    struct sockaddr_storage room;
} any_address;

static listen_socket *listen_new_socket(listen_set *set, mote_error *err)
{
    if (set->n == LISTEN_MAX) {
        err_set(err, MOTE_E_ARG, "too many addresses to listen on; at most %d", LISTEN_MAX);
        return NULL;
    }
    listen_socket *s = &set->sockets[set->n];
    *s = (listen_socket){.fd = -1};
    return s;
}

static mote_status listen_failed(const char *address, const char *what, mote_error *err)
{
    const char *advice = errno == EADDRINUSE ? "; the address is in use: stop the other program or "
                                               "choose another address with --listen"
                         : errno == EACCES
                             ? "; ports below 1024 need root privileges: choose another port"
                             : "";
    return err_set(err, MOTE_E_IO, "cannot %s %.100s: %s%s", what, address, strerror(errno),
                   advice);
}

/* ---- TCP ---- */

static bool address_is_loopback(const any_address *a)
{
    if (a->any.sa_family == AF_INET)
        return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
    return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static bool address_is_any(const any_address *a)
{
    if (a->any.sa_family == AF_INET)
        return a->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
}

/* Sets name, host and wide of a bound socket. */
static void listen_describe_tcp(listen_socket *s, const any_address *a)
{
    char text[INET6_ADDRSTRLEN] = "";
    bool v6 = a->any.sa_family == AF_INET6;
    inet_ntop(a->any.sa_family, v6 ? (const void *)&a->v6.sin6_addr : &a->v4.sin_addr, text,
              sizeof text);
    unsigned port = ntohs(v6 ? a->v6.sin6_port : a->v4.sin_port);
    snprintf(s->name, sizeof s->name, v6 ? "[%s]:%u" : "%s:%u", text, port);
    snprintf(s->host, sizeof s->host, v6 ? "[%s]" : "%s", text);
    if (address_is_any(a))
        s->host[0] = '\0';
    s->wide = !address_is_loopback(a);
}

static bool split_host_port(const char *address, char *host, size_t room, unsigned *port)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL || (size_t)(colon - address) >= room)
        return false;
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = '\0';
    char *end;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != '\0' || number > 65535)
        return false;
    *port = (unsigned)number;
    size_t n = strlen(host);
    if (n > 1 && host[0] == '[' && host[n - 1] == ']') {
        memmove(host, host + 1, n - 2);
        host[n - 2] = '\0';
    }
    return n > 0;
}

static bool parse_tcp_address(const char *address, any_address *out, socklen_t *bytes)
{
    char host[LISTEN_NAME_BYTES];
    unsigned port;
    if (!split_host_port(address, host, sizeof host, &port))
        return false;
    if (strcmp(host, "localhost") == 0)
        snprintf(host, sizeof host, "127.0.0.1");
    if (strcmp(host, "*") == 0)
        snprintf(host, sizeof host, "0.0.0.0");
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, host, &out->v4.sin_addr) == 1) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons((uint16_t)port);
        *bytes = sizeof out->v4;
        return true;
    }
    if (inet_pton(AF_INET6, host, &out->v6.sin6_addr) != 1)
        return false;
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons((uint16_t)port);
    *bytes = sizeof out->v6;
    return true;
}

static mote_status listen_open_tcp(listen_socket *s, any_address *a, socklen_t bytes,
                                   const char *name, mote_error *err)
{
    const int on = 1;
    s->fd = os_socket_nonblocking(a->any.sa_family, SOCK_STREAM, 0);
    if (s->fd < 0)
        return listen_failed(name, "open", err);
    setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (a->any.sa_family == AF_INET6)
        setsockopt(s->fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (bind(s->fd, &a->any, bytes) != 0 || listen(s->fd, BACKLOG) != 0 ||
        getsockname(s->fd, &a->any, &bytes) != 0) {
        mote_status status = listen_failed(name, "listen on", err);
        close(s->fd);
        s->fd = -1;
        return status;
    }
    listen_describe_tcp(s, a);
    return MOTE_OK;
}

static mote_status listen_add_tcp(listen_set *set, const char *address, mote_error *err)
{
    any_address a;
    socklen_t bytes;
    if (!parse_tcp_address(address, &a, &bytes))
        return err_set(err, MOTE_E_ARG,
                       "%.100s is not an address to listen on; use 127.0.0.1:11435, [::1]:11435 or "
                       "unix:PATH",
                       address);
    listen_socket *s = listen_new_socket(set, err);
    if (s == NULL)
        return MOTE_E_ARG;
    TRY(listen_open_tcp(s, &a, bytes, address, err));
    set->n++;
    return MOTE_OK;
}

/* ---- UNIX sockets ---- */

/* Is the path a socket without a listening process? */
static bool unix_socket_is_stale(const any_address *a, socklen_t bytes)
{
    struct stat info;
    if (lstat(a->local.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return false;
    int fd = os_socket(AF_UNIX, SOCK_STREAM, 0);
    bool answered = fd >= 0 && connect(fd, &a->any, bytes) == 0;
    bool abandoned = fd >= 0 && !answered && errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return abandoned;
}

static mote_status listen_bind_unix(listen_socket *s, const any_address *a, const char *name,
                                    mote_error *err)
{
    socklen_t bytes = sizeof a->local;
    s->fd = os_socket_nonblocking(AF_UNIX, SOCK_STREAM, 0);
    if (s->fd < 0)
        return listen_failed(name, "open", err);
    if (unix_socket_is_stale(a, bytes))
        unlink(a->local.sun_path);
    /* umask() instead of chmod(): the file never exists with a wider mode. */
    mode_t before = umask(0177);
    int bound = bind(s->fd, &a->any, bytes);
    umask(before);
    if (bound != 0)
        return listen_failed(name, "listen on", err);
    snprintf(s->unlink, sizeof s->unlink, "%s", a->local.sun_path);
    return listen(s->fd, BACKLOG) == 0 ? MOTE_OK : listen_failed(name, "listen on", err);
}

static mote_status listen_add_unix(listen_set *set, const char *path, mote_error *err)
{
    any_address a;
    memset(&a, 0, sizeof a);
    a.local.sun_family = AF_UNIX;
    if (path[0] == '\0' || strlen(path) >= sizeof a.local.sun_path)
        return err_set(err, MOTE_E_ARG, "the path of a UNIX socket must have 1 to %zu bytes",
                       sizeof a.local.sun_path - 1);
    memcpy(a.local.sun_path, path, strlen(path));
    listen_socket *s = listen_new_socket(set, err);
    if (s == NULL)
        return MOTE_E_ARG;
    s->is_unix = true;
    snprintf(s->name, sizeof s->name, "unix:%s", path);
    mote_status status = listen_bind_unix(s, &a, s->name, err);
    if (status != MOTE_OK && s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
        return status;
    }
    set->n++;
    return status;
}

/* ---- systemd ---- */

static long env_number(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (text == NULL || text[0] == '\0')
        return 0;
    long number = strtol(text, &end, 10);
    return *end == '\0' ? number : 0;
}

int systemd_n_sockets(void)
{
    long n = env_number("LISTEN_FDS");
    return env_number("LISTEN_PID") == (long)getpid() && n > 0 && n <= SYSTEMD_MAX_FDS ? (int)n : 0;
}

void systemd_notify(const char *text)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (path == NULL || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof to.sun_path)
        return;
    memcpy(to.sun_path, path, strlen(path));
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    int fd = os_socket_nonblocking(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0)
        return;
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    sendto(fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&to, bytes);
    close(fd);
}

double systemd_watchdog(void)
{
    long pid = env_number("WATCHDOG_PID");
    long us = env_number("WATCHDOG_USEC");
    return us > 0 && (pid == 0 || pid == (long)getpid()) ? (double)us / 2e6 : 0;
}

static mote_status listen_add_fd(listen_set *set, int fd, mote_error *err)
{
    any_address a;
    socklen_t bytes = sizeof a;
    int listening = 0;
    socklen_t listening_bytes = sizeof listening;
    memset(&a, 0, sizeof a);
    if (getsockname(fd, &a.any, &bytes) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &listening_bytes) != 0 || !listening)
        return err_set(err, MOTE_E_ARG, "descriptor %d from systemd is not a listening socket", fd);
    listen_socket *s = listen_new_socket(set, err);
    if (s == NULL)
        return MOTE_E_ARG;
    s->fd = fd;
    s->is_unix = a.any.sa_family == AF_UNIX;
    if (s->is_unix)
        snprintf(s->name, sizeof s->name, "unix:%.*s", (int)sizeof a.local.sun_path,
                 a.local.sun_path);
    else
        listen_describe_tcp(s, &a);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    set->n++;
    return MOTE_OK;
}

static mote_status listen_add_systemd(listen_set *set, mote_error *err)
{
    const int n = systemd_n_sockets();
    if (n == 0)
        return err_set(err, MOTE_E_ARG, "systemd passed no socket to this process");
    for (int i = 0; i < n; i++)
        TRY(listen_add_fd(set, SYSTEMD_FIRST_FD + i, err));
    return MOTE_OK;
}

/* ---- all kinds ---- */

mote_status listen_add(listen_set *set, const char *address, mote_error *err)
{
    if (strncmp(address, "http://", 7) == 0)
        address += 7; /* a URL is accepted, too */
    if (strcmp(address, "systemd") == 0)
        return listen_add_systemd(set, err);
    if (strncmp(address, "unix:", 5) == 0)
        return listen_add_unix(set, address + 5, err);
    return listen_add_tcp(set, address, err);
}

mote_status listen_add_loopback(listen_set *set, mote_error *err)
{
    char address[40];
    snprintf(address, sizeof address, "127.0.0.1:%d", DEFAULT_PORT);
    TRY(listen_add(set, address, err));
    snprintf(address, sizeof address, "[::1]:%d", DEFAULT_PORT);
    listen_add(set, address, NULL);
    return MOTE_OK;
}

void listen_close(listen_set *set)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->sockets[i].fd >= 0)
            close(set->sockets[i].fd);
        if (set->sockets[i].unlink[0] != '\0')
            unlink(set->sockets[i].unlink);
    }
    set->n = 0;
}
