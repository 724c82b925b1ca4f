/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shake.c - LD_PRELOAD library that delays threads and processes at synchronisation points.
 *
 * A test that assumes one order of events can pass for months on a machine that always produces
 * this order. This library adds sleeps before and after locks, signals, messages and wake-ups.
 * Orders that a loaded machine produces once in a thousand runs then occur in every few runs:
 *
 *   everywhere        one call in 200 sleeps up to 1 ms, one in 4,000 sleeps 20 to 100 ms
 *   slow call sites   every sixteenth call site, selected by the seed: one call in four sleeps up
 * to 20 ms, so one side of a race is late repeatedly
 *
 * A process sleeps at most 0.25 s plus half of its run time. A call site is the low 12 bits of the
 * return address, which are the same in every run of a program.
 *
 *   SHAKE_SEED   a number from 1; not set: no delays
 *   SHAKE_UNDER  delays only programs with this path prefix; not set: all programs
 *
 * The same seed selects the same slow call sites. Which call sleeps depends on the order of the
 * threads, so a failure may need several runs to occur again. No function except pthread_create
 * allocates; none locks or changes errno. The sleep is a futex wait with a timeout, which the
 * seccomp filter of the image decoders allows.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    OFTEN = 200,        /* one call in 200 sleeps up to 1 ms */
    SELDOM = 4000,      /* one call in 4,000 sleeps 20 to 100 ms */
    SLOW_SITES = 16,    /* one call site in 16 is slow */
    SLOW_CALLS = 4,     /* one call in 4 sleeps there */
    SITE_BITS = 0xfff,  /* offset in a page, independent of the load address */
    MICROSECOND = 1000, /* all times are in nanoseconds */
    MILLISECOND = 1000000,
};

static const uint64_t GRACE = 250 * (uint64_t)MILLISECOND;

static uint64_t seed; /* 0: no delays in this process */
static uint64_t start_ns;
static _Atomic uint64_t drawn, slept;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

static uint64_t next_random(void)
{
    return mix(seed + 0x9e3779b97f4a7c15U * atomic_fetch_add(&drawn, 1));
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 * MILLISECOND + (uint64_t)t.tv_nsec;
}

/* The next definition of a function, which is that of libc. On x86-64 the condition variables also
 * have an old version, so the new version is requested. */
static void *libc_function(_Atomic(void *) *kept, const char *name)
{
    void *found = atomic_load(kept);
    if (found != NULL)
        return found;
    if (strncmp(name, "pthread_cond_", 13) == 0)
        found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (found == NULL)
        found = dlsym(RTLD_NEXT, name);
    atomic_store(kept, found);
    return found;
}

static long next_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    static _Atomic(void *) kept;
    long (*const next)(long, ...) = (long (*)(long, ...))libc_function(&kept, "syscall");
    return next(number, a, b, c, d, e, f);
}

static void sleep_for(uint64_t ns)
{
    uint32_t word = 0;
    const struct timespec t = {0, (long)ns};
    if (atomic_fetch_add(&slept, ns) + ns > GRACE + (now_ns() - start_ns) / 2) {
        atomic_fetch_sub(&slept, ns);
        return;
    }
    next_syscall(SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, 0, (long)&t, 0, 0);
}

/* Called at each call site; sleeps rarely. */
static void maybe_sleep(uint64_t site)
{
    if (seed == 0)
        return;
    const int before = errno;
    const uint64_t x = next_random(), how_long = next_random();
    if (x % SELDOM == 0)
        sleep_for(20 * MILLISECOND + how_long % (80 * MILLISECOND));
    else if (x % OFTEN == 0)
        sleep_for(how_long % MILLISECOND);
    else if (mix(seed ^ (site << 32)) % SLOW_SITES == 0 && x % SLOW_CALLS == 1)
        sleep_for(how_long % (20 * MILLISECOND));
    errno = before;
}

#define SITE ((uint64_t)(uintptr_t)__builtin_return_address(0) & SITE_BITS)

__attribute__((constructor)) static void shake_init(void)
{
    const char *number = getenv("SHAKE_SEED"), *under = getenv("SHAKE_UNDER");
    char path[4096];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : 0] = '\0';
    if (number == NULL || (under != NULL && strncmp(path, under, strlen(under)) != 0))
        return;
    for (const char *p = path; *p != '\0'; p++) /* other slow call sites in each program */
        seed = mix(seed + (unsigned char)*p);
    start_ns = now_ns();
    seed = mix(seed + strtoull(number, NULL, 10)) | 1;
    maybe_sleep(0);
}

