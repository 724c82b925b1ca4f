/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_file.c - see answer_file.h.
 *
 * Two mutexes: `lock` for the records that wait for the writer thread, `files` for the file. A
 * caller of answer_file_append takes only the first, so it never waits for the disk.
 */
#include "disk_cache/answer_file.h"

#include "base/mem.h"
#include "base/os.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEAD_BYTES = 8,
    RECORD_MAGIC = 0x57534e41, /* ANSW */
    MAX_PENDING = 16 << 20     /* bytes that may wait for the writer thread */
};

static const char file_magic[HEAD_BYTES] = {'M', 'O', 'T', 'E', 'A', 'N', 'S', '\n'};

typedef struct answer_head {
    uint32_t magic, bytes; /* of the record without this head */
    uint64_t check;        /* XXH3-64 of binding and record */
    disk_key binding;
} answer_head;

struct answer_file {
    uint64_t cap;
    disk_key binding;
    int directory;
    /* ---- files ---- */
    pthread_mutex_t files;
    int fd;            /* -1: not open */
    uint64_t valid_to; /* end of the last record that was checked */
    uint64_t read_to;  /* end of the last record that was given to a reader */
    /* ---- lock ---- */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    strbuf pending; /* complete records with their heads */
    bool stop;
    pthread_t writer;
};

static uint64_t record_check(disk_key binding, const void *bytes, size_t n)
{
    return XXH3_64bits_withSeed(bytes, n, binding.word[0] ^ binding.word[1]);
}

static uint64_t record_size(uint64_t bytes)
{
    return sizeof(answer_head) + (bytes + 7) / 8 * 8;
}

/* ---- reading bytes ---- */

