/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker_test.c - decoding in another process: answers equal those of this one, strangers' faults
 * stay with their file, children that are killed harm nobody else, and who starts them is replaced.
 */
#define _GNU_SOURCE
#include "base/mem.h"
#include "media/worker.h"

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

static bool same(const media_seen *a, const media_seen *b)
{
    return a->n == b->n && a->width == b->width && a->height == b->height &&
           memcmp(a->rgb, b->rgb, (size_t)a->n * a->width * a->height * 3) == 0 &&
           memcmp(a->times, b->times, a->n * sizeof *a->times) == 0;
}

static const char *const names[] = {"gradient_300x200.png", "scene_320x240.jpg", "rgba_160x120.png",
                                    "exif6_300x200.jpg", "one_pixel.png"};
enum { N_NAMES = sizeof names / sizeof *names };

static void equal_to_this_process(media_nursery *nursery)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        mote_error err = {0};
        media_seen here, there;
        const media_ask ask = {.file = read_file(names[i])};
        if (media_see_here(&ask, &here, &err) != MOTE_OK)
            fail(names[i], err.text);
        if (media_see(nursery, &ask, &there, &err) != MOTE_OK)
            fail(names[i], err.text);
        if (!same(&here, &there))
            fail(names[i], "another process sees something else");
        media_seen_fini(&here);
        media_seen_fini(&there);
        mem_free((void *)ask.file.p);
    }
}

static void refuses(media_nursery *nursery)
{
    static const str wrong[] = {{"", 0}, {"GIF89a", 6}, {"\xff\xd8\xff\xe0 no", 8}, {"hello", 5}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        media_seen seen;
        mote_error err = {0};
        const mote_status status = media_see(nursery, &(media_ask){.file = wrong[i]}, &seen, &err);
        if (status != MOTE_E_FORMAT && status != MOTE_E_UNSUPPORTED)
            fail("a file that is none", mote_status_name(status));
    }
}

/* ---- children that are killed ---- */

enum { KILLS = 200, THREADS = 4 };

typedef struct crowd {
    media_nursery *nursery;
    media_ask ask;
    media_seen want;
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
        media_seen got;
        mote_error err = {0};
        const bool last = stop;
        const mote_status status = media_see(c->nursery, &c->ask, &got, &err);
        pthread_mutex_lock(&c->lock);
        c->answered += status == MOTE_OK;
        c->lost += status == MOTE_E_FORMAT;
        c->wrong |= status == MOTE_OK ? !same(&got, &c->want) : status != MOTE_E_FORMAT;
        stop = c->stop;
        pthread_mutex_unlock(&c->lock);
        media_seen_fini(&got);
        if (last)
            return NULL;
    }
}

/* A child of the nursery, found in /proc; 0: there is none at this moment. */
static pid_t find_child(pid_t nursery)
{
    char path[64], list[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)nursery, (int)nursery);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    const size_t n = fread(list, 1, sizeof list - 1, f);
    fclose(f);
    list[n] = 0;
    return (pid_t)strtol(list, NULL, 10);
}

static pid_t nursery_pid(void)
{
    return find_child(getpid());
}

static void survives_kills(media_nursery *nursery)
{
    crowd c = {.nursery = nursery, .ask = {.file = read_file("big_2000x1500.jpg")}};
    mote_error err = {0};
    pthread_t threads[THREADS];
    int killed = 0;
    if (media_see_here(&c.ask, &c.want, &err) != MOTE_OK)
        fail("the large picture", err.text);
    pthread_mutex_init(&c.lock, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, keep_asking, &c);
    const pid_t nurse = nursery_pid();
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
    media_seen_fini(&c.want);
    mem_free((void *)c.ask.file.p);
}

/* ---- a decoder whose time is up ---- */

typedef struct asking {
    media_nursery *nursery;
    str file;
    mote_error err; /* MOTE_E_FULL: it was told */
    atomic_bool over;
} asking;

static void *ask_until_late(void *with)
{
    asking *a = with;
    mote_status status = MOTE_OK;
    while (status == MOTE_OK || status == MOTE_E_FORMAT) {
        media_seen seen;
        status = media_see(a->nursery, &(media_ask){.file = a->file}, &seen, &a->err);
        media_seen_fini(&seen);
    }
    a->over = true;
    return NULL;
}

