/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_system_test.c - the functions of base/os that each system implements itself, and the
 * implementation of waits for systems that have no futex, which runs on every system.
 */
#define _GNU_SOURCE /* unshare */
#include "base/os.h"
#include "base/os_process.h"
#include "base/os_wait_table.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *started_as; /* argv[0] */

/* ---- waits ---- */

enum { TURNS = 20000 };

/* Two threads take turns: the word is the number of turns. A lost wake-up stops both for good. */
typedef struct turns {
    _Alignas(64) _Atomic uint32_t word;
    bool table; /* with wait_table_, else os_wait */
} turns;

static void turns_take(turns *t, uint32_t mine)
{
    for (uint32_t i = mine; i < TURNS; i += 2) {
        for (uint32_t seen; (seen = atomic_load(&t->word)) != i;)
            if (t->table)
                wait_table_wait(&t->word, seen);
            else
                os_wait(&t->word, seen);
        atomic_store(&t->word, i + 1);
        if (t->table)
            wait_table_wake(&t->word);
        else
            os_wake(&t->word, 1);
    }
}

static void *turns_odd(void *with)
{
    turns_take(with, 1);
    return NULL;
}

static void turns_run(bool table)
{
    turns t = {.table = table};
    pthread_t other;
    alarm(120);
    assert_int_equal(pthread_create(&other, NULL, turns_odd, &t), 0);
    turns_take(&t, 0);
    pthread_join(other, NULL);
    alarm(0);
    assert_int_equal(atomic_load(&t.word), TURNS);
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    turns_run(false);
    turns_run(true);
}

static void a_changed_word_is_not_waited_for(void **state)
{
    (void)state;
    _Atomic uint32_t word = 2;
    alarm(20);
    os_wait(&word, 1);
    wait_table_wait(&word, 1);
    alarm(0);
}

static void a_condition_waits_for_seconds(void **state)
{
    (void)state;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t condition;
    os_condition_init(&condition);
    pthread_mutex_lock(&mutex);
    const double start = os_now();
    while (os_now() - start < 0.05) /* it may return earlier */
        os_condition_wait(&condition, &mutex, 0.05);
    assert_true(os_now() - start < 10);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&condition);
}

/* ---- the program file ---- */

static void assert_same_file(const char *path)
{
    struct stat one, other;
    assert_int_equal(stat(path, &one), 0);
    assert_int_equal(stat(started_as, &other), 0);
    assert_true(one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

static void the_program_finds_itself(void **state)
{
    (void)state;
    char path[PATH_MAX], small[4] = "x";
    assert_true(os_program_path(path, sizeof path));
    assert_int_equal(path[0], '/');
    assert_same_file(path);
    assert_false(os_program_path(small, sizeof small));
    assert_string_equal(small, "");
    assert_true(os_program_again(path, sizeof path));
    assert_same_file(path);
}

/* In a chroot there may be no /proc. Exit code: 0, 1 a wrong path, 77 not allowed to hide /proc. */
static int find_itself_without_proc(void)
{
    char path[PATH_MAX], expected[PATH_MAX];
    if (realpath(started_as, expected) == NULL)
        return 1;
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/proc", "tmpfs", 0, NULL) != 0)
        return 77;
    if (!os_program_path(path, sizeof path) || strcmp(path, expected) != 0)
        return 1;
    return os_program_again(path, sizeof path) && strcmp(path, expected) == 0 ? 0 : 1;
}

static void the_program_finds_itself_without_proc(void **state)
{
    (void)state;
    int status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(find_itself_without_proc());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- processes ---- */

static void descriptors_are_closed(void **state)
{
    (void)state;
    int status;
    const int fd = open("/dev/null", O_RDONLY), high = fcntl(fd, F_DUPFD, 200);
    assert_true(fd > STDERR_FILENO && high >= 200);
    const pid_t child = fork();
    if (child == 0) {
        os_close_from(fd);
        _exit(fcntl(STDERR_FILENO, F_GETFD) >= 0 && fcntl(fd, F_GETFD) < 0 &&
                      fcntl(high, F_GETFD) < 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(fd);
    close(high);
}

/* The middle process ends. The last one, which waits for a signal, must end too: then no
 * process has the pipe open for writing. */
static void a_process_ends_with_its_parent(void **state)
{
    (void)state;
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    const pid_t middle = fork();
    if (middle == 0) {
        if (fork() == 0) {
            alarm(60); /* if it does not end */
            os_end_with_parent(SIGKILL);
            (void)!write(ends[1], "r", 1);
            for (;;)
                pause();
        }
        if (read(ends[0], &byte, 1) != 1) /* the last process is ready */
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    assert_int_equal(waitpid(middle, NULL, 0), middle);
    alarm(20);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    alarm(0);
    close(ends[0]);
}

static void random_bytes_differ(void **state)
{
    (void)state;
    unsigned char a[300] = {0}, b[300] = {0}, zeros[50] = {0};
    assert_true(os_random(a, sizeof a));
    assert_true(os_random(b, sizeof b));
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a + sizeof a - sizeof zeros, zeros, sizeof zeros);
}

int main(int argc, char **argv)
{
    (void)argc;
    started_as = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(a_changed_word_is_not_waited_for),
        cmocka_unit_test(a_condition_waits_for_seconds),
        cmocka_unit_test(the_program_finds_itself),
        cmocka_unit_test(the_program_finds_itself_without_proc),
        cmocka_unit_test(descriptors_are_closed),
        cmocka_unit_test(a_process_ends_with_its_parent),
        cmocka_unit_test(random_bytes_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
