/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker.c - see worker.h.
 *
 * The program and the nursery share one socket, over which the program sends ends of socket pairs,
 * one for every file. On a pair travel the request (a header and the file) and the answer (a
 * header, the times and the pixels). Both ends are our own program, but the child has read a
 * stranger's file: what it says is checked before it is believed.
 */
#define _GNU_SOURCE
#include "media/worker.h"

#include "base/mem.h"
#include "media/codec.h"
#include "media/sandbox.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct media_nursery {
    int control; /* the program's end */
    pid_t pid;
    pthread_mutex_t lock; /* one message at a time */
};

typedef struct request_header {
    uint64_t file_bytes;
    media_limits limits;
    double fps;
    uint32_t film;
    uint32_t unused;
} request_header;

typedef struct reply_header {
    uint32_t status;
    uint32_t n, width, height, stored_width, stored_height;
    char text[232];
} reply_header;

/* ---- bytes ---- */

static bool write_all(int fd, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

static bool read_all(int fd, void *data, size_t n)
{
    char *p = data;
    while (n > 0) {
        const ssize_t done = read(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

/* ---- the child ---- */

static void reply(int fd, const media_seen *seen, mote_status status, const mote_error *err)
{
    reply_header h = {.status = (uint32_t)status};
    if (status != MOTE_OK) {
        snprintf(h.text, sizeof h.text, "%.*s", (int)sizeof h.text - 1, err->text);
        write_all(fd, &h, sizeof h);
        return;
    }
    h.n = seen->n;
    h.width = seen->width;
    h.height = seen->height;
    h.stored_width = seen->stored_width;
    h.stored_height = seen->stored_height;
    if (write_all(fd, &h, sizeof h) && write_all(fd, seen->times, seen->n * sizeof *seen->times))
        write_all(fd, seen->rgb, (size_t)seen->n * seen->width * seen->height * 3);
}

/* One file; never returns. */
static void work(int fd)
{
    request_header h;
    mote_error err = {0};
    media_seen seen = {0};
    media_sandbox_enter();
    if (!read_all(fd, &h, sizeof h) || h.file_bytes > MEDIA_MAX_BYTES)
        _exit(1);
    char *file = mem_new((size_t)h.file_bytes + 1, 1);
    if (file == NULL || !read_all(fd, file, (size_t)h.file_bytes))
        _exit(1);
    const media_ask ask = {.file = {file, (size_t)h.file_bytes},
                           .film = h.film != 0,
                           .fps = h.fps,
                           .limits = h.limits};
    const mote_status status = media_see_here(&ask, &seen, &err);
    reply(fd, &seen, status, &err);
    _exit(0);
}

/* ---- the nursery ---- */

/* The next socket from the program; -1: it is gone. */
static int receive_socket(int control)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } box;
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &box, .msg_controllen = sizeof box};
    ssize_t n;
    do
        n = recvmsg(control, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    const struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    int fd = -1;
    if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
    return fd;
}

/* Never returns. Children are reaped by the system. */
static void nurse(int control)
{
    signal(SIGINT, SIG_IGN); /* the program decides when it ends */
    signal(SIGTERM, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    for (;;) {
        const int fd = receive_socket(control);
        if (fd < 0)
            _exit(0);
        const pid_t child = fork();
        if (child == 0) {
            close(control);
            work(fd);
        }
        close(fd);
    }
}

/* Everything that was open in the program but the three standard ones and `keep`. */
static void close_others(int keep)
{
    const int end = (int)sysconf(_SC_OPEN_MAX);
    for (int fd = 3; fd < (end > 0 && end < 65536 ? end : 65536); fd++)
        if (fd != keep)
            close(fd);
}

mote_status media_nursery_start(media_nursery **out, mote_error *err)
{
    int pair[2];
    *out = NULL;
    media_nursery *nursery = mem_new(1, sizeof *nursery);
    if (nursery == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        mem_free(nursery);
        return err_set(err, MOTE_E_IO, "no process for decoding pictures can be started");
    }
    pthread_mutex_init(&nursery->lock, NULL);
    nursery->control = pair[0];
    nursery->pid = fork();
    if (nursery->pid == 0) {
        close_others(pair[1]);
        nurse(pair[1]);
    }
    close(pair[1]);
    if (nursery->pid < 0) {
        media_nursery_stop(nursery);
        return err_set(err, MOTE_E_IO, "no process for decoding pictures can be started");
    }
    *out = nursery;
    return MOTE_OK;
}

void media_nursery_stop(media_nursery *nursery)
{
    if (nursery == NULL)
        return;
    close(nursery->control);
    if (nursery->pid > 0)
        waitpid(nursery->pid, NULL, 0);
    pthread_mutex_destroy(&nursery->lock);
    mem_free(nursery);
}

/* ---- the program ---- */

static bool send_socket(media_nursery *nursery, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } box;
    memset(&box, 0, sizeof box);
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &box, .msg_controllen = sizeof box};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    pthread_mutex_lock(&nursery->lock);
    const ssize_t n = sendmsg(nursery->control, &message, MSG_NOSIGNAL);
    pthread_mutex_unlock(&nursery->lock);
    return n == 1;
}

/* write(2) would raise SIGPIPE when the child is gone. */
static bool send_all(int fd, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        const ssize_t done = send(fd, p, n, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

static mote_status no_answer(mote_error *err)
{
    return err_set(err, MOTE_E_IO,
                   "the picture's decoder ended without an answer: the file is damaged or too much "
                   "for its limits");
}

/* A stranger's bytes have been in the child: sizes are checked as if it had made them up. */
static mote_status receive(int fd, const media_ask *ask, media_seen *out, mote_error *err)
{
    reply_header h;
    if (!read_all(fd, &h, sizeof h))
        return no_answer(err);
    h.text[sizeof h.text - 1] = 0;
    if (h.status != MOTE_OK)
        return err_set(err, h.status <= MOTE_E_MISMATCH ? (mote_status)h.status : MOTE_E_FORMAT,
                       "%s", h.text);
    const uint64_t most = ask->film ? MEDIA_FRAMES_MAX : 1;
    if (h.n == 0 || h.n > most || h.width == 0 || h.height == 0 || h.width % MEDIA_SIDE != 0 ||
        h.height % MEDIA_SIDE != 0 || (uint64_t)h.width * h.height > 2 * (uint64_t)MEDIA_FILM_MAX)
        return no_answer(err);
    *out = (media_seen){.n = h.n,
                        .width = h.width,
                        .height = h.height,
                        .stored_width = h.stored_width,
                        .stored_height = h.stored_height};
    out->rgb = mem_new((size_t)h.width * h.height * 3, h.n);
    out->times = mem_new(h.n, sizeof *out->times);
    if (out->rgb == NULL || out->times == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for %u frames of %u x %u", h.n, h.width,
                       h.height);
    if (!read_all(fd, out->times, h.n * sizeof *out->times) ||
        !read_all(fd, out->rgb, (size_t)h.n * h.width * h.height * 3))
        return no_answer(err);
    return MOTE_OK;
}

static mote_status exchange_with_child(media_nursery *nursery, int own, int its,
                                       const media_ask *ask, media_seen *out, mote_error *err)
{
    const request_header h = {
        .file_bytes = ask->file.n, .limits = ask->limits, .fps = ask->fps, .film = ask->film};
    const bool sent = send_socket(nursery, its);
    close(its);
    if (!sent)
        return err_set(err, MOTE_E_IO, "the process that decodes pictures is gone");
    if (!send_all(own, &h, sizeof h) || !send_all(own, ask->file.p, ask->file.n))
        return no_answer(err);
    return receive(own, ask, out, err);
}

mote_status media_see(media_nursery *nursery, const media_ask *ask, media_seen *out,
                      mote_error *err)
{
    int pair[2];
    *out = (media_seen){0};
    if (ask->file.n > MEDIA_MAX_BYTES)
        return err_set(err, MOTE_E_FULL, "a picture file of %zu bytes; the most is %d", ask->file.n,
                       MEDIA_MAX_BYTES);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return err_set(err, MOTE_E_IO, "no socket to the decoder of pictures");
    const mote_status status = exchange_with_child(nursery, pair[0], pair[1], ask, out, err);
    close(pair[0]);
    if (status != MOTE_OK)
        media_seen_fini(out);
    return status;
}
