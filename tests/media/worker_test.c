/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_test.c - decoding in another process: answers equal those of this one, strangers' faults
 * stay with their file, children that are killed harm nobody else, and who starts them is replaced.
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
        const media_request ask = {.file = read_file(names[i])};
        if (media_load_here(&ask, &here, &err) != MOTE_OK)
            fail(names[i], err.text);
        if (media_load(fs, &ask, &there, &err) != MOTE_OK)
            fail(names[i], err.text);
        if (!same(&here, &there))
            fail(names[i], "another process sees something else");
        media_frames_fini(&here);
        media_frames_fini(&there);
        mem_free((void *)ask.file.p);
    }
}

static void refuses(fork_server *fs)
{
    static const str wrong[] = {{"", 0}, {"GIF89a", 6}, {"\xff\xd8\xff\xe0 no", 8}, {"hello", 5}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        media_frames seen;
        mote_error err = {0};
        const mote_status status = media_load(fs, &(media_request){.file = wrong[i]}, &seen, &err);
        if (status != MOTE_E_FORMAT && status != MOTE_E_UNSUPPORTED)
            fail("a file that is none", mote_status_name(status));
    }
}

/* ---- children that are killed ---- */

enum { KILLS = 200, THREADS = 4 };

typedef struct crowd {
    fork_server *fs;
    media_request ask;
    media_frames want;
    int answered, lost;
    bool wrong;
    bool stop;
    pthread_mutex_t lock;
} crowd;

/* Each asks once more when nobody kills any longer: a slow machine may have answered none before.
 */