/* The signal that the kernel sends then; one that comes before the child is ready only ends it. */
static void says_when_late(media_nursery *nursery, str file)
{
    asking a = {.nursery = nursery, .file = file};
    pthread_t thread;
    pthread_create(&thread, NULL, ask_until_late, &a);
    const pid_t nurse = nursery_pid();
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

static void expect_none(media_nursery *nursery, str file, const char *when)
{
    for (int i = 0; i < 20; i++) {
        media_seen seen;
        mote_error err = {0};
        const mote_status status = media_see(nursery, &(media_ask){.file = file}, &seen, &err);
        if (status != MOTE_E_IO)
            fail(when, mote_status_name(status));
    }
}

/* Somebody who may not have one process more; root always may, so it becomes nobody. */
static void without_processes(str file)
{
    enum { NOBODY = 65534 };
    const struct rlimit none = {0, 0};
    media_nursery *nursery;
    mote_error err = {0};
    if (getuid() == 0 && setuid(NOBODY) != 0) {
        printf("nobody cannot be had here: not tried without processes\n");
        return;
    }
    if (media_nursery_start(&nursery, &err) != MOTE_OK)
        fail("starting", err.text);
    if (prlimit(nursery_pid(), RLIMIT_NPROC, &none, NULL) != 0)
        fail("a limit of processes", "cannot be set");
    expect_none(nursery, file, "a nursery that cannot fork");
    media_nursery_stop(nursery);
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

static void end_nursery(void)
{
    siginfo_t info;
    const pid_t nurse = nursery_pid();
    kill(nurse, SIGKILL);
    waitid(P_PID, (id_t)nurse, &info, WEXITED | WNOWAIT);
}

/* What was with it is lost, and that is not the file's fault. */
static void loses_what_it_had(media_nursery *nursery)
{
    int pair[2];
    uint64_t which;
    char nothing;
    mote_error err = {0};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        fail("a pair of sockets", "there is none");
    kill(nursery_pid(), SIGSTOP); /* so that it does not begin with it */
    if (nursery_send(nursery, pair[1], NURSERY_BUILT_IN, &which, &err) != MOTE_OK)
        fail("a nursery that sleeps", err.text);
    close(pair[1]);
    if (nursery_was_lost(nursery, which))
        fail("a nursery that sleeps", "counts as lost");
    end_nursery();
    if (read(pair[0], &nothing, 1) != 0 || !nursery_was_lost(nursery, which))
        fail("a nursery that was killed", "does not count as lost");
    equal_to_this_process(nursery);
    if (!nursery_was_lost(nursery, which))
        fail("a nursery that was killed", "is taken for the next one");
    close(pair[0]);
}

/* The next file starts another one, so often and not more. */
static void starts_again(media_nursery *nursery, str file)
{
    media_nursery_figures figures = {0};
    for (int i = 1; i <= NURSERY_STARTS_A_MINUTE; i++) {
        if (i == 1)
            loses_what_it_had(nursery);
        else
            end_nursery();
        equal_to_this_process(nursery);
        media_nursery_look(nursery, &figures);
        if (figures.lost != (uint64_t)i || figures.signal != SIGKILL)
            fail("a nursery that was killed", "is not counted");
    }
    end_nursery();
    expect_none(nursery, file, "a nursery that is killed all the time");
    media_nursery_look(nursery, &figures);
    if (figures.lost != NURSERY_STARTS_A_MINUTE + 1)
        fail("a nursery that is killed all the time", "is counted more than once");
}

int main(int argc, char **argv)
{
    media_nursery_begin(argc, argv);
    media_nursery *nursery;
    mote_error err = {0};
    const str large = read_file("big_2000x1500.jpg");
    in_a_child(without_processes, large);
    if (media_nursery_start(&nursery, &err) != MOTE_OK)
        fail("starting", err.text);
    equal_to_this_process(nursery);
    refuses(nursery);
    survives_kills(nursery);
    equal_to_this_process(nursery);
    says_when_late(nursery, large);
    starts_again(nursery, large);
    media_nursery_stop(nursery);
    mem_free((void *)large.p);
    return 0;
}
