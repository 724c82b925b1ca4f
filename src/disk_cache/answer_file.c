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
    SEALED_MAGIC = 0x58534e41, /* ANSX */
    MAX_PENDING = 16 << 20     /* bytes that may wait for the writer thread */
};

static const char file_magic[HEAD_BYTES] = {'M', 'O', 'T', 'E', 'A', 'N', 'S', '\n'};

typedef struct answer_head {
    uint32_t magic, bytes; /* of the record without this head */
    uint64_t check;        /* XXH3-64 of binding and record; sealed: key_id of the cipher */
    disk_key binding;      /* sealed: zero */
} answer_head;

/* What comes after the head of a sealed record, before the rest of the record. */
typedef struct answer_seal {
    unsigned char salt[DISK_SALT_BYTES];
    unsigned char tag[DISK_TAG_BYTES];
    disk_key binding; /* sealed, as the record is */
} answer_seal;

struct answer_file {
    uint64_t cap;
    disk_key binding;
    const disk_cipher *cipher; /* NULL: none */
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

/* The bytes of a sealed record after its salt and tag, in place. False: they are not what was
 * sealed. */
static bool record_crypt(const disk_cipher *cipher, const answer_head *head, answer_seal *seal,
                         bool sealing)
{
    void *work = cipher->begin(cipher->with, seal->salt, sealing);
    const disk_piece p = {.with = head,
                          .with_bytes = sizeof *head,
                          .in = &seal->binding,
                          .out = &seal->binding,
                          .bytes = head->bytes - offsetof(answer_seal, binding),
                          .tag = seal->tag};
    const bool ok = work != NULL && cipher->piece(work, &p);
    cipher->end(work);
    return ok;
}

/* The record after its head, decrypted in place. False: it is damaged, or of another binding or
 * key. */
static bool record_open(const answer_file *f, const answer_head *head, char *bytes, str *out)
{
    if (f->cipher == NULL) {
        *out = (str){bytes, head->bytes};
        return head->magic == RECORD_MAGIC && disk_key_equal(head->binding, f->binding) &&
               head->check == record_check(head->binding, bytes, head->bytes);
    }
    answer_seal *seal = (answer_seal *)(void *)bytes; /* records are aligned to 8 bytes */
    if (head->magic != SEALED_MAGIC || head->check != f->cipher->key_id ||
        head->bytes < sizeof *seal || !record_crypt(f->cipher, head, seal, false))
        return false;
    *out = (str){bytes + sizeof *seal, head->bytes - sizeof *seal};
    return disk_key_equal(seal->binding, f->binding);
}

/* Calls fn, if not NULL, for the valid records of the binding and the key, which it decrypts.
 * Returns the bytes up to the end of the last complete record. */
static size_t records_walk(const answer_file *f, char *bytes, size_t n, answer_file_fn *fn,
                           void *with)
{
    size_t at = 0;
    answer_head head;
    str record;
    while (n - at >= sizeof head) {
        memcpy(&head, bytes + at, sizeof head);
        const uint64_t size = record_size(head.bytes);
        if ((head.magic != RECORD_MAGIC && head.magic != SEALED_MAGIC) || size > n - at)
            break;
        char *body = bytes + at + sizeof head;
        at += (size_t)size;
        if (fn != NULL && record_open(f, &head, body, &record))
            fn(with, record);
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
    const size_t whole = records_walk(f, bytes, n, NULL, NULL);
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
                             disk_key binding, const disk_cipher *cipher, mote_error *err)
{
    *out = NULL;
    answer_file *f = mem_new(1, sizeof *f);
    if (f == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the disk cache");
    f->cap = cap;
    f->binding = binding;
    f->cipher = cipher;
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

/* Appends head, bytes and padding. False: there is no room. */
static bool pending_add(strbuf *pending, const answer_head *head, const void *bytes)
{
    static const char zeros[8];
    const size_t size = (size_t)record_size(head->bytes);
    if (pending->n + size > MAX_PENDING || !strbuf_reserve(pending, size))
        return false;
    strbuf_put(pending, (str){(const char *)head, sizeof *head});
    strbuf_put(pending, (str){bytes, head->bytes});
    strbuf_put(pending, (str){zeros, size - sizeof *head - head->bytes});
    return true;
}

/* The sealed form of a record, to be freed. NULL: out of memory. */
static answer_seal *record_seal(const answer_file *f, str record, answer_head *head)
{
    answer_seal *seal = mem_new(1, sizeof *seal + record.n);
    *head = (answer_head){.magic = SEALED_MAGIC,
                          .bytes = (uint32_t)(sizeof *seal + record.n),
                          .check = f->cipher->key_id};
    if (seal == NULL)
        return NULL;
    seal->binding = f->binding;
    memcpy(seal + 1, record.p, record.n);
    if (os_random(seal->salt, sizeof seal->salt) && record_crypt(f->cipher, head, seal, true))
        return seal;
    mem_free(seal);
    return NULL;
}

void answer_file_append(answer_file *f, str record)
{
    if (record.n > MAX_PENDING)
        return;
    answer_head head = {.magic = RECORD_MAGIC, .bytes = (uint32_t)record.n, .binding = f->binding};
    answer_seal *sealed = NULL;
    if (f->cipher == NULL)
        head.check = record_check(f->binding, record.p, record.n);
    else if ((sealed = record_seal(f, record, &head)) == NULL)
        return;
    pthread_mutex_lock(&f->lock);
    if (pending_add(&f->pending, &head, sealed != NULL ? (const void *)sealed : record.p))
        pthread_cond_signal(&f->changed);
    f->pending.failed = false; /* else the record is lost */
    pthread_mutex_unlock(&f->lock);
    mem_free(sealed);
}

void answer_file_read(answer_file *f, answer_file_fn *fn, void *with)
{
    size_t n;
    pthread_mutex_lock(&f->files);
    const bool changed = !file_is_current(f) || file_size(f->fd) != f->read_to;
    if (changed && file_enter(f)) {
        char *bytes = file_load(f, f->read_to, &n);
        if (bytes != NULL)
            f->read_to += records_walk(f, bytes, n, fn, with);
        mem_free(bytes);
        file_leave(f);
    }
    pthread_mutex_unlock(&f->files);
}
