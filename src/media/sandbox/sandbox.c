/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.c - resource limits, Landlock, then seccomp with a list of allowed system calls. See
 * decoder_int.h.
 *
 * Any other system call kills the process. Memory may be mapped, but never from a file and never
 * executable. No descriptor can be opened. Sanitizers need more system calls, so builds with them
 * have no filter.
 */
#define _GNU_SOURCE
#include "media/sandbox/decoder_int.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizers reserve much address space and make other system calls. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(MOTE_SECCOMP) && !defined(SANITIZED)
#define FILTERS 1
#include <seccomp.h>
#endif

static void set_limits_of(__rlimit_resource_t what, rlim_t soft, rlim_t hard)
{
    const struct rlimit limit = {soft, hard};
    setrlimit(what, &limit);
}

static void set_limit(__rlimit_resource_t what, rlim_t most)
{
    set_limits_of(what, most, most);
}

static void set_limits(void)
{
#if !defined(SANITIZED)
    set_limit(RLIMIT_AS, (rlim_t)SANDBOX_MEMORY_MB << 20);
#endif
    set_limits_of(RLIMIT_CPU, SANDBOX_CPU_SECONDS, SANDBOX_CPU_SECONDS + 1); /* 1 s for a reply */
    set_limit(RLIMIT_FSIZE, 0);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_NOFILE, 0);
    set_limit(RLIMIT_NPROC, 0);
    alarm(SANDBOX_WALL_SECONDS);
}

/* ---- Landlock: no access to files. Older headers lack the numbers of the system calls. ---- */

enum { LANDLOCK_CREATE = 444, LANDLOCK_RESTRICT = 446, LANDLOCK_VERSION_FLAG = 1 };

/* Denies all access to files. False: the kernel has no Landlock. */
static bool landlock_files(void)
{
    /* every access right of Landlock version 1 */
    const struct {
        uint64_t handled_access_fs;
    } ruleset = {(1ULL << 13) - 1};
    if (syscall(LANDLOCK_CREATE, NULL, 0, LANDLOCK_VERSION_FLAG) < 1)
        return false;
    const int fd = (int)syscall(LANDLOCK_CREATE, &ruleset, sizeof ruleset, 0);
    if (fd < 0)
        return false;
    const bool done = syscall(LANDLOCK_RESTRICT, fd, 0) == 0;
    close(fd);
    return done;
}

/* ---- system calls ---- */

#if defined(FILTERS)
/* Allows anonymous mappings without execute permission. */
static bool seccomp_allow_memory(scmp_filter_ctx filter)
{
    return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
                            SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS)) == 0 &&
           seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                            SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0)) == 0;
}

static bool seccomp_install(void)
{
    static const int plain[] = {SCMP_SYS(read),        SCMP_SYS(write),      SCMP_SYS(munmap),
                                SCMP_SYS(mremap),      SCMP_SYS(madvise),    SCMP_SYS(brk),
                                SCMP_SYS(futex),       SCMP_SYS(exit_group), SCMP_SYS(exit),
                                SCMP_SYS(rt_sigreturn)};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    if (filter == NULL) /* an older kernel kills one thread: a decoder has no other */
        filter = seccomp_init(SCMP_ACT_KILL_THREAD);
    bool done = filter != NULL && seccomp_allow_memory(filter);
    for (size_t i = 0; done && i < sizeof plain / sizeof *plain; i++)
        done = seccomp_rule_add(filter, SCMP_ACT_ALLOW, plain[i], 0) == 0;
    done = done && seccomp_load(filter) == 0;
    /* the filter is not freed: the process ends soon */
    return done;
}
#else
static bool seccomp_install(void)
{
    return false;
}
#endif

sandbox_state media_sandbox_enter(void)
{
    set_limits();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return SANDBOX_OFF;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    const bool files = landlock_files();
    if (!seccomp_install())
        return SANDBOX_OFF;
    return files ? SANDBOX_ON : SANDBOX_PARTIAL;
}

sandbox_state media_sandbox_here(void)
{
    const pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit((int)media_sandbox_enter());
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return SANDBOX_OFF;
    return (sandbox_state)WEXITSTATUS(status);
}

const char *media_sandbox_name(sandbox_state state)
{
    static const char *const names[] = {"off", "partial", "on"};
    return names[state];
}
