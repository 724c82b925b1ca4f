/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_server.c - the process that forks one decoder per file. See decoder.h.
 *
 * The parent and the fork server share one control socket. For every file the parent sends one end
 * of a socket pair over it. The fork server never writes to it, so a readable control socket means
 * that the fork server has ended.
 *
 * The sandbox of `mote serve` allows neither fork nor exec, so the server cannot restart a killed
 * fork server. A second process does it, the spawner: this program, executed again at the start.
 * For every fork server the parent sends it the other end of the control socket. The spawner forks
 * so that the fork server is a child of the parent, which can wait for it, and returns its process
 * id. On macOS it stays a child of the spawner, and the parent does not learn which signal ended
 * it.
 */
#include "media/sandbox/decoder_int.h"

#include "base/fd_pass.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/os_process.h"
#include "base/os_socket.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, MINUTE = 60 };

/* argv[0] of the fork server. Its control socket is standard input. */
static const char fork_server_name[] = "mote-media-forkserver";

struct fork_server {
    pthread_mutex_t mutex; /* protects all other fields */
    int control;           /* the parent's end; -1: not running */
    pid_t pid;
    int spawner; /* the parent's end of its socket; -1: not running */
    pid_t spawner_pid;
    uint64_t generation;                          /* counts starts, from 1 */
    double starts[FORK_SERVER_STARTS_PER_MINUTE]; /* ring: times of the last restarts */
    size_t n_starts;
    fork_server_stats stats;
};

/* ---- in the fork server ---- */

/* The path of mote-media-ffmpeg in directory `relative` to this program. */
static void ffmpeg_path(char *out, size_t room, const char *relative)
{
    char own[PATH_BYTES];
    os_program_path(own, sizeof own);
    char *slash = strrchr(own, '/');
    if (slash != NULL)
        *slash = '\0';
    snprintf(out, room, "%s/%smote-media-ffmpeg", own, relative);
}

/* Executes mote-media-ffmpeg with the socket as standard input and an empty environment. Returns if
 * it is not installed. */
static void exec_ffmpeg(int fd)
{
    static const char *const directories[] = {"", "../libexec/mote/"};
    char path[2 * PATH_BYTES];
    char *const arguments[] = {"mote-media-ffmpeg", NULL}, *const environment[] = {NULL};
    if (dup2(fd, STDIN_FILENO) < 0)
        return;
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        ffmpeg_path(path, sizeof path, directories[i]);
        execve(path, arguments, environment);
    }
}

/* SIGCHLD is ignored, so the kernel reaps the decoders. */
static _Noreturn void serve_forks(int control)
{
    char decoder;
    for (;;) {
        const int fd = fd_receive(control, &decoder);
        if (fd < 0)
            _exit(0);
        const pid_t child = fork();
        if (child == 0) {
            close(control);
            if (decoder == FORK_SERVER_FFMPEG)
                exec_ffmpeg(fd);
            decoder_serve(fd);
        }
        if (child < 0)
            decoder_send_error(fd, DECODER_PARENT, MOTE_E_IO, "cannot fork a media decoder");
        close(fd);
    }
}

/* ---- in the spawner ---- */

static _Noreturn void serve_spawns(int control)
{
    char nothing;
    for (;;) {
        const int fd = fd_receive(control, &nothing);
        if (fd < 0)
            _exit(0);
        const pid_t child = os_fork_for_parent();
        if (child == 0) {
            os_thread_name("mote-forkserver");
            if (dup2(fd, STDIN_FILENO) < 0)
                _exit(1);
            close(fd);
            serve_forks(STDIN_FILENO);
        }
        close(fd);
        if (!decoder_write(control, DECODER_PARENT, &child, sizeof child))
            _exit(0);
    }
}

void fork_server_begin(int argc, char *const *argv)
{
    if (argc != 1 || strcmp(argv[0], fork_server_name) != 0)
        return;
    os_thread_name("mote-spawner");
    signal(SIGINT, SIG_IGN); /* it ends when the parent closes the control socket */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_DFL);
    os_close_from(STDERR_FILENO + 1);
    serve_spawns(STDIN_FILENO);
}

/* ---- in the parent: start and stop ---- */

/* Executes this binary again. Only LD_LIBRARY_PATH is passed on: the environment may hold
 * secrets. */
static bool spawn_self(pid_t *pid, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *how)
{
    char name[sizeof fork_server_name], loader[PATH_BYTES], program[PATH_BYTES];
    const char *libraries = getenv("LD_LIBRARY_PATH");
    memcpy(name, fork_server_name, sizeof name);
    snprintf(loader, sizeof loader, "LD_LIBRARY_PATH=%s", libraries != NULL ? libraries : "");
    char *const arguments[] = {name, NULL};
    char *const environment[] = {libraries != NULL ? loader : NULL, NULL};
    return os_program_again(program, sizeof program) &&
           posix_spawn(pid, program, actions, how, arguments, environment) == 0;
}

