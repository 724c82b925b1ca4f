/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_lock.c - the lock of a blob, compatible with huggingface_hub: flock(2) on
 * <cache>/.locks/models--owner--name/<hash>.lock.
 *
 * The file is never removed. If another program removed it between open and flock, the lock would
 * protect nothing, so it is taken again. Without locks each process
 * has its own part file, which it removes at its end: nothing is resumed, and the last rename wins.
 */
#include "pull/pull_int.h"

#include "base/os.h"
#include "store/hf_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const double poll_after = 0.05, notice_after = 1; /* seconds */

/* Opens the lock file. -1: it cannot be used; errno says why. */
static int lock_open(const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0664);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        errno = EINVAL;
        return -1;
    }
    return fd;
}

/* 1: locked, 0: held by another process, -1: no locks here. */
static int lock_try(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 1;
    return errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

static bool lock_was_removed(int fd)
{
    struct stat st;
    return fstat(fd, &st) != 0 || st.st_nlink == 0;
}

/* Locks do not work; errno says why. */
static mote_status lock_missing(pull *p)
{
    char text[200];
    uint32_t number = (uint32_t)getpid();
    if (p->own[0] != '\0')
        return MOTE_OK;
    snprintf(
        text, sizeof text,
        "the cache cannot be locked (%s); this pull has its own part files and resumes nothing",
        strerror(errno));
    event_warning(text);
    os_random(&number, sizeof number);
    snprintf(p->own, sizeof p->own, "-%08x", (unsigned)number);
    return MOTE_OK;
}

mote_status cache_lock(pull *p, const char *hash, int *fd, mote_error *err)
{
    char path[PULL_PATH_BYTES];
    const double started = os_now();
    bool noticed = false;
    *fd = -1;
    if (!hf_lock_path(path, p->request.cache, p->request.repo, hash))
        return pull_fail(p, PULL_NOT_WRITABLE, err, "the path of the cache is too long");
    for (;;) {
        TRY(pull_check_signal(p, err));
        if (*fd < 0 && (*fd = lock_open(path)) < 0)
            return lock_missing(p);
        const int locked = lock_try(*fd);
        if (locked == 1 && !lock_was_removed(*fd))
            return MOTE_OK;
        if (locked != 0) {
            const int error = errno;
            close(*fd);
            *fd = -1;
            errno = error;
            if (locked < 0)
                return lock_missing(p);
            continue;
        }
        if (!noticed && os_now() - started > notice_after) {
            event_wait("lock", 0);
            noticed = true;
        }
        const mote_status status = pull_sleep(p, poll_after, err);
        if (status != MOTE_OK) {
            cache_unlock(*fd);
            return status;
        }
    }
}

int cache_lock_try(const pull *p, const char *hash)
{
    char path[PULL_PATH_BYTES];
    const int fd =
        hf_lock_path(path, p->request.cache, p->request.repo, hash) ? lock_open(path) : -1;
    if (fd >= 0 && lock_try(fd) != 1) {
        close(fd);
        return -1;
    }
    return fd;
}

bool cache_hold(int fd, bool alone)
{
    return flock(fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0;
}

void cache_unlock(int fd)
{
    if (fd >= 0)
        close(fd);
}
