/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_system_test.c - the functions of base/os that each system implements itself, and the
 * implementation of waits for systems that have no futex, which runs on every system.
 */
#define _GNU_SOURCE /* unshare */
#include "base/fd_pass.h"
#include "base/os.h"
#include "base/os_process.h"
#include "base/os_socket.h"
#include "base/os_wait_table.h"

#include <errno.h>
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
#include <sys/un.h>
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

/* ---- files ---- */

static void a_memory_file_is_opened_again(void **state)
{
    (void)state;
    char path[OS_MEMORY_PATH_BYTES], text[8] = "";
    const int fd = os_memory_file("mote-test", path);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_true(os_write_all(fd, "model", 5));
    os_map map;
    mote_error err;
    assert_int_equal(os_map_open(&map, path, &err), MOTE_OK);
    assert_int_equal(map.bytes, 5);
    memcpy(text, map.data, 5);
    assert_string_equal(text, "model");
    os_map_close(&map);
    close(fd);
}

static void a_descriptor_is_moved(void **state)
{
    (void)state;
    int ends[2];
    const int kept = open("/dev/null", O_RDONLY);
    assert_true(os_pipe(ends));
    const int from = ends[0];
    assert_true(os_move_descriptor(from, kept));
    assert_true(fcntl(from, F_GETFD) < 0);
    assert_true(fcntl(kept, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(ends[1], "x", 1), 1);
    char byte = 0;
    assert_int_equal(read(kept, &byte, 1), 1);
    assert_int_equal(byte, 'x');
    close(kept);
    close(ends[1]);
}

static void the_time_of_a_change_has_nanoseconds(void **state)
{
    (void)state;
    char name[] = "mote-time-XXXXXX";
    const int fd = mkstemp(name);
    const struct timespec times[2] = {{5, 6}, {1234567890, 123456789}};
    struct stat info;
    assert_true(fd >= 0 && futimens(fd, times) == 0 && fstat(fd, &info) == 0);
    assert_true(os_modified_ns(&info) == INT64_C(1234567890123456789));
    close(fd);
    unlink(name);
}

/* ---- sockets ---- */

static void assert_flags(int fd, bool waits)
{
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal((fcntl(fd, F_GETFL) & O_NONBLOCK) == 0, waits);
}

static void descriptors_close_on_exec(void **state)
{
    (void)state;
    int pair[2], ends[2];
    const int plain = os_socket(AF_INET, SOCK_STREAM, 0);
    assert_flags(plain, true);
    close(plain);
    assert_true(os_pipe(ends));
    assert_true(os_socket_pair(pair));
    for (int i = 0; i < 2; i++) {
        assert_flags(ends[i], true);
        assert_flags(pair[i], true);
        close(ends[i]);
    }
    close(pair[1]);
    assert_int_equal(send(pair[0], "x", 1, MSG_NOSIGNAL), -1); /* no SIGPIPE */
    assert_int_equal(errno, EPIPE);
    close(pair[0]);
}

static void a_connection_is_accepted(void **state)
{
    (void)state;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "mote-accept-%d", (int)getpid());
    const int listening = os_socket_nonblocking(AF_UNIX, SOCK_STREAM, 0);
    assert_flags(listening, false);
    assert_int_equal(bind(listening, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(os_accept(listening), -1);
    const int client = os_socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&at, sizeof at), 0);
    const int accepted = os_accept(listening);
    assert_flags(accepted, false);
    close(accepted);
    close(client);
    close(listening);
    unlink(at.sun_path);
}

static void a_passed_descriptor_closes_on_exec(void **state)
{
    (void)state;
    int pair[2];
    char byte = 0;
    assert_true(os_socket_pair(pair));
    assert_true(fd_send(pair[0], STDERR_FILENO, 'd'));
    const int fd = fd_receive(pair[1], &byte);
    assert_flags(fd, (fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK) == 0);
    assert_int_equal(byte, 'd');
    close(fd);
    close(pair[0]);
    assert_int_equal(fd_receive(pair[1], &byte), -1);
    close(pair[1]);
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
        cmocka_unit_test(a_memory_file_is_opened_again),
        cmocka_unit_test(a_descriptor_is_moved),
        cmocka_unit_test(the_time_of_a_change_has_nanoseconds),
        cmocka_unit_test(descriptors_close_on_exec),
        cmocka_unit_test(a_connection_is_accepted),
        cmocka_unit_test(a_passed_descriptor_closes_on_exec),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
