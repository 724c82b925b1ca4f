/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_server.c - see nursery.h.
 *
 * The program and the nursery share one socket, over which the program sends ends of socket pairs,
 * one for every file. The nursery never says anything: what can be read there is its end.
 */
#define _GNU_SOURCE
#include "media/sandbox/fork_server.h"

#include "base/mem.h"
#include "base/os.h"
#include "media/sandbox/decoder_worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HELPER_PATH_BYTES = 4096, LOADER_PATH_BYTES = 4096, MINUTE = 60 };

/* What it is called by. Its socket is its standard input. */
static const char fork_server_name[] = "mote-media-nursery";

struct fork_server {
    pthread_mutex_t lock; /* of all that follows */
    int control;          /* the program's end; -1: there is no nursery */
    pid_t pid;
    uint64_t number; /* of this one, from 1 */
    double
        starts[FORK_SERVER_STARTS_A_MINUTE]; /* times of the last ones but the first, in a ring */
    size_t n_starts;
    fork_server_stats stats;
};

/* ---- the nursery ---- */

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

/* Children are reaped by the system. */
static _Noreturn void nurse(int control)
{
    char who;
    for (;;) {
        const int fd = receive_socket(control, &who);
        if (fd < 0)
            _exit(0);
        const pid_t child = fork();
        if (child == 0) {
            close(control);
            if (who == FORK_SERVER_HELPER)
                become_helper(fd);
            wire_serve(fd);
        }
        if (child < 0)
            wire_refuse(fd, WIRE_PROGRAM, MOTE_E_IO,
                        "no process for decoding pictures can be started");
        close(fd);
    }
}

/* Everything that was open in the program but the three standard ones. */
static void close_others(void)
{
#if defined(SYS_close_range)
    if (syscall(SYS_close_range, 3, ~0U, 0) == 0)
        return;
#endif
    const int end = (int)sysconf(_SC_OPEN_MAX);
    for (int fd = 3; fd < (end > 0 && end < 65536 ? end : 65536); fd++)
        close(fd);
}

void fork_server_begin(int argc, char *const *argv)
{
    if (argc != 1 || strcmp(argv[0], fork_server_name) != 0)
        return;
    prctl(PR_SET_NAME, "mote-nursery");
    signal(SIGINT, SIG_IGN); /* the program decides when it ends, */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN); /* whatever its terminal does */
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    close_others();
    nurse(STDIN_FILENO);
}

/* ---- starting one ---- */

/* This program by the other name. Of our surroundings it gets where its libraries are, if somebody
 * had to say so: keys may stand in the rest. */
static bool spawn(pid_t *pid, const posix_spawn_file_actions_t *actions,
                  const posix_spawnattr_t *how)
{
    char name[sizeof fork_server_name], loader[LOADER_PATH_BYTES];
    const char *libraries = getenv("LD_LIBRARY_PATH");
    memcpy(name, fork_server_name, sizeof name);
    snprintf(loader, sizeof loader, "LD_LIBRARY_PATH=%s", libraries != NULL ? libraries : "");
    char *const words[] = {name, NULL};
    char *const surroundings[] = {libraries != NULL ? loader : NULL, NULL};
    return posix_spawn(pid, "/proc/self/exe", actions, how, words, surroundings) == 0;
}

/* No signal is blocked in it, whatever the thread does that starts it. */
static bool start_at(pid_t *pid, int its)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    if (posix_spawnattr_init(&how) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return false;
    }
    const bool started = posix_spawn_file_actions_adddup2(&actions, its, STDIN_FILENO) == 0 &&
                         posix_spawnattr_setsigmask(&how, &none) == 0 &&
                         posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK) == 0 &&
                         spawn(pid, &actions, &how);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
    return started;
}

static mote_status start_one(fork_server *fs, mote_error *err)
{
    int pair[2];
    const bool connected = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
    const bool started = connected && start_at(&fs->pid, pair[1]);
    if (connected)
        close(pair[1]);
    if (connected && !started)
        close(pair[0]);
    if (!started)
        return err_set(err, MOTE_E_IO, "no process for decoding pictures can be started");
    fs->control = pair[0];
    fs->number++;
    return MOTE_OK;
}

mote_status fork_server_start(fork_server **out, mote_error *err)
{
    *out = NULL;
    fork_server *fs = mem_new(1, sizeof *fs);
    if (fs == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for decoding pictures");
    pthread_mutex_init(&fs->lock, NULL);
    fs->control = -1;
    const mote_status status = start_one(fs, err);
    if (status != MOTE_OK) {
        fork_server_stop(fs);
        return status;
    }
    *out = fs;
    return MOTE_OK;
}

void fork_server_stop(fork_server *fs)
{
    if (fs == NULL)
        return;
    if (fs->control >= 0) {
        close(fs->control);
        waitpid(fs->pid, NULL, 0);
    }
    pthread_mutex_destroy(&fs->lock);
    mem_free(fs);
}

/* ---- losing it, and starting another; under the lock ---- */

static bool has_hung_up(const fork_server *fs)
{
    char nothing;
    return recv(fs->control, &nothing, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* It is buried, if it is gone. Its children are not its own any more and finish what they do. */
static void bury(fork_server *fs)
{
    int how = 0;
    if (fs->control < 0 || !has_hung_up(fs))
        return;
    close(fs->control);
    fs->control = -1;
    const bool known = waitpid(fs->pid, &how, 0) == fs->pid;
    fs->stats.lost++;
    fs->stats.signal = known && WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

static mote_status start_again(fork_server *fs, mote_error *err)
{
    double *oldest = &fs->starts[fs->n_starts % FORK_SERVER_STARTS_A_MINUTE];
    const double now = os_now();
    if (*oldest > 0 && now - *oldest < MINUTE)
        return err_set(
            err, MOTE_E_IO,
            "the process that decodes pictures was started %d times within a minute: it is "
            "started again in %.0f s",
            FORK_SERVER_STARTS_A_MINUTE, MINUTE - (now - *oldest) + 1);
    *oldest = now;
    fs->n_starts++;
    return start_one(fs, err);
}

void fork_server_poll(fork_server *fs, fork_server_stats *stats)
{
    if (pthread_mutex_trylock(&fs->lock) != 0)
        return;
    bury(fs);
    *stats = fs->stats;
    pthread_mutex_unlock(&fs->lock);
}

/* ---- giving it something ---- */

static bool give(int control, int fd, char who)
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
    return sendmsg(control, &message, MSG_NOSIGNAL) == 1;
}

mote_status fork_server_send(fork_server *fs, int fd, fork_server_decoder who, uint64_t *which,
                             mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&fs->lock);
    bury(fs);
    if (fs->control < 0)
        status = start_again(fs, err);
    *which = fs->number;
    if (status == MOTE_OK && !give(fs->control, fd, (char)who))
        status = err_set(err, MOTE_E_IO, "the process that decodes pictures takes nothing");
    pthread_mutex_unlock(&fs->lock);
    return status;
}

bool fork_server_was_lost(fork_server *fs, uint64_t which)
{
    pthread_mutex_lock(&fs->lock);
    bury(fs);
    const bool lost = fs->control < 0 || fs->number != which;
    pthread_mutex_unlock(&fs->lock);
    return lost;
}
