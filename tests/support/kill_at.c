/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_at.c - LD_PRELOAD library: counts the calls that change files and interferes with one.
 *
 * KILL_AT=N  the process dies (SIGKILL) before its N-th call
 * FAIL_AT=N  that call fails with ENOSPC
 * KILL_WRITES=1 calls of write count too, except to standard output and error; the process dies after
 *            half of the bytes
 * CALL_LOG=1 every call is written to stderr: "call NAME INODE", of the file before the call
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static long n_calls;

/* True if the process dies at the next call. */
static bool call_is_last(void)
{
    const char *kill_at = getenv("KILL_AT");
    return kill_at != NULL && n_calls + 1 == atol(kill_at);
}

/* Counts a call. True: it must fail. */
static bool count_call(const char *name, unsigned long inode)
{
    const char *kill_at = getenv("KILL_AT"), *fail_at = getenv("FAIL_AT");
    n_calls++;
    if (getenv("CALL_LOG") != NULL)
        dprintf(STDERR_FILENO, "call %s %lu\n", name, inode);
    if (kill_at != NULL && n_calls == atol(kill_at))
        raise(SIGKILL);
    errno = ENOSPC;
    return fail_at != NULL && n_calls == atol(fail_at);
}

static unsigned long inode_of_path(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? (unsigned long)st.st_ino : 0;
}

static unsigned long inode_of_fd(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? (unsigned long)st.st_ino : 0;
}

/* Defines a function of libc with `parameters`, which are named in `arguments`. */
#define WRAP(name, parameters, arguments, inode)                                                   \
    int name parameters                                                                            \
    {                                                                                              \
        static int(*next) parameters;                                                              \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        return count_call(#name, inode) ? -1 : next arguments;                                     \
    }
WRAP(unlink, (const char *path), (path), inode_of_path(path))
WRAP(rmdir, (const char *path), (path), inode_of_path(path))
WRAP(remove, (const char *path), (path), inode_of_path(path))
WRAP(rename, (const char *from, const char *to), (from, to), inode_of_path(from))
WRAP(symlink, (const char *target, const char *path), (target, path), inode_of_path(path))
WRAP(mkdir, (const char *path, mode_t mode), (path, mode), inode_of_path(path))
WRAP(ftruncate, (int fd, off_t bytes), (fd, bytes), inode_of_fd(fd))
WRAP(fsync, (int fd), (fd), inode_of_fd(fd))

ssize_t write(int fd, const void *data, size_t bytes)
{
    static ssize_t (*next)(int fd, const void *data, size_t bytes);
    if (next == NULL)
        *(void **)&next = dlsym(RTLD_NEXT, "write");
    if (fd <= STDERR_FILENO || getenv("KILL_WRITES") == NULL)
        return next(fd, data, bytes);
    if (call_is_last())
        next(fd, data, bytes / 2);
    return count_call("write", inode_of_fd(fd)) ? -1 : next(fd, data, bytes);
}
