/* SPDX-License-Identifier: Apache-2.0 */
/* os_linux.c - implements os.h and os_process.h for Linux, with glibc or musl. */
#define _GNU_SOURCE
#include "base/os.h"
#include "base/os_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- threads ---- */

void os_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void os_wake(_Atomic uint32_t *word, int n)
{
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

void os_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void os_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double seconds)
{
    enum { SECOND_NS = 1000000000 };
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(seconds * SECOND_NS);
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_cond_timedwait(condition, mutex, &until);
}

void os_thread_nice(int nice)
{
    setpriority(PRIO_PROCESS, 0, nice); /* of the thread; POSIX says of the process */
}

void os_thread_name(const char *name)
{
    prctl(PR_SET_NAME, name);
}

/* ---- the program file ---- */

static const char own_program[] = "/proc/self/exe";

/* The path that execve was called with: it may be relative and a symbolic link. */
static bool program_path_of_start(char *out, size_t room)
{
    const char *given = (const char *)(uintptr_t)getauxval(AT_EXECFN);
    char whole[PATH_MAX];
    if (given == NULL || realpath(given, whole) == NULL || strlen(whole) >= room)
        return false;
    memcpy(out, whole, strlen(whole) + 1);
    return true;
}

bool os_program_path(char *out, size_t room)
{
    out[0] = '\0';
    const ssize_t n = readlink(own_program, out, room);
    if (n < 0)
        return program_path_of_start(out, room);
    out[(size_t)n < room ? n : 0] = '\0';
    return (size_t)n < room;
}

bool os_program_again(char *out, size_t room)
{
    if (access(own_program, X_OK) != 0)
        return os_program_path(out, room);
    return (size_t)snprintf(out, room, "%s", own_program) < room;
}

/* ---- processes ---- */

pid_t os_fork_for_parent(void)
{
    return (pid_t)syscall(SYS_clone, (unsigned long)(CLONE_PARENT | SIGCHLD), 0UL, 0UL, 0UL, 0UL);
}

void os_end_with_parent(int signal_number)
{
    prctl(PR_SET_PDEATHSIG, signal_number);
}

void os_close_from(int first)
{
#if defined(SYS_close_range)
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0) == 0)
        return;
#endif
    const int end = (int)sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < (end > 0 && end < 65536 ? end : 65536); fd++)
        close(fd);
}

bool os_has_seccomp(void)
{
    enum { ACTION_AVAILABLE = 2 };      /* older headers lack it */
    const uint32_t action = 0x00050000; /* SECCOMP_RET_ERRNO */
    return syscall(SYS_seccomp, ACTION_AVAILABLE, 0, &action) == 0;
}

/* ---- random bytes ---- */

bool os_random(void *out, size_t bytes)
{
    unsigned char *to = out;
    while (bytes > 0) {
        const ssize_t got = getrandom(to, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        bytes -= (size_t)got;
    }
    return true;
}