static void *keep_asking(void *with)
{
    crowd *c = with;
    for (bool stop = false;;) {
        media_frames got;
        mote_error err = {0};
        const bool last = stop;
        const mote_status status = media_load(c->fs, &c->ask, &got, &err);
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

/* A child of the nursery, found in /proc; 0: there is none at this moment. */
static pid_t find_child(pid_t fs)
{
    char path[64], list[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)fs, (int)fs);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    const size_t n = fread(list, 1, sizeof list - 1, f);
    fclose(f);
    list[n] = 0;
    return (pid_t)strtol(list, NULL, 10);
}

static pid_t fork_server_pid(void)
{
    return find_child(getpid());
}

static void survives_kills(fork_server *fs)
{
    crowd c = {.fs = fs, .ask = {.file = read_file("big_2000x1500.jpg")}};
    mote_error err = {0};
    pthread_t threads[THREADS];
    int killed = 0;
    if (media_load_here(&c.ask, &c.want, &err) != MOTE_OK)
        fail("the large picture", err.text);
    pthread_mutex_init(&c.lock, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, keep_asking, &c);
    const pid_t nurse = fork_server_pid();
    while (killed < KILLS) {
        const pid_t child = find_child(nurse);
        if (child > 0 && kill(child, SIGKILL) == 0)
            killed++;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    pthread_mutex_lock(&c.lock);
    c.stop = true;
    pthread_mutex_unlock(&c.lock);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%d killed: %d requests lost, %d answered\n", killed, c.lost, c.answered);
    if (c.wrong)
        fail("killed children", "somebody got a wrong answer");
    if (c.lost == 0 || c.lost > killed || c.answered < THREADS)
        fail("killed children", "not exactly their own requests were lost");
    media_frames_fini(&c.want);
    mem_free((void *)c.ask.file.p);
}

/* ---- a decoder whose time is up ---- */

typedef struct asking {
    fork_server *fs;
    str file;
    mote_error err; /* MOTE_E_FULL: it was told */
    atomic_bool over;
} asking;

static void *ask_until_late(void *with)
{
    asking *a = with;
    mote_status status = MOTE_OK;
    while (status == MOTE_OK || status == MOTE_E_FORMAT) {
        media_frames seen;
        status = media_load(a->fs, &(media_request){.file = a->file}, &seen, &a->err);
        media_frames_fini(&seen);
    }
    a->over = true;
    return NULL;
}

/* The signal that the kernel sends then; one that comes before the child is ready only ends it. */
static void says_when_late(fork_server *fs, str file)
{
    asking a = {.fs = fs, .file = file};
    pthread_t thread;
    pthread_create(&thread, NULL, ask_until_late, &a);
    const pid_t nurse = fork_server_pid();
    while (!a.over) {
        const pid_t child = find_child(nurse);
        if (child > 0)
            kill(child, SIGXCPU);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    pthread_join(thread, NULL);
    if (a.err.status != MOTE_E_FULL || strstr(a.err.text, "more than 30 s") == NULL)
        fail("a decoder whose time is up", a.err.text);
}

/* ---- no decoder at all: nobody's file is wrong ---- */

static void expect_none(fork_server *fs, str file, const char *when)
{
    for (int i = 0; i < 20; i++) {
        media_frames seen;
        mote_error err = {0};
        const mote_status status = media_load(fs, &(media_request){.file = file}, &seen, &err);
        if (status != MOTE_E_IO)
            fail(when, mote_status_name(status));
    }
}

/* Somebody who may not have one process more; root always may, so it becomes nobody. */
static void without_processes(str file)
{
    enum { NOBODY = 65534 };
    const struct rlimit none = {0, 0};
    fork_server *fs;
    mote_error err = {0};
    if (getuid() == 0 && setuid(NOBODY) != 0) {
        printf("nobody cannot be had here: not tried without processes\n");
        return;
    }
    if (fork_server_start(&fs, &err) != MOTE_OK)
        fail("starting", err.text);
    if (prlimit(fork_server_pid(), RLIMIT_NPROC, &none, NULL) != 0)
        fail("a limit of processes", "cannot be set");
    expect_none(fs, file, "a nursery that cannot fork");
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

/* ---- a nursery that is ended ---- */

static void end_fork_server(void)
{
    siginfo_t info;
    const pid_t nurse = fork_server_pid();
    kill(nurse, SIGKILL);
    waitid(P_PID, (id_t)nurse, &info, WEXITED | WNOWAIT);
}

/* What was with it is lost, and that is not the file's fault. */
static void loses_what_it_had(fork_server *fs)
{
    int pair[2];
    uint64_t which;
    char nothing;
    mote_error err = {0};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        fail("a pair of sockets", "there is none");
    kill(fork_server_pid(), SIGSTOP); /* so that it does not begin with it */
    if (fork_server_send(fs, pair[1], FORK_SERVER_BUILT_IN, &which, &err) != MOTE_OK)
        fail("a nursery that sleeps", err.text);
    close(pair[1]);
    if (fork_server_was_lost(fs, which))
        fail("a nursery that sleeps", "counts as lost");
    end_fork_server();
    if (read(pair[0], &nothing, 1) != 0 || !fork_server_was_lost(fs, which))
        fail("a nursery that was killed", "does not count as lost");
    equal_to_this_process(fs);
    if (!fork_server_was_lost(fs, which))
        fail("a nursery that was killed", "is taken for the next one");
    close(pair[0]);
}

/* The next file starts another one, so often and not more. */
static void starts_again(fork_server *fs, str file)
{
    fork_server_stats stats = {0};
    for (int i = 1; i <= FORK_SERVER_STARTS_PER_MINUTE; i++) {
        if (i == 1)
            loses_what_it_had(fs);
        else
            end_fork_server();
        equal_to_this_process(fs);
        fork_server_poll(fs, &stats);
        if (stats.lost != (uint64_t)i || stats.signal != SIGKILL)
            fail("a nursery that was killed", "is not counted");
    }
    end_fork_server();
    expect_none(fs, file, "a nursery that is killed all the time");
    fork_server_poll(fs, &stats);
    if (stats.lost != FORK_SERVER_STARTS_PER_MINUTE + 1)
        fail("a nursery that is killed all the time", "is counted more than once");
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
    refuses(fs);
    survives_kills(fs);
    equal_to_this_process(fs);
    says_when_late(fs, large);
    starts_again(fs, large);
    fork_server_stop(fs);
    mem_free((void *)large.p);
    return 0;
}
