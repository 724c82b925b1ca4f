/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_sandbox_linux.c - implements server_sandbox.h.
 *
 * A system call outside the list fails with EPERM. The process is not killed: a library may probe a
 * call and use another one, and a denied call must not end the streams of all clients. clone is
 * allowed for threads only. Sanitizers make other system calls and read /proc, so builds with them
 * have no sandbox.
 */
#define _GNU_SOURCE
#include "server/core/server_sandbox.h"

#include "base/landlock.h"
#include "base/sanitized.h"
#include "base/seccomp_list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#if defined(MOTE_SECCOMP) && !defined(MOTE_SANITIZED)
#define FILTERS 1
#endif

static void sandbox_add_reason(server_sandbox *s, const char *text, const char *why)
{
    const size_t n = strlen(s->reason);
    snprintf(s->reason + n, sizeof s->reason - n, "%s%s%s", n > 0 ? "; " : "", text, why);
}

/* ---- Landlock ---- */

/* Allows the directory of a file. */
static void landlock_allow_around(int ruleset, const char *path, uint64_t rights)
{
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", path);
    char *slash = strrchr(directory, '/');
    if (slash == NULL)
        snprintf(directory, sizeof directory, ".");
    else
        slash[slash == directory ? 1 : 0] = '\0';
    landlock_allow(ruleset, directory, rights);
}

/* Allows to read around a file, and around its target if it is a symbolic link. */
static void landlock_allow_file(int ruleset, const char *path)
{
    char target[PATH_MAX];
    if (strncmp(path, "/dev/", 5) != 0) /* /dev/stdin: its target is enough */
        landlock_allow_around(ruleset, path, LANDLOCK_READ);
    if (realpath(path, target) != NULL)
        landlock_allow_around(ruleset, target, LANDLOCK_READ);
}

void server_sandbox_limit_files(server_sandbox *s, const server_sandbox_files *files)
{
    /* A model that is reloaded reads the number of CPUs and their quota. */
    static const char *const system[] = {"/sys/devices/system/cpu", "/sys/fs/cgroup"};
#if defined(MOTE_SANITIZED)
    (void)files;
    sandbox_add_reason(s, "no Landlock: not in this build", "");
    return;
#endif
    const int version = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? landlock_version() : 0;
    const int ruleset = version > 0 ? landlock_open(landlock_rights(version)) : -1;
    if (ruleset < 0) {
        sandbox_add_reason(s, "no Landlock: ", strerror(errno));
        return;
    }
    for (size_t i = 0; i < sizeof system / sizeof *system; i++)
        landlock_allow(ruleset, system[i], LANDLOCK_READ);
    for (size_t i = 0; i < files->n_read; i++)
        landlock_allow_file(ruleset, files->read[i]);
    for (size_t i = 0; i < files->n_directories; i++)
        landlock_allow(ruleset, files->directories[i], LANDLOCK_READ);
    for (size_t i = 0; i < files->n_removed; i++)
        landlock_allow_around(ruleset, files->removed[i], LANDLOCK_REMOVE_FILE);
    const uint64_t own = (LANDLOCK_READ | LANDLOCK_WRITE_OWN) & landlock_rights(version);
    if (files->written != NULL)
        landlock_allow(ruleset, files->written, own);
    if (files->cached != NULL)
        landlock_allow(ruleset, files->cached, own);
    if (landlock_restrict(ruleset))
        s->landlock = version;
    else
        sandbox_add_reason(s, "no Landlock: ", strerror(errno));
}

/* ---- system calls ---- */

#if defined(FILTERS)

static const char *const plain_calls[] = {
    /* memory; mmap and mprotect are below */
    "brk", "madvise", "mremap", "munmap",
    /* threads; clone is below */
    "exit", "exit_group", "futex", "getcpu", "getpid", "gettid", "rseq", "sched_getaffinity",
    "sched_setaffinity", "sched_yield", "set_robust_list", "set_tid_address", "tgkill",
    /* signals */
    "restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
    /* time */
    "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep",
    /* descriptors; open is below */
    "close", "dup3", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_wait", "eventfd2", "fcntl",
    "fstat", "lseek", "lstat", "newfstatat", "pipe2", "poll", "ppoll", "pread64", "read", "readv",
    "stat", "statx", "write", "writev",
    /* directories of installed models */
    "access", "faccessat", "faccessat2", "getcwd", "getdents64", "readlink", "readlinkat",
    /* sockets: no socket of a network, no bind, no connect */
    "accept", "accept4", "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmsg",
    "sendmsg", "sendto", "setsockopt", "shutdown", "socketpair",
    /* the decoder processes, and the files of UNIX sockets at the end */
    "unlink", "unlinkat", "wait4", "waitid",
    /* others */
    "getegid", "geteuid", "getgid", "getrandom", "getrlimit", "getrusage", "getuid", "sysinfo",
    "uname"};

/* With directories that are written to: Landlock says which. "open" and "openat" replace rows of
 * limited_calls. */
static const char *const write_calls[] = {"fchmod",    "fdatasync", "flock",     "fsync",
                                          "ftruncate", "open",      "openat",    "pwrite64",
                                          "rename",    "renameat",  "renameat2", "sync_file_range"};

/* The rows of open and openat are the last ones. */
enum { OPEN_ROWS = 2 };
static const seccomp_limited limited_calls[] = {
    {"clone", 0, CLONE_THREAD, CLONE_THREAD}, /* threads, no processes */
    {"ioctl", 1, UINT32_MAX, FIONBIO},
    {"ioctl", 1, UINT32_MAX, FIOCLEX},
    {"ioctl", 1, UINT32_MAX, TIOCGWINSZ},
    {"mmap", 2, PROT_EXEC, 0},
    {"mprotect", 2, PROT_EXEC, 0},
    {"prctl", 0, UINT32_MAX, PR_SET_NAME},
    {"prlimit64", 2, UINT64_MAX, 0},    /* reads a limit */
    {"socket", 0, UINT32_MAX, AF_UNIX}, /* messages to systemd */
    {"open", 1, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, 0},
    {"openat", 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, 0},
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

void server_sandbox_limit_calls(server_sandbox *s, bool writes)
{
    const char *plain[COUNT(plain_calls) + COUNT(write_calls)];
    memcpy(plain, plain_calls, sizeof plain_calls);
    memcpy(plain + COUNT(plain_calls), write_calls, sizeof write_calls);
    const seccomp_list list = {plain, COUNT(plain_calls) + (writes ? COUNT(write_calls) : 0),
                               limited_calls, COUNT(limited_calls) - (writes ? OPEN_ROWS : 0),
                               .all_threads = true};
    s->seccomp = seccomp_list_enter(&list);
    if (!s->seccomp)
        sandbox_add_reason(s, "no seccomp: the kernel does not allow it", "");
}

bool server_sandbox_has_filter(void)
{
    return true;
}
#else
bool server_sandbox_has_filter(void)
{
    return false;
}

void server_sandbox_limit_calls(server_sandbox *s, bool writes)
{
    (void)writes;
    sandbox_add_reason(s, "no seccomp: not in this build", "");
}
#endif

const char *server_sandbox_name(const server_sandbox *s)
{
    return s->seccomp && s->landlock > 0 ? "on" : s->seccomp || s->landlock > 0 ? "partial" : "off";
}