/* Starts it with `its` as standard input and no signal blocked. */
static bool spawn_with_socket(pid_t *pid, int its)
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
                         spawn_self(pid, &actions, &how);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
    return started;
}

/* Reaps a spawner that has ended. */
static void spawner_reap(fork_server *fs)
{
    char byte;
    if (fs->spawner < 0 ||
        (recv(fs->spawner, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN))
        return;
    close(fs->spawner);
    fs->spawner = -1;
    waitpid(fs->spawner_pid, NULL, 0);
}

/* Starts the spawner if it is not running. In the sandbox of the server this is not possible. */
static bool spawner_start(fork_server *fs)
{
    int pair[2];
    spawner_reap(fs);
    if (fs->spawner >= 0)
        return true;
    if (!os_socket_pair(pair))
        return false;
    const bool started = spawn_with_socket(&fs->spawner_pid, pair[1]);
    close(pair[1]);
    if (started)
        fs->spawner = pair[0];
    else
        close(pair[0]);
    return started;
}

static mote_status fork_server_spawn(fork_server *fs, mote_error *err)
{
    int pair[2];
    if (!spawner_start(fs))
        return err_set(err, MOTE_E_IO,
                       "cannot start the media fork server: its parent was killed too; restart");
    if (!os_socket_pair(pair))
        return err_set(err, MOTE_E_IO, "cannot start the media fork server: %s", strerror(errno));
    const bool started = fd_send(fs->spawner, pair[1], 0) &&
                         decoder_read(fs->spawner, &fs->pid, sizeof fs->pid) && fs->pid > 0;
    close(pair[1]);
    if (!started) {
        close(pair[0]);
        return err_set(err, MOTE_E_IO, "cannot start the media fork server");
    }
    fs->control = pair[0];
    fs->generation++;
    return MOTE_OK;
}

mote_status fork_server_start(fork_server **out, mote_error *err)
{
    *out = NULL;
    fork_server *fs = mem_new(1, sizeof *fs);
    if (fs == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the media fork server");
    pthread_mutex_init(&fs->mutex, NULL);
    fs->control = fs->spawner = -1;
    const mote_status status = fork_server_spawn(fs, err);
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
    if (fs->spawner >= 0) {
        close(fs->spawner);
        waitpid(fs->spawner_pid, NULL, 0);
    }
    pthread_mutex_destroy(&fs->mutex);
    mem_free(fs);
}

/* ---- restart; under the mutex ---- */

/* Reaps the fork server if it has ended. Its decoders finish their files. */
static void fork_server_reap(fork_server *fs)
{
    char byte;
    int how = 0;
    if (fs->control < 0 ||
        (recv(fs->control, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN))
        return;
    close(fs->control);
    fs->control = -1;
    const bool known = waitpid(fs->pid, &how, 0) == fs->pid;
    fs->stats.lost++;
    fs->stats.signal = known && WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}

static mote_status fork_server_restart(fork_server *fs, mote_error *err)
{
    double *oldest = &fs->starts[fs->n_starts % FORK_SERVER_STARTS_PER_MINUTE];
    const double now = os_now();
    if (*oldest > 0 && now - *oldest < MINUTE)
        return err_set(
            err, MOTE_E_IO,
            "the media fork server was killed and restarted %d times within a minute; next start "
            "in %.0f s",
            FORK_SERVER_STARTS_PER_MINUTE, MINUTE - (now - *oldest) + 1);
    *oldest = now;
    fs->n_starts++;
    return fork_server_spawn(fs, err);
}

void fork_server_poll(fork_server *fs, fork_server_stats *stats)
{
    if (pthread_mutex_trylock(&fs->mutex) != 0)
        return;
    fork_server_reap(fs);
    *stats = fs->stats;
    pthread_mutex_unlock(&fs->mutex);
}

/* ---- socket passing ---- */

mote_status fork_server_send(fork_server *fs, int fd, fork_server_decoder decoder,
                             uint64_t *generation, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&fs->mutex);
    fork_server_reap(fs);
    if (fs->control < 0)
        status = fork_server_restart(fs, err);
    *generation = fs->generation;
    if (status == MOTE_OK && !fd_send(fs->control, fd, (char)decoder))
        status = err_set(err, MOTE_E_IO, "cannot send a file to the media fork server");
    pthread_mutex_unlock(&fs->mutex);
    return status;
}

bool fork_server_was_lost(fork_server *fs, uint64_t generation)
{
    pthread_mutex_lock(&fs->mutex);
    fork_server_reap(fs);
    const bool lost = fs->control < 0 || fs->generation != generation;
    pthread_mutex_unlock(&fs->mutex);
    return lost;
}
