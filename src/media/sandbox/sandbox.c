/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.c - resource limits of a decoder, and the state of its sandbox. See decoder_int.h.
 * sandbox_linux.c limits files and system calls; sandbox_absent.c is for systems that cannot.
 */
#include "base/sanitized.h"
#include "media/sandbox/decoder_int.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_limits_of(int what, rlim_t soft, rlim_t hard)
{
    const struct rlimit limit = {soft, hard};
    setrlimit(what, &limit);
}

static void set_limit(int what, rlim_t most)
{
    set_limits_of(what, most, most);
}

static void set_limits(void)
{
#if !defined(MOTE_SANITIZED)
    set_limit(RLIMIT_AS, (rlim_t)SANDBOX_MEMORY_MB << 20);
#endif
    set_limits_of(RLIMIT_CPU, SANDBOX_CPU_SECONDS, SANDBOX_CPU_SECONDS + 1); /* 1 s for a reply */
    set_limit(RLIMIT_FSIZE, 0);
    set_limit(RLIMIT_CORE, 0);
    set_limit(RLIMIT_NOFILE, 0);
    set_limit(RLIMIT_NPROC, 0);
    alarm(SANDBOX_WALL_SECONDS);
}

double media_sandbox_seconds(uint64_t pixels, uint64_t bytes)
{
    const double seconds = 2 + 250e-9 * (double)pixels + 50e-9 * (double)bytes;
    return seconds < SANDBOX_CPU_SECONDS ? seconds : SANDBOX_CPU_SECONDS;
}

void media_sandbox_limit(double seconds)
{
    const time_t whole = (time_t)seconds;
    const suseconds_t rest = (suseconds_t)((seconds - (double)whole) * 1e6);
    setitimer(ITIMER_PROF, &(struct itimerval){.it_value = {whole, rest}}, NULL);
}

sandbox_state media_sandbox_enter(void)
{
    set_limits();
    return sandbox_restrict();
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
