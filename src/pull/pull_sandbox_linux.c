/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull_sandbox_linux.c - what mote-pull may do: the network, the cache, certificates. Nothing else.
 *
 * Landlock allows to write below the directory of the repository, its locks and the record of
 * hashes, and to read the cache, /etc, certificates and what the resolver needs. /etc as a whole:
 * its resolv.conf is replaced when the network changes, and Landlock knows files, not names.
 *
 * seccomp forbids programs, other processes, servers and the daemons of this machine; a forbidden
 * call fails with EPERM. Without UNIX sockets libc asks neither nscd nor systemd-resolved but
 * /etc/hosts and DNS. Sanitizers make other system calls, so builds with them have no sandbox.
 */
#define _GNU_SOURCE
#include "pull/pull_int.h"

#include "base/landlock.h"
#include "base/sanitized.h"
#include "base/seccomp_list.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(MOTE_SECCOMP) && !defined(MOTE_SANITIZED)
#define FILTERS 1
#endif

/* ---- Landlock ---- */

enum {
    NEVER = LANDLOCK_EXECUTE | LANDLOCK_MAKE_CHAR | LANDLOCK_MAKE_SOCK | LANDLOCK_MAKE_FIFO |
            LANDLOCK_MAKE_BLOCK | LANDLOCK_IOCTL_DEV
};

/* Paths of the request may be missing. */
static void allow_given(int ruleset, const char *path, uint64_t rights)
{
    if (path != NULL && path[0] == '/')
        landlock_allow(ruleset, path, rights);
}

static bool landlock_enter(const pull *p)
{
    static const char *const system[] = {
        "/etc", /* certificates, resolv.conf, hosts, nsswitch.conf, openssl.cnf */
        "/usr/share/ca-certificates",
        "/usr/local/share/ca-certificates",
        "/usr/lib/ssl",
        "/usr/share/pki",
        "/var/lib/ca-certificates",
        "/run/systemd/resolve", /* the target of /etc/resolv.conf */
        "/run/resolvconf",
        "/dev/urandom",
        "/dev/null",
    };
    const int version = landlock_version();
    const uint64_t handled = landlock_rights(version);
    const int ruleset = version > 0 ? landlock_open(handled) : -1;
    if (ruleset < 0)
        return false;
    for (size_t i = 0; i < sizeof system / sizeof *system; i++)
        landlock_allow(ruleset, system[i], LANDLOCK_READ);
    allow_given(ruleset, p->request.ca_file, LANDLOCK_READ);
    allow_given(ruleset, p->request.ca_dir, LANDLOCK_READ);
    allow_given(ruleset, p->request.from, LANDLOCK_READ);
    allow_given(ruleset, p->request.cache, LANDLOCK_READ);
    if (!p->request.dry_run)
        cache_allow(p, ruleset, handled & ~(uint64_t)NEVER);
    allow_given(ruleset, p->request.state, handled & ~(uint64_t)NEVER);
    return landlock_restrict(ruleset);
}

/* ---- system calls ---- */

#if defined(FILTERS)

static const char *const plain_calls[] = {
    /* memory; mmap and mprotect are below */
    "brk", "madvise", "mremap", "munmap",
    /* threads; clone is below */
    "exit", "exit_group", "futex", "getcpu", "getpid", "gettid", "rseq", "sched_getaffinity",
    "sched_yield", "set_robust_list", "set_tid_address", "tgkill",
    /* signals */
    "restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
    /* time */
    "clock_getres", "clock_gettime", "clock_nanosleep", "gettimeofday", "nanosleep",
    /* descriptors */
    "close", "dup", "dup3", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_wait", "eventfd2",
    "fcntl", "lseek", "pipe2", "poll", "ppoll", "pread64", "pselect6", "pwrite64", "read", "readv",
    "select", "write", "writev",
    /* files: Landlock says where */
    "access", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchmod", "fdatasync", "flock",
    "fstat", "fstatfs", "fsync", "ftruncate", "getcwd", "getdents64", "lstat", "mkdir", "mkdirat",
    "newfstatat", "open", "openat", "readlink", "readlinkat", "rename", "renameat", "renameat2",
    "rmdir", "stat", "statfs", "statx", "symlink", "symlinkat", "sync_file_range", "umask",
    "unlink", "unlinkat",
    /* clients of the network: no listen, no accept */
    "bind", "connect", "getpeername", "getsockname", "getsockopt", "recvfrom", "recvmmsg",
    "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    /* others */
    "getegid", "geteuid", "getgid", "getrandom", "getrusage", "getuid", "sysinfo", "uname"};

enum { SOCKET_TYPE_MASK = 0xF }; /* without SOCK_CLOEXEC and SOCK_NONBLOCK */

static const seccomp_limited limited_calls[] = {
    {"clone", 0, CLONE_THREAD, CLONE_THREAD}, /* threads, no processes */
    {"ioctl", 1, UINT32_MAX, 0x5421},         /* FIONBIO */
    {"ioctl", 1, UINT32_MAX, 0x541B},         /* FIONREAD */
    {"mmap", 2, PROT_EXEC, 0},
    {"mprotect", 2, PROT_EXEC, 0},
    {"prctl", 0, UINT32_MAX, PR_SET_NAME},
    {"prlimit64", 2, UINT64_MAX, 0}, /* reads a limit */
    {"socket", 0, UINT32_MAX, AF_INET},
    {"socket", 0, UINT32_MAX, AF_INET6},
    {"socket", 0, UINT32_MAX, AF_NETLINK}, /* getaddrinfo lists the own addresses */
    /* For libcurl. An end of another type could be connected to a daemon. */
    {"socketpair", 1, SOCKET_TYPE_MASK, SOCK_STREAM},
};

static bool seccomp_enter(void)
{
    return seccomp_list_enter(
        &(seccomp_list){plain_calls, sizeof plain_calls / sizeof *plain_calls, limited_calls,
                        sizeof limited_calls / sizeof *limited_calls, .all_threads = false});
}
#else
static bool seccomp_enter(void)
{
    return false;
}
#endif

const char *pull_sandbox_enter(const pull *p)
{
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* the token is in memory */
#if defined(MOTE_SANITIZED)
    (void)p, (void)landlock_enter, (void)seccomp_enter;
    return "";
#endif
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return "no sandbox: the kernel does not allow it";
    const bool files = landlock_enter(p), calls = seccomp_enter();
    return files && calls ? ""
           : files        ? "no seccomp: system calls are not limited"
           : calls        ? "no Landlock: access to files is not limited"
                          : "no sandbox: the kernel has neither Landlock nor seccomp";
}
