/* SPDX-License-Identifier: Apache-2.0 */
/* os_macos.c - implements os.h, os_process.h and os_socket.h for macOS. Public calls only. */
#define __STDC_WANT_LIB_EXT1__ 1 /* memset_s */
#include "base/os.h"
#include "base/os_process.h"
#include "base/os_socket.h"
#include "base/os_wait_table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mach-o/dyld.h>
#include <mach/mach.h>
#include <malloc/malloc.h>
#include <pthread/qos.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/event.h>
#include <sys/random.h>
#include <sys/sysctl.h>
#include <time.h>
#include <unistd.h>

const char os_name[] = "macOS";

/* ---- threads ---- */

/* os_sync_wait_on_address is public, but newer than the systems that mote builds for. */
void os_wait(_Atomic uint32_t *word, uint32_t seen)
{
    wait_table_wait(word, seen);
}

void os_wake(_Atomic uint32_t *word, int n)
{
    (void)n;
    wait_table_wake(word);
}

void os_condition_init(pthread_cond_t *condition)
{
    pthread_cond_init(condition, NULL);
}

void os_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, double seconds)
{
    const struct timespec most = {0, (long)(seconds * 1e9)};
    pthread_cond_timedwait_relative_np(condition, mutex, &most);
}

void os_thread_nice(int nice)
{
    pthread_set_qos_class_self_np(nice > 0 ? QOS_CLASS_UTILITY : QOS_CLASS_DEFAULT, 0);
}

void os_thread_name(const char *name)
{
    pthread_setname_np(name);
}

/* ---- the program file ---- */

bool os_program_path(char *out, size_t room)
{
    char given[PATH_MAX], whole[PATH_MAX];
    uint32_t bytes = sizeof given;
    out[0] = '\0';
    if (_NSGetExecutablePath(given, &bytes) != 0 || realpath(given, whole) == NULL ||
        strlen(whole) >= room)
        return false;
    memcpy(out, whole, strlen(whole) + 1);
    return true;
}

bool os_program_again(char *out, size_t room)
{
    return os_program_path(out, room);
}

/* ---- processes ---- */

pid_t os_fork_for_parent(void)
{
    return fork();
}

/* Waits for the end of the parent. `with` is the number of the signal. */
static void *parent_watch(void *with)
{
    const int queue = kqueue();
    struct kevent wanted, got;
    EV_SET(&wanted, (uintptr_t)getppid(), EVFILT_PROC, EV_ADD, NOTE_EXIT, 0, NULL);
    if (queue < 0 || kevent(queue, &wanted, 1, &got, 1, NULL) != 1)
        return NULL;
    if ((got.flags & EV_ERROR) == 0 || got.data == ESRCH) /* ESRCH: it has ended already */
        kill(getpid(), (int)(intptr_t)with);
    return NULL;
}

void os_end_with_parent(int signal_number)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, parent_watch, (void *)(intptr_t)signal_number) == 0)
        pthread_detach(thread);
}

void os_close_from(int first)
{
    const int end = (int)sysconf(_SC_OPEN_MAX);
    for (int fd = first; fd < (end > 0 && end < 65536 ? end : 65536); fd++)
        close(fd);
}

bool os_has_seccomp(void)
{
    return false;
}

/* ---- random bytes ---- */

bool os_random(void *out, size_t bytes)
{
    enum { MOST = 256 }; /* of one call */
    unsigned char *to = out;
    while (bytes > 0) {
        const size_t n = bytes < MOST ? bytes : MOST;
        if (getentropy(to, n) != 0)
            return false;
        to += n;
        bytes -= n;
    }
    return true;
}

/* ---- files ---- */

/* fsync leaves the data in the cache of the disk. Some file systems have nothing else. */
bool os_sync(int fd)
{
    return fcntl(fd, F_FULLFSYNC) == 0 || fsync(fd) == 0;
}

int64_t os_modified_ns(const struct stat *info)
{
    return (int64_t)info->st_mtimespec.tv_sec * 1000000000 + info->st_mtimespec.tv_nsec;
}

