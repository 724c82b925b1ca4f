/* SPDX-License-Identifier: Apache-2.0 */
/* os_linux.c - implements os.h, os_process.h and os_socket.h for Linux, with glibc or musl. */
#define _GNU_SOURCE
#include "base/os.h"
#include "base/os_process.h"
#include "base/os_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/memfd.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

const char os_name[] = "Linux";

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
    const long child =
        syscall(SYS_clone, (unsigned long)(CLONE_PARENT | SIGCHLD), 0UL, 0UL, 0UL, 0UL);
    return child < 0 && errno == EINVAL ? fork() : (pid_t)child; /* qemu-user refuses the flag */
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
        const long got = syscall(SYS_getrandom, to, bytes, 0); /* glibc has it since 2.25 */
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        bytes -= (size_t)got;
    }
    return true;
}

/* ---- files ---- */

bool os_sync(int fd)
{
    return fsync(fd) == 0;
}

int64_t os_modified_ns(const struct stat *info)
{
    return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

bool os_move_descriptor(int fd, int to)
{
    const bool moved = dup3(fd, to, O_CLOEXEC) == to;
    close(fd);
    return moved;
}

void os_will_read_all(int fd)
{
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

void os_start_writing(int fd, uint64_t offset, uint64_t bytes)
{
    sync_file_range(fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}

int os_open_uncached(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
}

int os_memory_file(const char *name, char path[OS_MEMORY_PATH_BYTES])
{
    const int fd = (int)syscall(SYS_memfd_create, name, MFD_CLOEXEC); /* glibc: since 2.27 */
    snprintf(path, OS_MEMORY_PATH_BYTES, "/proc/self/fd/%d", fd);
    return fd;
}

/* ---- memory ---- */

void os_erase(void *secret, size_t bytes)
{
    memset(secret, 0, bytes);
    __asm__ volatile("" : : "r"(secret) : "memory"); /* explicit_bzero: glibc since 2.25 */
}

void os_trim_heap(void)
{
#if defined(__GLIBC__) /* musl gives memory back by itself */
    malloc_trim(0);
#endif
}

void os_prefer_huge_pages(void *block, size_t bytes)
{
    madvise(block, bytes, MADV_HUGEPAGE);
}

void os_keep_small_pages(void *block, size_t bytes)
{
    madvise(block, bytes, MADV_NOHUGEPAGE);
}

void os_drop_cached(int fd, uint64_t offset, uint64_t bytes)
{
    posix_fadvise(fd, (off_t)offset, (off_t)bytes, POSIX_FADV_DONTNEED);
}

uint64_t os_memory_available(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

/* ---- sockets ---- */

int os_socket(int domain, int type, int protocol)
{
    return socket(domain, type | SOCK_CLOEXEC, protocol);
}

int os_socket_nonblocking(int domain, int type, int protocol)
{
    return socket(domain, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
}

bool os_socket_pair(int pair[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0;
}

int os_accept(int listening)
{
    return accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

ssize_t os_receive_message(int socket, struct msghdr *message)
{
    return recvmsg(socket, message, MSG_CMSG_CLOEXEC);
}

bool os_pipe(int ends[2])
{
    return pipe2(ends, O_CLOEXEC) == 0;
}
