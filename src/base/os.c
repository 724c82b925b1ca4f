/* SPDX-License-Identifier: Apache-2.0 */
/* os.c - implements os.h, except for what systems do differently. */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t fail_countdown;
static _Atomic bool failure_happened;

void os_fail_at(uint64_t n)
{
    atomic_store(&failure_happened, false);
    atomic_store(&fail_countdown, n);
}

bool os_failed(void)
{
    return atomic_load(&failure_happened);
}

/* True if a test has injected a failure here; sets errno. */
static bool os_planned_failure(void)
{
    uint64_t left = atomic_load(&fail_countdown);
    if (left == 0)
        return false;
    atomic_store(&fail_countdown, left - 1);
    if (left > 1)
        return false;
    atomic_store(&failure_happened, true);
    errno = ENOSPC;
    return true;
}

double os_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool os_write_all(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        const ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENOSPC; /* a device that takes no bytes and reports no error */
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

mote_status os_file_create(os_file *f, const char *path, mote_error *err)
{
    f->fd = -1;
    if ((size_t)snprintf(f->path, sizeof f->path, "%s", path) >= sizeof f->path)
        return err_set(err, MOTE_E_ARG, "path is longer than %zu bytes: %.60s...",
                       sizeof f->path - 1, path);
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* a rename would replace a device */
        return err_set(err, MOTE_E_IO, "%s exists and is not a regular file", path);
    /* Not the process id: in a container it is the same after every restart. */
    uint64_t random;
    if (!os_random(&random, sizeof random))
        return err_set(err, MOTE_E_IO, "cannot write %s: the system has no random bytes", path);
    snprintf(f->temporary, sizeof f->temporary, "%s.%016llx.part", f->path,
             (unsigned long long)random);
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return err_set(err, MOTE_E_IO, "cannot create %s: %s", f->temporary, strerror(errno));
    return MOTE_OK;
}

mote_status os_file_write(os_file *f, const void *data, size_t bytes, mote_error *err)
{
    if (bytes > 0 && (os_planned_failure() || !os_write_all(f->fd, data, bytes)))
        return err_set(err, MOTE_E_IO, "cannot write %s: %s", f->path, strerror(errno));
    return MOTE_OK;
}

bool os_sync_directory_of(const char *path)
{
    char dir[1024];
    snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash == NULL)
        snprintf(dir, sizeof dir, ".");
    else
        slash[slash == dir ? 1 : 0] = '\0';
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = !os_planned_failure() && os_sync(fd);
    close(fd);
    return ok;
}

mote_status os_file_commit(os_file *f, mote_error *err)
{
    bool ok = !os_planned_failure() && os_sync(f->fd);
    ok = close(f->fd) == 0 && ok;
    f->fd = -1;
    ok = ok && !os_planned_failure() && rename(f->temporary, f->path) == 0;
    if (!ok) {
        int why = errno;
        unlink(f->temporary);
        return err_set(err, MOTE_E_IO, "cannot write %s: %s", f->path, strerror(why));
    }
    if (!os_sync_directory_of(f->path))
        return err_set(err, MOTE_E_IO, "%s was written, but fsync of its directory failed",
                       f->path);
    return MOTE_OK;
}

void os_file_abandon(os_file *f)
{
    if (f->fd < 0)
        return;
    close(f->fd);
    f->fd = -1;
    unlink(f->temporary);
}

mote_status os_file_replace(const char *path, const void *data, size_t bytes, mote_error *err)
{
    os_file file;
    TRY(os_file_create(&file, path, err));
    mote_status status = os_file_write(&file, data, bytes, err);
    if (status == MOTE_OK)
        status = os_file_commit(&file, err);
    os_file_abandon(&file);
    return status;
}
