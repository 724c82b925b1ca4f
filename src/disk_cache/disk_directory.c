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
        d->temporary_bytes += disk_whole_blocks((uint64_t)info.st_size);
    close(fd);
}

/* The key of a record to its name, or back. */
static bool map_name(const disk_cipher *cipher, disk_key in, bool back, disk_key *out)
{
    unsigned char from[DISK_NAME_KEY_BYTES], to[DISK_NAME_KEY_BYTES];
    _Static_assert(sizeof in == sizeof from, "a 128-bit hash");
    *out = in;
    if (cipher == NULL)
        return true;
    memcpy(from, &in, sizeof from);
    const bool ok = cipher->map_name(cipher->with, from, back, to);
    if (ok)
        memcpy(out, to, sizeof to);
    return ok;
}

bool disk_file_name(char out[DISK_NAME_BYTES], const disk_cipher *cipher, disk_key key,
                    disk_kind kind)
{
    disk_key name;
    const bool ok = map_name(cipher, key, false, &name);
    disk_record_name(out, name, kind);
    return ok;
}

/* A file with the name of a record. */
typedef struct scan_file {
    const char *name;
    disk_key named; /* by the file */
    disk_key key;   /* what the name stands for */
    disk_kind kind;
} scan_file;

/* Reads the head. MOTE_E_FORMAT, MOTE_E_MISMATCH: it is damaged, of another version, or its key
 * does not agree with the name. Other errors, such as too many open files, say nothing about the
 * record. */
static mote_status scan_read_head(const disk_directory *d, const disk_cipher *cipher,
                                  const scan_file *f, disk_record *out)
{
    const int fd = openat(d->fd, f->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return MOTE_E_IO;
    mote_status status = disk_record_read_head(fd, cipher, out, NULL);
    close(fd);
    const disk_key expected = out->is_foreign ? f->named : f->key;
    const bool unknown = out->is_sealed && out->is_foreign; /* its key is encrypted */
    if (status == MOTE_OK && (out->head.kind != (uint32_t)f->kind ||
                              !(unknown || disk_key_equal(out->head.key, expected))))
        status = MOTE_E_MISMATCH;
    return status;
}

static void scan_record(disk_directory *d, const disk_scan *scan, const scan_file *f)
{
    struct stat info;
    disk_record record;
    if (fstatat(d->fd, f->name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return;
    if (scan->known(scan->with, f->key, (uint64_t)info.st_size))
        return;
    const mote_status status = scan_read_head(d, scan->cipher, f, &record);
    if (status != MOTE_OK) {
        if (d->lock >= 0 && (status == MOTE_E_FORMAT || status == MOTE_E_MISMATCH))
            unlinkat(d->fd, f->name, 0); /* never used again */
        return;
    }
    const disk_head *head = &record.head;
    disk_entry e = {.key = f->key,
                    .parent = record.is_foreign ? (disk_key){{0, 0}} : head->parent,
                    .binding = head->binding,
                    .kind = f->kind,
                    .ns = head->ns,
                    .position = head->position,
                    .bytes = disk_whole_blocks((uint64_t)info.st_size),
                    .created = head->created,
                    .used = head->created,
                    .is_sealed = record.is_sealed,
                    .is_foreign = record.is_foreign};
    memcpy(e.label, head->label, sizeof e.label);
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
        scan_file f = {.name = e->d_name};
        if (strncmp(e->d_name, temporary_prefix, strlen(temporary_prefix)) == 0) {
            if (d->lock >= 0 && strcmp(e->d_name, d->own) != 0)
                scan_temporary(d, e->d_name);
        }
        if (disk_record_parse_name(e->d_name, &f.named, &f.kind) &&
            map_name(scan->cipher, f.named, true, &f.key))
            scan_record(d, scan, &f);
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
