/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_at.c - LD_PRELOAD library: counts the calls that change files and interferes with one.
 *
 * KILL_AT=N  the process dies (SIGKILL) before its N-th call
 * FAIL_AT=N  that call fails with ENOSPC
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

/* Counts a call. True: it must fail. */
static bool count_call(const char *name, unsigned long inode)
{
    static long n;
    const char *kill_at = getenv("KILL_AT"), *fail_at = getenv("FAIL_AT");
    n++;
    if (getenv("CALL_LOG") != NULL)
        dprintf(STDERR_FILENO, "call %s %lu\n", name, inode);
    if (kill_at != NULL && n == atol(kill_at))
        raise(SIGKILL);
    errno = ENOSPC;
    return fail_at != NULL && n == atol(fail_at);
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