/* A wrapper of a libc function with a possible delay before and after the call. */
#define SHAKEN(result, name, parameters, arguments)                                                \
    result name parameters                                                                         \
    {                                                                                              \
        static _Atomic(void *) kept;                                                               \
        result(*const next) parameters = (result(*) parameters)libc_function(&kept, #name);        \
        maybe_sleep(SITE);                                                                         \
        const result it = next arguments;                                                          \
        maybe_sleep(SITE + SITE_BITS);                                                             \
        return it;                                                                                 \
    }

SHAKEN(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
SHAKEN(int, pthread_mutex_trylock, (pthread_mutex_t * m), (m))
SHAKEN(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))
SHAKEN(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
SHAKEN(int, pthread_cond_timedwait,
       (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *end), (c, m, end))
SHAKEN(int, pthread_cond_signal, (pthread_cond_t * c), (c))
SHAKEN(int, pthread_cond_broadcast, (pthread_cond_t * c), (c))
SHAKEN(int, pthread_join, (pthread_t thread, void **result), (thread, result))

SHAKEN(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
SHAKEN(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t), (n, r, w, e, t))
SHAKEN(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))
SHAKEN(int, epoll_pwait, (int fd, struct epoll_event *events, int n, int ms, const sigset_t *mask),
       (fd, events, n, ms, mask))

SHAKEN(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
SHAKEN(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
SHAKEN(ssize_t, readv, (int fd, const struct iovec *parts, int n), (fd, parts, n))
SHAKEN(ssize_t, writev, (int fd, const struct iovec *parts, int n), (fd, parts, n))
SHAKEN(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
SHAKEN(ssize_t, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags))
SHAKEN(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
SHAKEN(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
SHAKEN(int, accept, (int fd, struct sockaddr *address, socklen_t *n), (fd, address, n))
SHAKEN(int, accept4, (int fd, struct sockaddr *address, socklen_t *n, int flags),
       (fd, address, n, flags))
SHAKEN(int, connect, (int fd, const struct sockaddr *address, socklen_t n), (fd, address, n))
SHAKEN(int, shutdown, (int fd, int how), (fd, how))
SHAKEN(int, close, (int fd), (fd))

SHAKEN(pid_t, fork, (void), ())
SHAKEN(pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))
SHAKEN(int, kill, (pid_t pid, int number), (pid, number))

/* The names with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *to, size_t n, size_t room);
ssize_t __recv_chk(int fd, void *to, size_t n, size_t room, int flags);
int __poll_chk(struct pollfd *fds, nfds_t n, int ms, size_t room);
SHAKEN(ssize_t, __read_chk, (int fd, void *to, size_t n, size_t room), (fd, to, n, room))
SHAKEN(ssize_t, __recv_chk, (int fd, void *to, size_t n, size_t room, int flags),
       (fd, to, n, room, flags))
SHAKEN(int, __poll_chk, (struct pollfd * fds, nfds_t n, int ms, size_t room), (fds, n, ms, room))

/* The thread pool uses futexes through syscall(). */
long syscall(long number, ...)
{
    va_list rest;
    va_start(rest, number);
    const long a = va_arg(rest, long), b = va_arg(rest, long), c = va_arg(rest, long);
    const long d = va_arg(rest, long), e = va_arg(rest, long), f = va_arg(rest, long);
    va_end(rest);
    if (number == SYS_futex)
        maybe_sleep(SITE);
    const long it = next_syscall(number, a, b, c, d, e, f);
    if (number == SYS_futex)
        maybe_sleep(SITE + SITE_BITS);
    return it;
}

/* ---- delays at the start of a thread and after pthread_create ---- */

typedef struct thread_start {
    void *(*run)(void *);
    void *with;
} thread_start;

static void *thread_run_late(void *p)
{
    const thread_start start = *(thread_start *)p;
    free(p);
    maybe_sleep((uint64_t)(uintptr_t)start.run & SITE_BITS);
    return start.run(start.with);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with)
{
    static _Atomic(void *) kept;
    int (*const next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))libc_function(
            &kept, "pthread_create");
    thread_start *start = seed != 0 ? malloc(sizeof *start) : NULL;
    if (start == NULL)
        return next(thread, how, run, with);
    *start = (thread_start){run, with};
    const int failed = next(thread, how, thread_run_late, start);
    if (failed)
        free(start);
    maybe_sleep(SITE);
    return failed;
}