static bool read_at(int fd, void *to, size_t n, uint64_t offset)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(fd, (char *)to + done, n - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

static bool write_at(int fd, const void *from, size_t n, uint64_t offset)
{
    for (size_t done = 0; done < n;) {
        const ssize_t put = pwrite(fd, (const char *)from + done, n - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

static uint64_t file_size(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* ---- under `files` ---- */

static void file_forget(answer_file *f)
{
    if (f->fd >= 0)
        close(f->fd);
    f->fd = -1;
    f->valid_to = f->read_to = HEAD_BYTES;
}

/* Is the open file the one with the name? Another process may have replaced or removed it. */
static bool file_is_current(const answer_file *f)
{
    struct stat named, opened;
    return f->fd >= 0 && fstat(f->fd, &opened) == 0 &&
           fstatat(f->directory, ANSWER_FILE_NAME, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

static bool file_lock(int fd)
{
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* A new file, or one of another format, becomes empty. */
static bool file_check_head(answer_file *f)
{
    char head[HEAD_BYTES];
    if (read_at(f->fd, head, sizeof head, 0) && memcmp(head, file_magic, sizeof head) == 0)
        return true;
    f->valid_to = f->read_to = HEAD_BYTES;
    return ftruncate(f->fd, 0) == 0 && write_at(f->fd, file_magic, sizeof file_magic, 0);
}

/* Opens and locks the file. False: the directory cannot be written. */
static bool file_enter(answer_file *f)
{
    enum { TRIES = 8 };
    for (int i = 0; i < TRIES; i++) {
        if (f->fd < 0)
            f->fd = openat(f->directory, ANSWER_FILE_NAME,
                           O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (f->fd < 0)
            return false;
        if (file_lock(f->fd) && file_is_current(f) && file_check_head(f))
            return true;
        file_forget(f);
    }
    return false;
}

static void file_leave(answer_file *f)
{
    if (f->fd >= 0)
        flock(f->fd, LOCK_UN);
}

/* The bytes of the file from `from` on. NULL: none, or out of memory. */
static char *file_load(const answer_file *f, uint64_t from, size_t *n)
{
    const uint64_t size = file_size(f->fd);
    *n = size > from ? (size_t)(size - from) : 0;
    char *bytes = *n > 0 ? mem_new(*n, 1) : NULL;
    if (bytes != NULL && !read_at(f->fd, bytes, *n, from)) {
        mem_free(bytes);
        bytes = NULL;
    }
    return bytes;
}

/* Calls fn, if not NULL, for the valid records of the binding. Returns the bytes up to the end of
 * the last complete record. */
static size_t records_walk(const char *bytes, size_t n, const disk_key *binding, answer_file_fn *fn,
                           void *with)
{
    size_t at = 0;
    answer_head head;
    while (n - at >= sizeof head) {
        memcpy(&head, bytes + at, sizeof head);
        const uint64_t size = record_size(head.bytes);
        if (head.magic != RECORD_MAGIC || size > n - at)
            break;
        const char *record = bytes + at + sizeof head;
        at += (size_t)size;
        if (fn != NULL && disk_key_equal(head.binding, *binding) &&
            head.check == record_check(head.binding, record, head.bytes))
            fn(with, (str){record, head.bytes});
    }
    return at;
}

/* Records after valid_to: of other processes, or the unfinished one of a killed process, which is
 * cut off. */
static bool file_repair(answer_file *f)
{
    size_t n;
    if (file_size(f->fd) == f->valid_to)
        return true;
    char *bytes = file_load(f, f->valid_to, &n);
    if (bytes == NULL)
        return false;
    const size_t whole = records_walk(bytes, n, &f->binding, NULL, NULL);
    mem_free(bytes);
    f->valid_to += whole;
    return whole == n || ftruncate(f->fd, (off_t)f->valid_to) == 0;
}

/* ---- the size limit ---- */

/* Where the newest records begin that have at most `most` bytes. */
static size_t newest_from(const char *bytes, size_t n, uint64_t most)
{
    size_t at = 0;
    answer_head head;
    while (n - at > most && n - at >= sizeof head) {
        memcpy(&head, bytes + at, sizeof head);
        const uint64_t size = record_size(head.bytes);
        if (size > n - at)
            return n;
        at += (size_t)size;
    }
    return at;
}

/* Writes the records to a new file and gives it the name. Returns it, locked; -1: failed. */
static int replacement_write(const answer_file *f, const char *bytes, size_t n)
{
    char name[40];
    uint64_t random;
    if (!os_random(&random, sizeof random))
        return -1;
    /* A name of temporary files of the disk cache: without a lock it is removed. */
    snprintf(name, sizeof name, "t-%016llx", (unsigned long long)random);
    const int fd =
        openat(f->directory, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    if (file_lock(fd) && write_at(fd, file_magic, sizeof file_magic, 0) &&
        write_at(fd, bytes, n, HEAD_BYTES) &&
        renameat(f->directory, name, f->directory, ANSWER_FILE_NAME) == 0)
        return fd;
    unlinkat(f->directory, name, 0);
    close(fd);
    return -1;
}

/* Replaces the file by one with the newest half. */
static bool file_halve(answer_file *f)
{
    size_t n;
    char *bytes = file_load(f, HEAD_BYTES, &n);
    if (bytes == NULL)
        return false;
    const size_t from = newest_from(bytes, n, f->cap / 2);
    const int fd = replacement_write(f, bytes + from, n - from);
    mem_free(bytes);
    if (fd < 0)
        return false;
    file_forget(f); /* a reader gets some records again */
    f->fd = fd;
    f->valid_to = HEAD_BYTES + n - from;
    return true;
}

static void file_append(answer_file *f, str records)
{
    if (!file_repair(f) || records.n > f->cap / 2)
        return;
    if (f->valid_to + records.n > f->cap && !file_halve(f))
        return;
    if (write_at(f->fd, records.p, records.n, f->valid_to))
        f->valid_to += records.n;
    else if (ftruncate(f->fd, (off_t)f->valid_to) != 0)
        file_forget(f); /* the next writer cuts it off */
}

/* ---- the writer thread ---- */

static void *writer_run(void *with)
{
    answer_file *f = with;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (f->pending.n == 0 && !f->stop)
            pthread_cond_wait(&f->changed, &f->lock);
        if (f->pending.n == 0)
            break;
        strbuf taken = f->pending;
        f->pending = (strbuf){0};
        pthread_mutex_unlock(&f->lock);
        pthread_mutex_lock(&f->files);
        if (file_enter(f)) {
            file_append(f, strbuf_view(&taken));
            file_leave(f);
        }
        pthread_mutex_unlock(&f->files);
        strbuf_fini(&taken);
        pthread_mutex_lock(&f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

/* ---- public ---- */

mote_status answer_file_open(answer_file **out, const char *directory, uint64_t cap,
                             disk_key binding, mote_error *err)
{
    *out = NULL;
    answer_file *f = mem_new(1, sizeof *f);
    if (f == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the disk cache");
    f->cap = cap;
    f->binding = binding;
    f->fd = -1;
    f->valid_to = f->read_to = HEAD_BYTES;
    f->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->directory < 0) {
        mem_free(f);
        return err_set(err, MOTE_E_IO, "cannot open %s: %s", directory, strerror(errno));
    }
    pthread_mutex_init(&f->files, NULL);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    if (pthread_create(&f->writer, NULL, writer_run, f) != 0) {
        close(f->directory);
        mem_free(f);
        return err_set(err, MOTE_E_MEMORY, "cannot start a thread");
    }
    *out = f;
    return MOTE_OK;
}

void answer_file_close(answer_file *f)
{
    if (f == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->lock);
    pthread_join(f->writer, NULL);
    file_forget(f);
    close(f->directory);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    pthread_mutex_destroy(&f->files);
    strbuf_fini(&f->pending);
    mem_free(f);
}

void answer_file_append(answer_file *f, str record)
{
    static const char zeros[8];
    if (record.n > MAX_PENDING)
        return;
    const answer_head head = {.magic = RECORD_MAGIC,
                              .bytes = (uint32_t)record.n,
                              .check = record_check(f->binding, record.p, record.n),
                              .binding = f->binding};
    const size_t size = (size_t)record_size(record.n);
    pthread_mutex_lock(&f->lock);
    if (f->pending.n + size <= MAX_PENDING && strbuf_reserve(&f->pending, size)) {
        strbuf_put(&f->pending, (str){(const char *)&head, sizeof head});
        strbuf_put(&f->pending, record);
        strbuf_put(&f->pending, (str){zeros, size - sizeof head - record.n});
        pthread_cond_signal(&f->changed);
    }
    f->pending.failed = false; /* the record is lost */
    pthread_mutex_unlock(&f->lock);
}

void answer_file_read(answer_file *f, answer_file_fn *fn, void *with)
{
    size_t n;
    pthread_mutex_lock(&f->files);
    const bool changed = !file_is_current(f) || file_size(f->fd) != f->read_to;
    if (changed && file_enter(f)) {
        char *bytes = file_load(f, f->read_to, &n);
        if (bytes != NULL)
            f->read_to += records_walk(bytes, n, &f->binding, fn, with);
        mem_free(bytes);
        file_leave(f);
    }
    pthread_mutex_unlock(&f->files);
}