bool os_move_descriptor(int fd, int to)
{
    const bool moved = dup2(fd, to) == to && fcntl(to, F_SETFD, FD_CLOEXEC) == 0;
    close(fd);
    return moved;
}

void os_will_read_all(int fd)
{
    fcntl(fd, F_RDAHEAD, 1);
}

void os_start_writing(int fd, uint64_t offset, uint64_t bytes)
{
    (void)fd, (void)offset, (void)bytes;
}

int os_open_uncached(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        fcntl(fd, F_NOCACHE, 1);
    return fd;
}

int os_memory_file(const char *name, char path[OS_MEMORY_PATH_BYTES])
{
    char directory[PATH_MAX], file[PATH_MAX + 64];
    const size_t n = confstr(_CS_DARWIN_USER_TEMP_DIR, directory, sizeof directory);
    path[0] = '\0';
    if (n == 0 || n > sizeof directory)
        snprintf(directory, sizeof directory, "/tmp/");
    snprintf(file, sizeof file, "%s%.32s-XXXXXX", directory, name);
    const int fd = mkstemp(file);
    if (fd < 0)
        return -1;
    unlink(file);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    snprintf(path, OS_MEMORY_PATH_BYTES, "/dev/fd/%d", fd);
    return fd;
}

/* ---- memory ---- */

void os_erase(void *secret, size_t bytes)
{
    memset_s(secret, bytes, 0, bytes);
}

void os_trim_heap(void)
{
    malloc_zone_pressure_relief(NULL, 0);
}

void os_prefer_huge_pages(void *block, size_t bytes)
{
    (void)block;
    (void)bytes;
}

void os_keep_small_pages(void *block, size_t bytes)
{
    (void)block, (void)bytes;
}

/* macOS has no such call; the kernel drops clean pages when it needs memory. */
void os_drop_cached(int fd, uint64_t offset, uint64_t bytes)
{
    (void)fd, (void)offset, (void)bytes;
}

static uint64_t memory_installed(void)
{
    uint64_t bytes = 0;
    size_t n = sizeof bytes;
    return sysctlbyname("hw.memsize", &bytes, &n, NULL, 0) == 0 ? bytes : 0;
}

/* Inactive pages are written or dropped when memory is needed, like the page cache of Linux. */
uint64_t os_memory_available(void)
{
    vm_statistics64_data_t pages;
    mach_msg_type_number_t n = HOST_VM_INFO64_COUNT;
    const mach_port_t host = mach_host_self();
    const bool known =
        host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&pages, &n) == KERN_SUCCESS;
    mach_port_deallocate(mach_task_self(), host);
    const long page = sysconf(_SC_PAGESIZE);
    if (!known || page <= 0)
        return memory_installed();
    return ((uint64_t)pages.free_count + pages.inactive_count + pages.purgeable_count) *
           (uint64_t)page;
}

/* ---- sockets ---- */

/* Kernels without MSG_NOSIGNAL have an option of the socket instead. */
static void socket_prepare(int fd, bool waits)
{
    const int on = 1;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!waits)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
}

int os_socket(int domain, int type, int protocol)
{
    const int fd = socket(domain, type, protocol);
    if (fd >= 0)
        socket_prepare(fd, true);
    return fd;
}

int os_socket_nonblocking(int domain, int type, int protocol)
{
    const int fd = socket(domain, type, protocol);
    if (fd >= 0)
        socket_prepare(fd, false);
    return fd;
}

bool os_socket_pair(int pair[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        return false;
    socket_prepare(pair[0], true);
    socket_prepare(pair[1], true);
    return true;
}

int os_accept(int listening)
{
    const int fd = accept(listening, NULL, NULL);
    if (fd >= 0)
        socket_prepare(fd, false);
    return fd;
}

ssize_t os_receive_message(int socket, struct msghdr *message)
{
    const ssize_t n = recvmsg(socket, message, 0);
    for (struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(message) : NULL; c != NULL;
         c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t bytes = c->cmsg_len - CMSG_LEN(0);
        for (size_t at = 0; at + sizeof(int) <= bytes; at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
            fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
    return n;
}

bool os_pipe(int ends[2])
{
    if (pipe(ends) != 0)
        return false;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}
