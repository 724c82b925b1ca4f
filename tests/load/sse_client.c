/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sse_client.c - an HTTP client with thousands of concurrent streams and idle connections.
 *
 *   sse_client PORT IDLE REQUESTS OUT
 *
 * One thread and epoll, so that the client costs less than the server. Opens IDLE connections, then
 * one connection per line of REQUESTS ("PATH JSON"), sends all requests when all connections are
 * open, and reads until every reply is complete. Writes to OUT, for each reply, a line "NUMBER
 * STATUS SECONDS BYTES" and the body without chunk framing. At the end every idle connection
 * requests /health. Prints a summary of name=value pairs on stdout. The API key is in MOTE_KEY.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { READ_BYTES = 65536, EVENTS = 512, PATIENCE_MS = 300000, AT_ONCE = 256 };

typedef struct talk {
    int fd;
    bool idle, open, replying, whole;
    int status;
    char *request; /* [n_request] */
    size_t n_request, sent;
    char *in; /* [n, room] */
    size_t n, room;
    double began, ended;
} talk;

typedef struct clients {
    int poll;
    struct sockaddr_in to;
    talk *talks; /* [n]: streams, then idle ones */
    size_t n, n_streams;
    size_t connected, replying, most_replying;
    size_t over_streams, over_idle; /* complete or lost */
} clients;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what)
{
    fprintf(stderr, "sse_client: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void *grown(void *p, size_t bytes)
{
    p = realloc(p, bytes);
    if (p == NULL)
        die("memory");
    return p;
}

/* ---- requests ---- */

static char *written_request(const char *path, const char *body, size_t *n)
{
    const char *key = getenv("MOTE_KEY");
    char *out = NULL;
    const char *method = body != NULL ? "POST" : "GET";
    int wrote = asprintf(&out,
                         "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                         "Authorization: Bearer %s\r\nContent-Length: %zu\r\n\r\n%s",
                         method, path, key != NULL ? key : "none", body != NULL ? strlen(body) : 0,
                         body != NULL ? body : "");
    if (wrote < 0)
        die("memory");
    *n = (size_t)wrote;
    return out;
}

static void read_requests(clients *all, const char *name)
{
    FILE *f = fopen(name, "r");
    char *line = NULL;
    size_t room = 0;
    if (f == NULL)
        die(name);
    for (ssize_t n; (n = getline(&line, &room, f)) > 0; all->n++) {
        char *body = strchr(line, ' ');
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (body == NULL)
            die("a line without a body");
        *body++ = '\0';
        all->talks = grown(all->talks, (all->n + 1) * sizeof *all->talks);
        talk *t = &all->talks[all->n];
        *t = (talk){.fd = -1};
        t->request = written_request(line, body, &t->n_request);
    }
    all->n_streams = all->n;
    free(line);
    fclose(f);
}

static void add_idle(clients *all, size_t idle)
{
    all->talks = grown(all->talks, (all->n + idle) * sizeof *all->talks);
    for (size_t i = 0; i < idle; i++)
        all->talks[all->n++] = (talk){.fd = -1, .idle = true};
}

/* ---- replies ---- */

static size_t declared_length(const talk *t, const char *head_end)
{
    const char *field = memmem(t->in, (size_t)(head_end - t->in), "\r\nContent-Length:", 17);
    return field != NULL ? (size_t)strtoull(field + 17, NULL, 10) : SIZE_MAX;
}

/* The last chunk is unambiguous: no event contains a carriage return. */
static bool is_whole(talk *t)
{
    char *end = memmem(t->in, t->n, "\r\n\r\n", 4);
    if (end == NULL)
        return false;
    size_t head = (size_t)(end - t->in) + 4;
    if (t->status == 0)
        t->status = atoi(t->in + 9);
    size_t length = declared_length(t, end);
    if (length != SIZE_MAX)
        return t->n >= head + length;
    return t->n >= head + 5 && memcmp(t->in + t->n - 5, "0\r\n\r\n", 5) == 0 &&
           (t->n == head + 5 || memcmp(t->in + t->n - 7, "\r\n", 2) == 0);
}

static void leave(clients *all, talk *t)
{
    if (!t->open)
        return;
    *(t->idle ? &all->over_idle : &all->over_streams) += 1;
    all->replying -= t->replying;
    t->open = t->replying = false;
    close(t->fd);
}

static void take(clients *all, talk *t, const char *bytes, size_t n)
{
    if (t->n + n > t->room) {
        t->room = 2 * (t->n + n);
        t->in = grown(t->in, t->room);
    }
    memcpy(t->in + t->n, bytes, n);
    t->n += n;
    if (!t->replying) {
        t->replying = true;
        all->replying++;
        if (!t->idle && all->replying > all->most_replying)
            all->most_replying = all->replying;
    }
    if (!is_whole(t))
        return;
    t->whole = true;
    t->ended = now();
    leave(all, t);
}

static void on_readable(clients *all, talk *t)
{
    static char bytes[READ_BYTES];
    ssize_t n = read(t->fd, bytes, sizeof bytes);
    if (n > 0) {
        take(all, t, bytes, (size_t)n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        leave(all, t);
    }
}

static void watch(clients *all, talk *t, int how, uint32_t what)
{
    struct epoll_event e = {.events = what, .data.ptr = t};
    if (epoll_ctl(all->poll, how, t->fd, &e) != 0)
        die("epoll");
}

static void on_writable(clients *all, talk *t)
{
    if (t->request == NULL || t->sent == t->n_request) {
        watch(all, t, EPOLL_CTL_MOD, EPOLLIN);
        return;
    }
    ssize_t n = send(t->fd, t->request + t->sent, t->n_request - t->sent, MSG_NOSIGNAL);
    if (n > 0)
        t->sent += (size_t)n;
    else if (n < 0 && errno != EAGAIN) {
        leave(all, t);
        return;
    }
    watch(all, t, EPOLL_CTL_MOD, t->sent == t->n_request ? EPOLLIN : EPOLLIN | EPOLLOUT);
}

/* ---- phases ---- */

/* In batches, so that the backlog of the listening socket does not overflow. */
static void connect_all(clients *all)
{
    for (size_t i = 0; i < all->n; i++) {
        talk *t = &all->talks[i];
        t->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (t->fd < 0 || connect(t->fd, (struct sockaddr *)&all->to, sizeof all->to) != 0)
            die("connect");
        fcntl(t->fd, F_SETFL, O_NONBLOCK);
        t->open = true;
        all->connected++;
        watch(all, t, EPOLL_CTL_ADD, EPOLLIN);
        if (i % AT_ONCE == AT_ONCE - 1)
            usleep(20000);
    }
}

static void send_to(clients *all, size_t first, size_t end)
{
    for (talk *t = all->talks + first; t < all->talks + end; t++) {
        t->began = now();
        if (t->open)
            watch(all, t, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
    }
}

/* Runs until this many are complete or lost; false: no event for a long time. */
static bool read_until(clients *all, const size_t *over, size_t wanted)
{
    struct epoll_event events[EVENTS];
    while (*over < wanted) {
        int n = epoll_wait(all->poll, events, EVENTS, PATIENCE_MS);
        if (n == 0 || (n < 0 && errno != EINTR))
            return false;
        for (int i = 0; i < n; i++) {
            talk *t = events[i].data.ptr;
            if (t->open && (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
                on_readable(all, t);
            if (t->open && (events[i].events & EPOLLOUT))
                on_writable(all, t);
        }
    }
    return true;
}

static void print_body(FILE *out, talk *t)
{
    char *at = memmem(t->in, t->n, "\r\n\r\n", 4);
    at += 4;
    char *end = t->in + t->n, *to = t->in;
    if (declared_length(t, at - 4) != SIZE_MAX) {
        memmove(t->in, at, (size_t)(end - at));
        to += end - at;
    } else {
        for (size_t n; at < end && (n = strtoull(at, &at, 16)) > 0; at += n + 4) {
            if (n + 2 > (size_t)(end - at))
                break; /* invalid chunk: the body stays incomplete, which the reader of OUT notices
                        */
            memmove(to, at + 2, n);
            to += n;
        }
    }
    fprintf(out, "%.6f %zu\n", t->ended - t->began, (size_t)(to - t->in));
    fwrite(t->in, 1, (size_t)(to - t->in), out);
}

static void print_replies(const clients *all, const char *name)
{
    FILE *out = fopen(name, "w");
    if (out == NULL)
        die(name);
    for (size_t i = 0; i < all->n_streams; i++) {
        talk *t = &all->talks[i];
        fprintf(out, "%zu %d ", i, t->whole ? t->status : 0);
        if (t->whole)
            print_body(out, t);
        else
            fprintf(out, "0 0\n");
    }
    if (fclose(out) != 0)
        die(name);
}

/* In batches; returns the number of replies. */
static size_t count_idle_answered(clients *all)
{
    size_t n_request, answered = 0;
    char *request = written_request("/health", NULL, &n_request);
    for (size_t i = all->n_streams, end; i < all->n; i = end) {
        end = i + AT_ONCE < all->n ? i + AT_ONCE : all->n;
        for (size_t k = i; k < end; k++) {
            all->talks[k].request = request;
            all->talks[k].n_request = n_request;
        }
        send_to(all, i, end);
        if (!read_until(all, &all->over_idle, end - all->n_streams))
            break;
    }
    for (size_t i = all->n_streams; i < all->n; i++)
        answered += all->talks[i].whole && all->talks[i].status == 200;
    free(request);
    return answered;
}

static void summarize(const clients *all, size_t idle_closed, size_t idle_answered, double took)
{
    size_t whole = 0;
    for (size_t i = 0; i < all->n_streams; i++)
        whole += all->talks[i].whole;
    printf("connected=%zu whole=%zu at_once=%zu idle_closed=%zu idle_answered=%zu seconds=%.3f\n",
           all->connected, whole, all->most_replying, idle_closed, idle_answered, took);
}

static void free_all(clients *all)
{
    for (size_t i = 0; i < all->n; i++) {
        leave(all, &all->talks[i]);
        free(all->talks[i].in);
        if (!all->talks[i].idle)
            free(all->talks[i].request);
    }
    free(all->talks);
    close(all->poll);
}

int main(int n_words, char **words)
{
    struct rlimit files;
    clients all = {.to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    if (n_words != 5) {
        fprintf(stderr, "sse_client PORT IDLE REQUESTS OUT\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    all.to.sin_port = htons((uint16_t)atoi(words[1]));
    all.poll = epoll_create1(0);
    read_requests(&all, words[3]);
    add_idle(&all, (size_t)atol(words[2]));
    connect_all(&all);
    double began = now();
    send_to(&all, 0, all.n_streams);
    read_until(&all, &all.over_streams, all.n_streams);
    double took = now() - began;
    size_t idle_closed = all.over_idle;
    print_replies(&all, words[4]);
    summarize(&all, idle_closed, count_idle_answered(&all), took);
    free_all(&all);
    return 0;
}
