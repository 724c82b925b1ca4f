/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_test.c - decoder processes: results equal those of this process, a bad file fails alone, a
 * killed decoder affects no other request, and a killed fork server is restarted.
 */
#define _GNU_SOURCE
#include "base/mem.h"
#include "media/sandbox/decoder_int.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what, const char *why)
{
    printf("FAILED: %s: %s\n", what, why);
    exit(1);
}

static str read_file(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/vision/images/%s", MOTE_TEST_DATA, name);
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail(path, "cannot be opened");
    char *bytes = mem_new(4 << 20, 1);
    const str file = {bytes, fread(bytes, 1, 4 << 20, f)};
    fclose(f);
    return file;
}

static bool same(const media_frames *a, const media_frames *b)
{
    return a->n == b->n && a->width == b->width && a->height == b->height &&
           memcmp(a->rgb, b->rgb, (size_t)a->n * a->width * a->height * 3) == 0 &&
           memcmp(a->times, b->times, a->n * sizeof *a->times) == 0;
}

static const char *const names[] = {"gradient_300x200.png", "scene_320x240.jpg", "rgba_160x120.png",
                                    "exif6_300x200.jpg", "one_pixel.png"};
enum { N_NAMES = sizeof names / sizeof *names };

static void equal_to_this_process(fork_server *fs)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        mote_error err = {0};
        media_frames here, there;
        const media_request request = {.file = read_file(names[i])};
        if (media_load_here(&request, &here, &err) != MOTE_OK)
            fail(names[i], err.text);
        if (media_load(fs, &request, &there, &err) != MOTE_OK)
            fail(names[i], err.text);
        if (!same(&here, &there))
            fail(names[i], "the decoder process gives other pixels");
        media_frames_fini(&here);
        media_frames_fini(&there);
        mem_free((void *)request.file.p);
    }
}

static void rejects(fork_server *fs)
{
    static const str wrong[] = {{"", 0}, {"GIF89a", 6}, {"\xff\xd8\xff\xe0 no", 8}, {"hello", 5}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        media_frames frames;
        mote_error err = {0};
        const mote_status status =
            media_load(fs, &(media_request){.file = wrong[i]}, &frames, &err);
        if (status != MOTE_E_FORMAT && status != MOTE_E_UNSUPPORTED)
            fail("an invalid file", mote_status_name(status));
    }
}

/* ---- killed decoders ---- */

enum { KILLS = 200, THREADS = 4 };

typedef struct clients {
    fork_server *fs;
    media_request request;
    media_frames want;
    int answered, lost;
    bool wrong;
    bool stop;
    pthread_mutex_t lock;
} clients;

/* Each thread sends one more request after the last kill: on a slow machine all earlier ones may
 * have failed. */
static void *send_requests(void *with)
{
    clients *c = with;
    for (bool stop = false;;) {
        media_frames got;
        mote_error err = {0};
        const bool last = stop;
        const mote_status status = media_load(c->fs, &c->request, &got, &err);
        pthread_mutex_lock(&c->lock);
        c->answered += status == MOTE_OK;
        c->lost += status == MOTE_E_FORMAT;
        c->wrong |= status == MOTE_OK ? !same(&got, &c->want) : status != MOTE_E_FORMAT;
        stop = c->stop;
        pthread_mutex_unlock(&c->lock);
        media_frames_fini(&got);
        if (last)
            return NULL;
    }
}

