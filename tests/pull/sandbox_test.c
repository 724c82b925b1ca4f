/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_test.c - what mote-pull can do in its sandbox. A process of its own enters it: there is no
 * way back.
 */
#define _GNU_SOURCE
#include "pull/pull_int.h"

#include "base/landlock.h"
#include "base/sanitized.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* pull_main.c, which defines these, is not linked. */
volatile sig_atomic_t pull_signal;

mote_status pull_fail(pull *p, pull_code code, mote_error *err, const char *format, ...)
{
    p->code = code;
    return err_set(err, MOTE_E_IO, "%s", format);
}

mote_status pull_fail_errno(pull *p, mote_error *err, const char *what, const char *path)
{
    p->code = PULL_NOT_WRITABLE;
    return err_set(err, MOTE_E_IO, "cannot %s %s", what, path);
}

mote_status pull_check_signal(pull *p, mote_error *err)
{
    (void)p, (void)err;
    return MOTE_OK;
}

mote_status pull_sleep(pull *p, double seconds, mote_error *err)
{
    (void)p, (void)seconds, (void)err;
    return MOTE_OK;
}

static char home[64], cache[128], state_directory[128];

static const char *path_of(const char *format, const char *directory)
{
    static char path[512];
    snprintf(path, sizeof path, format, directory);
    return path;
}

static bool can_write(const char *path)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool can_read(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool can_socket(int family, int type)
{
    const int fd = socket(family, type, 0);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool can_pair(int type)
{
    int pair[2];
    if (socketpair(AF_UNIX, type, 0, pair) != 0)
        return false;
    close(pair[0]);
    close(pair[1]);
    return true;
}

/* In the sandbox. Returns the first expectation that is wrong, "" if all are right. */
static const char *attempts(bool landlock, bool dry_run)
{
    struct addrinfo *found = NULL;
    if (can_socket(AF_UNIX, SOCK_STREAM) || can_socket(AF_UNIX, SOCK_DGRAM))
        return "a UNIX socket is possible";
    if (can_socket(AF_PACKET, SOCK_DGRAM))
        return "a packet socket is possible";
    if (can_pair(SOCK_DGRAM) || can_pair(SOCK_SEQPACKET))
        return "a pair that can be connected to a daemon is possible";
    if (!can_pair(SOCK_STREAM | SOCK_CLOEXEC))
        return "libcurl cannot make a pair";
    if (!can_socket(AF_INET, SOCK_STREAM) || !can_socket(AF_INET, SOCK_DGRAM))
        return "no IPv4 socket";
    if (getaddrinfo("localhost", "443", NULL, &found) != 0)
        return "localhost has no address";
    freeaddrinfo(found);
    if (!can_read(path_of("%s/models--other--model/blobs/x", cache)))
        return "a blob of another repository cannot be read";
    if (!can_write(path_of("%s/verified", state_directory)))
        return "the record of hashes cannot be written";
    if (!landlock)
        return "";
    if (can_write(path_of("%s/models--other--model/blobs/x", cache)) ||
        can_write(path_of("%s/x", cache)) || unlink(path_of("%s/CACHEDIR.TAG", cache)) == 0)
        return "another repository can be written";
    if (can_read(path_of("%s/.cache/mote/history", home)) ||
        can_write(path_of("%s/.cache/mote/x", home)))
        return "the history of chats can be read, or files next to it written";
    if (can_write(path_of("%s/models--owner--name/x", cache)) == dry_run)
        return dry_run ? "a dry run can write" : "the repository cannot be written";
    if (!dry_run && (mkdir(path_of("%s/models--owner--name/d", cache), 0777) != 0 ||
                     !can_write(path_of("%s/models--owner--name/d/x", cache)) ||
                     !can_write(path_of("%s/.locks/models--owner--name/x", cache))))
        return "directories and locks of the repository cannot be written";
    return "";
}

static void make_file(const char *path)
{
    char part[512];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(part, 0700);
        *slash = '/';
    }
    assert_true(can_write(path));
}

static void check_sandbox(bool dry_run)
{
    static pull p;
    char command[256];
    int status;
    snprintf(home, sizeof home, "/tmp/mote-sandbox-XXXXXX");
    assert_non_null(mkdtemp(home));
    snprintf(cache, sizeof cache, "%s/hub", home);
    snprintf(state_directory, sizeof state_directory, "%s/.cache/mote/store", home);
    make_file(path_of("%s/models--other--model/blobs/x", cache));
    make_file(path_of("%s/CACHEDIR.TAG", cache));
    make_file(path_of("%s/.cache/mote/history", home));
    make_file(path_of("%s/verified", state_directory));
    p = (pull){.repo_fd = -1,
               .request = {.repo = "owner/name",
                           .revision = "main",
                           .cache = cache,
                           .state = state_directory,
                           .dry_run = dry_run}};
    const pid_t child = fork();
    if (child == 0) {
        if (!dry_run)
            cache_begin(&p);
        const char *missing = pull_sandbox_enter(&p);
        const char *wrong = attempts(strstr(missing, "no Landlock") == NULL, dry_run);
        if (*wrong != '\0')
            fprintf(stderr, "%s (%s)\n", wrong, missing);
        _exit(*wrong != '\0');
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    snprintf(command, sizeof command, "rm -rf %s", home);
    assert_int_equal(system(command), 0);
    assert_int_equal(status, 0);
}

static void pull_in_the_sandbox(void **state)
{
    (void)state;
    check_sandbox(false);
}

static void dry_run_in_the_sandbox(void **state)
{
    (void)state;
    check_sandbox(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pull_in_the_sandbox),
                                       cmocka_unit_test(dry_run_in_the_sandbox)};
#if defined(MOTE_SANITIZED) || !defined(MOTE_SECCOMP)
    return 77; /* no sandbox */
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
