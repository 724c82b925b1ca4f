/* SPDX-License-Identifier: Apache-2.0 */
/* os.c - implements os.h. */
#define _GNU_SOURCE
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
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

mote_status os_map_open(os_map *out, const char *path, mote_error *err)
{
    *out = (os_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_set(err, MOTE_E_IO, "cannot open %s: %s", path, strerror(errno));
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return err_set(err, MOTE_E_IO, "%s is not a regular file", path);
    }
    if (info.st_size == 0) {
        close(fd);
        return err_set(err, MOTE_E_FORMAT, "%s is empty", path);
    }
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, fd, 0);
    int map_errno = errno;
    close(fd);
    if (data == MAP_FAILED)
        return err_set(err, MOTE_E_IO, "cannot map %s: %s", path, strerror(map_errno));
    *out = (os_map){data, (uint64_t)info.st_size};
    return MOTE_OK;
}

void os_map_close(os_map *map)
{
    if (map->data != NULL)
        munmap((void *)(uintptr_t)map->data, (size_t)map->bytes);
    *map = (os_map){0};
}

void os_map_drop_pages(const os_map *map)
{
    if (map->data != NULL)
        madvise((void *)(uintptr_t)map->data, (size_t)map->bytes, MADV_DONTNEED);
}

double os_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool os_random(void *out, size_t bytes)
{
    unsigned char *to = out;
    while (bytes > 0) {
        const ssize_t got = getrandom(to, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        to += got;
        bytes -= (size_t)got;
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
    snprintf(f->temporary, sizeof f->temporary, "%s.%d.part", f->path, (int)getpid());
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return err_set(err, MOTE_E_IO, "cannot create %s: %s", f->temporary, strerror(errno));
    return MOTE_OK;
}

mote_status os_file_write(os_file *f, const void *data, size_t bytes, mote_error *err)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = os_planned_failure() ? -1 : write(f->fd, at, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_set(err, MOTE_E_IO, "cannot write %s: %s", f->path, strerror(errno));
        at += n;
        bytes -= (size_t)n;
    }
    return MOTE_OK;
}

/* A rename is durable only after an fsync of its directory. */
static bool os_sync_directory_of(const char *path)
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
    bool ok = !os_planned_failure() && fsync(fd) == 0;
    close(fd);
    return ok;
}

mote_status os_file_commit(os_file *f, mote_error *err)
{
    bool ok = !os_planned_failure() && fsync(f->fd) == 0;
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
