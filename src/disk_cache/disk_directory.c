/* SPDX-License-Identifier: Apache-2.0 */
/* disk_directory.c - see disk_directory.h. */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include "disk_cache/disk_directory.h"

#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char lock_magic[8] = {'M', 'O', 'T', 'E', 'K', 'V', 'L', '\n'};
static const char lock_name[] = "lock";
static const char temporary_prefix[] = "t-";

uint64_t disk_time(void)
{
    return (uint64_t)time(NULL);
}

/* Creates the directory and those above it. */
static bool make_directories(const char *path)
{
    char part[1024];
    if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *slash = strchr(part + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST)
            return false;
        *slash = '/';
    }
    return mkdir(part, 0700) == 0 || errno == EEXIST;
}

static mote_status directory_check(const disk_directory *d, const char *path, mote_error *err)
{
    struct stat info;
    if (fstat(d->fd, &info) != 0)
        return err_set(err, MOTE_E_IO, "%s: %s", path, strerror(errno));
    if (info.st_uid != geteuid() || (info.st_mode & 077) != 0)
        return err_set(err, MOTE_E_IO,
                       "%s must belong to this user with mode 0700: it holds conversations", path);
    return MOTE_OK;
}

mote_status disk_directory_open(disk_directory *d, const char *path, bool read_only,
                                mote_error *err)
{
    *d = (disk_directory){.fd = -1, .lock = -1};
    d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0 && errno == ENOENT && !read_only) {
        if (!make_directories(path))
            return err_set(err, MOTE_E_IO, "cannot create %s: %s", path, strerror(errno));
        d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (d->fd < 0)
        return err_set(err, MOTE_E_IO, "cannot open %s: %s", path, strerror(errno));
    TRY(directory_check(d, path, err));
    const int flags = read_only ? O_RDONLY : O_RDWR | O_CREAT;
    d->lock = openat(d->fd, lock_name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->lock < 0 && !read_only)
        return err_set(err, MOTE_E_IO, "cannot write %s/%s: %s", path, lock_name, strerror(errno));
    return MOTE_OK;
}

void disk_directory_close(disk_directory *d)
{
    if (d->lock >= 0)
        close(d->lock);
    if (d->fd >= 0)
        close(d->fd);
    d->fd = d->lock = -1;
}

/* ---- the lock ---- */

void disk_directory_peek(const disk_directory *d, disk_counters *out)
{
    const bool ok = d->lock >= 0 && pread(d->lock, out, sizeof *out, 0) == (ssize_t)sizeof *out &&
                    memcmp(out->magic, lock_magic, sizeof lock_magic) == 0;
    if (!ok)
        *out = (disk_counters){0};
}

static bool counters_write(const disk_directory *d)
{
    return pwrite(d->lock, &d->counters, sizeof d->counters, 0) == (ssize_t)sizeof d->counters;
}

mote_status disk_directory_lock(disk_directory *d, mote_error *err)
{
    while (flock(d->lock, LOCK_EX) != 0)
        if (errno != EINTR)
            return err_set(err, MOTE_E_IO, "cannot lock the disk cache: %s", strerror(errno));
    disk_directory_peek(d, &d->counters);
    if (d->counters.since == 0) {
        memcpy(d->counters.magic, lock_magic, sizeof lock_magic);
        d->counters.since = disk_time();
        if (!os_random(&d->counters.generation, sizeof d->counters.generation))
            d->counters.generation = d->counters.since;
        counters_write(d); /* or every process has its own, and the others seem to change it */
    }
    return MOTE_OK;
}

bool disk_directory_begin_change(disk_directory *d)
{
    d->counters.generation++;
    return counters_write(d);
}

void disk_directory_unlock(disk_directory *d, bool changed)
{
    if (changed)
        counters_write(d); /* its blocks exist since disk_directory_begin_change */
    flock(d->lock, LOCK_UN);
}

/* ---- files ---- */

/* Is it a temporary file without a writer? Its bytes are counted otherwise. */
static void scan_temporary(disk_directory *d, const char *name)
{
    struct stat info;
    const int fd = openat(d->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(d->fd, name, 0);
    else if (fstat(fd, &info) == 0)
        d->temporary_bytes += disk_record_bytes((uint64_t)info.st_size);
    close(fd);
}

/* Reads the head. MOTE_E_FORMAT, MOTE_E_MISMATCH: it is damaged, of another version, or its key does
 * not agree with the name. Other errors, such as too many open files, say nothing about the record. */
static mote_status scan_read_head(const disk_directory *d, const char *name, disk_key key,
                                  disk_kind kind, disk_head *head)
{
    const int fd = openat(d->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return MOTE_E_IO;
    mote_status status = disk_record_read_head(fd, head, NULL);
    if (status == MOTE_OK && !(disk_key_equal(head->key, key) && head->kind == (uint32_t)kind))
        status = MOTE_E_MISMATCH;
    close(fd);
    return status;
}

static void scan_record(disk_directory *d, const disk_scan *scan, const char *name, disk_key key,
                        disk_kind kind)
{
    struct stat info;
    disk_head head;
    if (fstatat(d->fd, name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (scan->known(scan->with, key, (uint64_t)info.st_size))
        return;
    const mote_status status = scan_read_head(d, name, key, kind, &head);
    if (status != MOTE_OK) {
        if (d->lock >= 0 && (status == MOTE_E_FORMAT || status == MOTE_E_MISMATCH))
            unlinkat(d->fd, name, 0); /* never used again */
        return;
    }
    disk_entry e = {.key = key,
                    .parent = head.parent,
                    .binding = head.binding,
                    .kind = kind,
                    .ns = head.ns,
                    .position = head.position,
                    .bytes = disk_record_bytes(head.payload_bytes),
                    .created = head.created,
                    .used = head.created};
    memcpy(e.label, head.label, sizeof e.label);
    scan->found(scan->with, &e);
}

mote_status disk_directory_scan(disk_directory *d, const disk_scan *scan, mote_error *err)
{
    const int copy = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL) {
        if (copy >= 0)
            close(copy);
        return err_set(err, MOTE_E_IO, "cannot read the disk cache: %s", strerror(errno));
    }
    d->temporary_bytes = 0;
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        disk_key key;
        disk_kind kind;
        if (strncmp(e->d_name, temporary_prefix, strlen(temporary_prefix)) == 0) {
            if (d->lock >= 0 && strcmp(e->d_name, d->own) != 0)
                scan_temporary(d, e->d_name);
        }
        if (disk_record_parse_name(e->d_name, &key, &kind))
            scan_record(d, scan, e->d_name, key, kind);
    }
    closedir(dir);
    return MOTE_OK;
}

int disk_directory_new_file(disk_directory *d, uint64_t bytes)
{
    uint64_t random;
    if (!os_random(&random, sizeof random))
        return -1;
    snprintf(d->own, sizeof d->own, "%s%016llx", temporary_prefix, (unsigned long long)random);
    const int fd = openat(d->fd, d->own, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        d->own[0] = '\0';
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || ftruncate(fd, (off_t)bytes) != 0) {
        const int why = errno;
        disk_directory_end_file(d, NULL);
        close(fd);
        errno = why;
        return -1;
    }
    return fd;
}

bool disk_directory_end_file(disk_directory *d, const char *to)
{
    const bool renamed = to != NULL && renameat(d->fd, d->own, d->fd, to) == 0;
    const int why = errno;
    if (!renamed)
        unlinkat(d->fd, d->own, 0);
    d->own[0] = '\0';
    errno = why;
    return renamed || to == NULL;
}
