/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_keys_file.c - the file that keys come from, looked at while the server runs. See api_keys.h.
 *
 * Whether it has changed is told by what the system says of it, which two changes within its
 * clock's smallest step cannot be told apart by: a file that was written just before is read again.
 */
#define _GNU_SOURCE
#include "base/mem.h"
#include "server/auth/api_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_MOST = 1 << 20, SETTLES = 2 /* seconds */ };

static api_keys_file describe(const api_keys_file *file, const struct stat *info)
{
    return (api_keys_file){.path = file->path,
                           .device = (uint64_t)info->st_dev,
                           .inode = (uint64_t)info->st_ino,
                           .size = (uint64_t)info->st_size,
                           .seconds = (int64_t)info->st_mtim.tv_sec,
                           .nanoseconds = (int64_t)info->st_mtim.tv_nsec,
                           .settled = time(NULL) - info->st_mtim.tv_sec >= SETTLES};
}

static bool same(const api_keys_file *a, const api_keys_file *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds;
}

static mote_status cannot_read(const char *why, mote_error *err)
{
    return err_set(err, MOTE_E_IO, "it cannot be read: %s", why);
}

/* The file into `text`, which has room for FILE_MOST bytes. */
static mote_status read_whole(int fd, char *text, size_t *n, mote_error *err)
{
    *n = 0;
    for (;;) {
        const ssize_t got = read(fd, text + *n, FILE_MOST - *n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannot_read(strerror(errno), err);
        if (got == 0)
            return MOTE_OK;
        *n += (size_t)got;
        if (*n == FILE_MOST)
            return cannot_read("it is larger than 1 MiB", err);
    }
}

static mote_status take_file(api_keys *k, const char *path, api_keys_change *change,
                             mote_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return cannot_read(strerror(errno), err);
    char *text = mem_new(FILE_MOST, 1);
    size_t n = 0;
    mote_status status = text != NULL ? read_whole(fd, text, &n, err)
                                      : err_set(err, MOTE_E_MEMORY, "there is no memory for it");
    if (status == MOTE_OK)
        status = api_keys_take(k, (str){text, n}, true, change, err);
    mem_free(text);
    close(fd);
    return status;
}

mote_status api_keys_reload(api_keys *k, api_keys_file *file, api_keys_change *change,
                            mote_error *err)
{
    struct stat info = {0};
    *change = (api_keys_change){0};
    if (file->path == NULL)
        return MOTE_OK;
    const bool there = stat(file->path, &info) == 0;
    if (there && !S_ISREG(info.st_mode))
        return MOTE_OK;
    api_keys_file now = describe(file, &info);
    const bool changed = !same(file, &now), was_broken = file->broken;
    if (!changed && file->settled)
        return MOTE_OK;
    *file = now;
    const mote_status status = take_file(k, file->path, change, err);
    file->broken = status != MOTE_OK;
    return file->broken && was_broken && !changed ? MOTE_OK : status;
}