/* A child of the process, from /proc; 0: none at this moment. */
static pid_t find_child(pid_t parent)
{
    char path[64], list[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    const size_t n = fread(list, 1, sizeof list - 1, f);
    fclose(f);
    list[n] = 0;
    return (pid_t)strtol(list, NULL, 10);
}

/* The child with this name in /proc: the fork server, not the spawner. 0: it has no name yet. */
static pid_t find_fork_server(void)
{
    char path[64], list[4096] = "", name[64] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
    FILE *f = fopen(path, "r");
    if (f != NULL && fgets(list, sizeof list, f) == NULL)
        list[0] = 0;
    if (f != NULL)
        fclose(f);
    char *at = list;
    for (long pid = strtol(at, &at, 10); pid > 0; pid = strtol(at, &at, 10)) {
        snprintf(path, sizeof path, "/proc/%ld/comm", pid);
        f = fopen(path, "r");
        const bool found = f != NULL && fgets(name, sizeof name, f) != NULL &&
                           strcmp(name, "mote-forkserver\n") == 0;
        if (f != NULL)
            fclose(f);
        if (found)
            return (pid_t)pid;
    }
    return 0;
}

/* A new fork server sets its name after the parent knows of it. */
static pid_t fork_server_pid(void)
{
    pid_t pid = find_fork_server();
    for (int i = 0; pid == 0 && i < 5000; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        pid = find_fork_server();
    }
    if (pid == 0)
        fail("the fork server", "is not running");
    return pid;
}

static void survives_kills(fork_server *fs)
{
    clients c = {.fs = fs, .request = {.file = read_file("big_2000x1500.jpg")}};
    mote_error err = {0};
    pthread_t threads[THREADS];
    int killed = 0;
    if (media_load_here(&c.request, &c.want, &err) != MOTE_OK)
        fail("the large image", err.text);
    pthread_mutex_init(&c.lock, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, send_requests, &c);
    const pid_t server_pid = fork_server_pid();
    while (killed < KILLS) {
        const pid_t child = find_child(server_pid);
        if (child > 0 && kill(child, SIGKILL) == 0)
            killed++;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    pthread_mutex_lock(&c.lock);
    c.stop = true;
    pthread_mutex_unlock(&c.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d killed: %d requests failed, %d succeeded\n", killed, c.lost, c.answered);
    if (c.wrong)
        fail("killed decoders", "a request got wrong pixels");
    if (c.lost == 0 || c.lost > killed || c.answered < THREADS)
        fail("killed decoders", "the number of failed requests is wrong");
    media_frames_fini(&c.want);
    mem_free((void *)c.request.file.p);
}

/* ---- the time limit of a decoder ---- */

typedef struct time_limit_case {
    fork_server *fs;
    str file;
    mote_error err; /* MOTE_E_FULL: the time limit was reported */
    atomic_bool done;
} time_limit_case;

static void *send_until_timeout(void *with)
{
    time_limit_case *a = with;
    mote_status status = MOTE_OK;
    while (status == MOTE_OK || status == MOTE_E_FORMAT) {
        media_frames frames;
        status = media_load(a->fs, &(media_request){.file = a->file}, &frames, &a->err);
        media_frames_fini(&frames);
    }
    a->done = true;
    return NULL;
}

/* Sends a signal of the time limits. Before the decoder has its handler, the signal kills it. The
 * image has 3 million pixels: 2.8 s; until they are known, 2.0 s for its bytes. */
static void reports_timeout(fork_server *fs, str file, int signal_number)
{
    time_limit_case a = {.fs = fs, .file = file};
    pthread_t thread;
    pthread_create(&thread, NULL, send_until_timeout, &a);
    const pid_t server_pid = fork_server_pid();
    while (!a.done) {
        const pid_t child = find_child(server_pid);
        if (child > 0)
            kill(child, signal_number);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    pthread_join(thread, NULL);
    if (a.err.status != MOTE_E_FULL || (strstr(a.err.text, "takes more than 2.") == NULL &&
                                        strstr(a.err.text, "takes more than 30 s") == NULL))
        fail("a decoder at its time limit", a.err.text);
}

/* ---- no decoder: MOTE_E_IO, not an error of the file ---- */

static void expect_io_error(fork_server *fs, str file, const char *when)
{
    for (int i = 0; i < 20; i++) {
        media_frames frames;
        mote_error err = {0};
        const mote_status status = media_load(fs, &(media_request){.file = file}, &frames, &err);
        if (status != MOTE_E_IO)
            fail(when, mote_status_name(status));
    }
}

/* RLIMIT_NPROC is 0. It does not apply to root, so the test switches to an unprivileged user. */
static void without_processes(str file)
{
    enum { UNPRIVILEGED = 65534 };
    const struct rlimit none = {0, 0};
    fork_server *fs;
    mote_error err = {0};
    if (getuid() == 0 && setuid(UNPRIVILEGED) != 0) {
        printf("cannot switch to an unprivileged user: skipped\n");
        return;
    }
    if (fork_server_start(&fs, &err) != MOTE_OK)
        fail("starting", err.text);
    if (prlimit(fork_server_pid(), RLIMIT_NPROC, &none, NULL) != 0)
        fail("RLIMIT_NPROC", "cannot be set");
    expect_io_error(fs, file, "a fork server that cannot fork");
    fork_server_stop(fs);
}

static void in_a_child(void (*test)(str), str file)
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        test(file);
        fflush(stdout);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0)
        fail("a test in a child", "see above");
}

/* ---- a killed fork server ---- */

static void kill_fork_server(void)
{
    siginfo_t info;
    const pid_t server_pid = fork_server_pid();
    kill(server_pid, SIGKILL);
    waitid(P_PID, (id_t)server_pid, &info, WEXITED | WNOWAIT);
}

/* A request that was sent to it fails, but not as an error of the file. */
static void loses_its_requests(fork_server *fs)
{
    int pair[2];
    uint64_t generation;
    char nothing;
    mote_error err = {0};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        fail("socketpair", "failed");
    kill(fork_server_pid(), SIGSTOP); /* so that it does not fork */
    if (fork_server_send(fs, pair[1], FORK_SERVER_BUILT_IN, &generation, &err) != MOTE_OK)
        fail("a stopped fork server", err.text);
    close(pair[1]);
    if (fork_server_was_lost(fs, generation))
        fail("a stopped fork server", "counts as lost");
    kill_fork_server();
    if (read(pair[0], &nothing, 1) != 0 || !fork_server_was_lost(fs, generation))
        fail("a killed fork server", "does not count as lost");
    equal_to_this_process(fs);
    if (!fork_server_was_lost(fs, generation))
        fail("a killed fork server", "is confused with the next one");
    close(pair[0]);
}

/* The next file restarts it, up to the limit. */
static void restarts(fork_server *fs, str file)
{
    fork_server_stats stats = {0};
    for (int i = 1; i <= FORK_SERVER_STARTS_PER_MINUTE; i++) {
        if (i == 1)
            loses_its_requests(fs);
        else
            kill_fork_server();
        equal_to_this_process(fs);
        fork_server_poll(fs, &stats);
        if (stats.lost != (uint64_t)i || stats.signal != SIGKILL)
            fail("a killed fork server", "is not counted");
    }
    kill_fork_server();
    expect_io_error(fs, file, "a fork server killed too often");
    fork_server_poll(fs, &stats);
    if (stats.lost != FORK_SERVER_STARTS_PER_MINUTE + 1)
        fail("a fork server killed too often", "is counted more than once");
}

int main(int argc, char **argv)
{
    fork_server_begin(argc, argv);
    fork_server *fs;
    mote_error err = {0};
    const str large = read_file("big_2000x1500.jpg");
    in_a_child(without_processes, large);
    if (fork_server_start(&fs, &err) != MOTE_OK)
        fail("starting", err.text);
    equal_to_this_process(fs);
    rejects(fs);
    survives_kills(fs);
    equal_to_this_process(fs);
    reports_timeout(fs, large, SIGXCPU);
    reports_timeout(fs, large, SIGPROF);
    restarts(fs, large);
    fork_server_stop(fs);
    mem_free((void *)large.p);
    return 0;
}
