/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_linux.c - Landlock, then seccomp with a list of allowed system calls. See decoder_int.h.
 *
 * Any other system call kills the process. Memory may be mapped, but never from a file and never
 * executable. No descriptor can be opened. Sanitizers need more system calls, so builds with them
 * have no filter.
 */
#define _GNU_SOURCE
#include "base/landlock.h"
#include "base/sanitized.h"
#include "media/sandbox/decoder_int.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#if defined(MOTE_SECCOMP) && !defined(MOTE_SANITIZED)
#define FILTERS 1
#include <seccomp.h>
#endif

/* ---- Landlock ---- */

/* Denies all access to files. False: the kernel has no Landlock. */
static bool landlock_files(void)
{
    const int ruleset = landlock_version() > 0 ? landlock_open(landlock_rights(1)) : -1;
    return ruleset >= 0 && landlock_restrict(ruleset);
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
    static const int plain[] = {SCMP_SYS(read),         SCMP_SYS(write),      SCMP_SYS(munmap),
                                SCMP_SYS(mremap),       SCMP_SYS(madvise),    SCMP_SYS(brk),
                                SCMP_SYS(futex),        SCMP_SYS(exit_group), SCMP_SYS(exit),
                                SCMP_SYS(rt_sigreturn), SCMP_SYS(setitimer)};
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

sandbox_state sandbox_restrict(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return SANDBOX_OFF;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    const bool files = landlock_files();
    if (!seccomp_install())
        return SANDBOX_OFF;
    return files ? SANDBOX_ON : SANDBOX_PARTIAL;
}
