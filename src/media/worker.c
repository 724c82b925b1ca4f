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
#include "media/wire.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of an answer. Sides are rounded up to 32, so that long films of narrow pictures have more than
 * the model's limit says. */
enum { MOST_PIXELS = 4 * MEDIA_FILM_MAX, HELPER_PATH_BYTES = 4096 };

struct media_nursery {
    int control; /* the program's end */
    pid_t pid;
    pthread_mutex_t lock; /* one message at a time */
};

/* ---- the nursery ---- */

/* Who decodes: a byte that goes with a socket. */
enum { BUILT_IN = 0, HELPER = 1 };

/* The next socket from the program; -1: it is gone. */
static int receive_socket(int control, char *who)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } box;
    struct iovec part = {who, 1};
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

/* The program for films that are not built in: beside this one, or where it was installed. */
static void helper_beside(char *out, size_t room, const char *between)
{
    char own[HELPER_PATH_BYTES];
    const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
    own[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(own, '/');
    if (slash != NULL)
        *slash = '\0';
    snprintf(out, room, "%s/%smote-media-ffmpeg", own, between);
}

/* Becomes the helper, which finds the socket at its standard input; returns if there is none. It
 * gets nothing from our surroundings. */
static void become_helper(int fd)
{
    static const char *const places[] = {"", "../libexec/mote/"};
    char path[2 * HELPER_PATH_BYTES];
    char *const words[] = {"mote-media-ffmpeg", NULL}, *const nothing[] = {NULL};
    if (dup2(fd, STDIN_FILENO) < 0)
        return;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        helper_beside(path, sizeof path, places[i]);
        execve(path, words, nothing);
    }
}

/* Never returns. Children are reaped by the system. */
static void nurse(int control)
{
    char who;
    signal(SIGINT, SIG_IGN); /* the program decides when it ends */
    signal(SIGTERM, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    for (;;) {
        const int fd = receive_socket(control, &who);
        if (fd < 0)
            _exit(0);
        const pid_t child = fork();
        if (child == 0) {
            close(control);
            if (who == HELPER)
                become_helper(fd);
            wire_serve(fd);
        }
        if (child < 0)
            wire_refuse(fd, WIRE_PROGRAM, MOTE_E_IO,
                        "no process for decoding pictures can be started");
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

static bool send_socket(media_nursery *nursery, int fd, char who)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } box;
    memset(&box, 0, sizeof box);
    struct iovec part = {&who, 1};
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

static mote_status no_nursery(mote_error *err)
{
    return err_set(err, MOTE_E_IO,
                   "the process that decodes pictures is gone: there are none until the program is "
                   "started again");
}

/* The file's fault, if there was somebody to send it to. */
static mote_status no_answer(const media_nursery *nursery, mote_error *err)
{
    char nothing;
    if (recv(nursery->control, &nothing, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN)
        return no_nursery(err); /* it never says anything: it has hung up */
    return err_set(err, MOTE_E_FORMAT,
                   "the picture's decoder ended without an answer: the file is damaged or too much "
                   "for its limits");
}

/* A stranger's bytes have been in the child: sizes are checked as if it had made them up. */
static mote_status receive(const media_nursery *nursery, int fd, const media_ask *ask,
                           media_seen *out, mote_error *err)
{
    wire_reply h;
    if (!wire_read(fd, &h, sizeof h))
        return no_answer(nursery, err);
    h.text[sizeof h.text - 1] = 0;
    if (h.status != MOTE_OK)
        return err_set(err, h.status <= MOTE_E_MISMATCH ? (mote_status)h.status : MOTE_E_FORMAT,
                       "%s", h.text);
    const uint64_t most = ask->film ? MEDIA_FRAMES_MAX : 1;
    if (h.n == 0 || h.n > most || h.width == 0 || h.height == 0 || h.width % MEDIA_SIDE != 0 ||
        h.height % MEDIA_SIDE != 0 || h.width > MEDIA_MAX_SIDE || h.height > MEDIA_MAX_SIDE ||
        (uint64_t)h.n * h.width * h.height > MOST_PIXELS)
        return no_answer(nursery, err);
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
    if (!wire_read(fd, out->times, h.n * sizeof *out->times) ||
        !wire_read(fd, out->rgb, (size_t)h.n * h.width * h.height * 3))
        return no_answer(nursery, err);
    return MOTE_OK;
}

static mote_status exchange_with_child(media_nursery *nursery, int own, int its,
                                       const media_ask *ask, media_seen *out, mote_error *err)
{
    const wire_request h = {.file_bytes = ask->file.n,
                            .limits = ask->limits,
                            .fps = ask->fps,
                            .film = ask->film,
                            .n_parts = (uint32_t)ask->n_parts};
    const char who = media_format_of(ask->file) == MEDIA_FILM ? HELPER : BUILT_IN;
    const bool sent = send_socket(nursery, its, who);
    close(its);
    if (!sent)
        return no_nursery(err);
    /* Who stops reading has said why, or says nothing: either is read afterwards. */
    if (wire_write(own, WIRE_PROGRAM, &h, sizeof h) &&
        wire_write(own, WIRE_PROGRAM, ask->parts, ask->n_parts * sizeof *ask->parts))
        wire_write(own, WIRE_PROGRAM, ask->file.p, ask->file.n);
    return receive(nursery, own, ask, out, err);
}

mote_status media_see(media_nursery *nursery, const media_ask *ask, media_seen *out,
                      mote_error *err)
{
    int pair[2];
    *out = (media_seen){0};
    TRY(media_check_bytes(ask->file.n, ask->film, err));
    if (ask->n_parts > MEDIA_MAX_FRAMES)
        return err_set(err, MOTE_E_FULL, "a film of %zu files; the most is %d", ask->n_parts,
                       MEDIA_MAX_FRAMES);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return err_set(err, MOTE_E_IO, "no socket to the decoder of pictures");
    const mote_status status = exchange_with_child(nursery, pair[0], pair[1], ask, out, err);
    close(pair[0]);
    if (status != MOTE_OK)
        media_seen_fini(out);
    return status;
}
