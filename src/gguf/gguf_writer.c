/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_writer.c - see gguf_writer.h.
 *
 * The journal is text: "mote-partial VERSION N", N bytes of sources, and lines "done I" with the
 * number of tensors that were on the disk. Another version may write other bytes, so it starts again. A line is appended after the data are synced, so it is true
 * also after a power failure. A line without its newline does not count.
 */
#include "gguf/gguf_writer.h"

#include "base/ckd.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/strmap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    VERSION = 3,
    ALIGNMENT = 32,
    PATH_BYTES = 1024,
    SYNC_BYTES = 16 << 20, /* data between two lines of the journal, at least */
    JOURNAL_MAX = 1 << 22
};

typedef struct writer_tensor {
    char *name;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS];
    quant_format format;
    uint64_t bytes;
    uint64_t offset; /* in the data section */
} writer_tensor;

struct gguf_writer {
    strbuf kv;
    uint64_t n_kv;
    writer_tensor *tensors;
    uint32_t n_tensors, tensor_room;
    uint64_t values;
    uint64_t data_bytes; /* of the data section, with padding */
    /* after begin */
    int fd, journal;
    char path[PATH_BYTES], partial[PATH_BYTES + 16], journal_path[PATH_BYTES + 32];
    uint64_t data_start;
    uint32_t current;
    uint64_t in_tensor; /* bytes of the current tensor so far */
    uint64_t synced;    /* bytes of the data section */
};

mote_status gguf_writer_new(gguf_writer **out, mote_error *err)
{
    *out = mem_new(1, sizeof **out);
    if (*out == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: GGUF writer");
    (*out)->fd = (*out)->journal = -1;
    return MOTE_OK;
}

static void writer_close(gguf_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    if (w->journal >= 0)
        close(w->journal);
    w->fd = w->journal = -1;
}

void gguf_writer_free(gguf_writer *w)
{
    if (w == NULL)
        return;
    writer_close(w);
    for (uint32_t i = 0; i < w->n_tensors; i++)
        mem_free(w->tensors[i].name);
    mem_free(w->tensors);
    strbuf_fini(&w->kv);
    mem_free(w);
}

/* ---- metadata ---- */

static void put_raw(strbuf *b, const void *bytes, size_t n)
{
    strbuf_put(b, (str){bytes, n});
}

static void put_u32(strbuf *b, uint32_t value)
{
    put_raw(b, &value, sizeof value);
}

static void put_u64(strbuf *b, uint64_t value)
{
    put_raw(b, &value, sizeof value);
}

static void put_str(strbuf *b, str text)
{
    put_u64(b, text.n);
    strbuf_put(b, text);
}

static void put_key(gguf_writer *w, str key, gguf_type type)
{
    put_str(&w->kv, key);
    put_u32(&w->kv, type);
    w->n_kv++;
}

static void put_array(gguf_writer *w, str key, gguf_type type, uint64_t n)
{
    put_key(w, key, GGUF_ARRAY);
    put_u32(&w->kv, type);
    put_u64(&w->kv, n);
}

void gguf_writer_u32(gguf_writer *w, const char *key, uint32_t value)
{
    put_key(w, str_of(key), GGUF_U32);
    put_u32(&w->kv, value);
}

void gguf_writer_i32(gguf_writer *w, const char *key, int32_t value)
{
    put_key(w, str_of(key), GGUF_I32);
    put_raw(&w->kv, &value, sizeof value);
}

void gguf_writer_f32(gguf_writer *w, const char *key, float value)
{
    put_key(w, str_of(key), GGUF_F32);
    put_raw(&w->kv, &value, sizeof value);
}

void gguf_writer_bool(gguf_writer *w, const char *key, bool value)
{
    put_key(w, str_of(key), GGUF_BOOL);
    strbuf_byte(&w->kv, value ? 1 : 0);
}

void gguf_writer_str(gguf_writer *w, const char *key, str value)
{
    put_key(w, str_of(key), GGUF_STRING);
    put_str(&w->kv, value);
}

void gguf_writer_array(gguf_writer *w, const char *key, gguf_type type, const void *elements,
                       uint64_t n)
{
    static const uint8_t bytes[GGUF_N_TYPES] = {
        [GGUF_U8] = 1,  [GGUF_I8] = 1,  [GGUF_U16] = 2, [GGUF_I16] = 2,
        [GGUF_U32] = 4, [GGUF_I32] = 4, [GGUF_F32] = 4, [GGUF_BOOL] = 1,
        [GGUF_U64] = 8, [GGUF_I64] = 8, [GGUF_F64] = 8};
    put_array(w, str_of(key), type, n);
    put_raw(&w->kv, elements, (size_t)n * bytes[type]);
}

void gguf_writer_strs(gguf_writer *w, const char *key, uint64_t n)
{
    put_array(w, str_of(key), GGUF_STRING, n);
}

void gguf_writer_item(gguf_writer *w, str value)
{
    put_str(&w->kv, value);
}

void gguf_writer_copy(gguf_writer *w, const gguf_kv *kv)
{
    if (kv->is_array)
        put_array(w, kv->key, kv->type, kv->count);
    else
        put_key(w, kv->key, kv->type);
    put_raw(&w->kv, kv->bytes, (size_t)kv->n_bytes);
}

/* ---- tensors ---- */

static mote_status tensor_size(writer_tensor *t, uint64_t *values, mote_error *err)
{
    uint64_t row, rows = 1;
    bool ok = t->n_dims >= 1 && t->n_dims <= GGUF_MAX_DIMS;
    for (uint32_t i = 1; ok && i < t->n_dims; i++)
        ok = t->dims[i] > 0 && ckd_mul_u64(rows, t->dims[i], &rows);
    ok = ok && t->dims[0] > 0 && ckd_mul_u64(rows, t->dims[0], values) && *values <= INT64_MAX / 8;
    if (!ok)
        return err_set(err, MOTE_E_ARG, "the shape of tensor '%.200s' is empty or overflows",
                       t->name);
    const quant_info *info = quant_get(t->format);
    if (!quant_row_bytes(t->format, t->dims[0], &row))
        return err_set(err, MOTE_E_ARG,
                       "tensor '%.200s' has rows of %llu values; %s needs a multiple of %u",
                       t->name, (unsigned long long)t->dims[0], info->name, info->block_values);
    t->bytes = row * rows;
    return MOTE_OK;
}

mote_status gguf_writer_tensor(gguf_writer *w, str name, quant_format format, uint32_t n_dims,
                               const uint64_t *dims, mote_error *err)
{
    if (name.n == 0 || name.n > GGUF_MAX_KEY || w->n_tensors == GGUF_MAX_TENSORS)
        return err_set(err, MOTE_E_ARG,
                       "tensor %u has a name of %zu bytes; 1 to %d, and at most %d tensors",
                       w->n_tensors, name.n, GGUF_MAX_KEY, GGUF_MAX_TENSORS);
    if (!mem_grow(&w->tensors, w->n_tensors, &w->tensor_room, sizeof *w->tensors))
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of tensors");
    writer_tensor *t = &w->tensors[w->n_tensors];
    *t = (writer_tensor){.n_dims = n_dims, .format = format, .offset = w->data_bytes};
    t->name = mem_new(name.n + 1, 1);
    if (t->name == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: name of a tensor");
    memcpy(t->name, name.p, name.n);
    for (uint32_t i = 0; i < n_dims && i < GGUF_MAX_DIMS; i++)
        t->dims[i] = dims[i];
    w->n_tensors++; /* from here free releases the name */
    uint64_t values = 0, padded = 0;
    TRY(tensor_size(t, &values, err));
    if (!ckd_round_up_u64(t->bytes, ALIGNMENT, &padded) ||
        !ckd_add_u64(w->data_bytes, padded, &w->data_bytes) || w->data_bytes > INT64_MAX / 2)
        return err_set(err, MOTE_E_ARG, "the file would be larger than 2^62 bytes");
    w->values += values;
    return MOTE_OK;
}

uint32_t gguf_writer_n_tensors(const gguf_writer *w)
{
    return w->n_tensors;
}

uint64_t gguf_writer_tensor_bytes(const gguf_writer *w, uint32_t i)
{
    return w->tensors[i].bytes;
}

uint64_t gguf_writer_values(const gguf_writer *w)
{
    return w->values;
}

uint64_t gguf_writer_data_bytes(const gguf_writer *w)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < w->n_tensors; i++)
        bytes += w->tensors[i].bytes;
    return bytes;
}

static mote_status writer_check_names(const gguf_writer *w, mote_error *err)
{
    strmap names = {0};
    mote_status status = strmap_init(&names, w->n_tensors, err);
    for (uint32_t i = 0; i < w->n_tensors && status == MOTE_OK; i++) {
        bool existing = false;
        status = strmap_put(&names, str_of(w->tensors[i].name), i, &existing, err);
        if (status == MOTE_OK && existing)
            status = err_set(err, MOTE_E_ARG, "tensor '%.200s' would be written twice",
                             w->tensors[i].name);
    }
    strmap_fini(&names);
    return status;
}

static mote_status writer_header(const gguf_writer *w, strbuf *out, mote_error *err)
{
    strbuf_text(out, "GGUF");
    put_u32(out, VERSION);
    put_u64(out, w->n_tensors);
    put_u64(out, w->n_kv);
    strbuf_put(out, strbuf_view(&w->kv));
    for (uint32_t i = 0; i < w->n_tensors; i++) {
        const writer_tensor *t = &w->tensors[i];
        put_str(out, str_of(t->name));
        put_u32(out, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++)
            put_u64(out, t->dims[d]);
        put_u32(out, quant_get(t->format)->gguf_id);
        put_u64(out, t->offset);
    }
    while (out->n % ALIGNMENT != 0 && !out->failed)
        strbuf_byte(out, 0);
    if (w->kv.failed)
        return strbuf_check(&w->kv, err);
    return strbuf_check(out, err);
}

/* ---- the partial file ---- */

static mote_status writer_failed(const gguf_writer *w, const char *what, mote_error *err)
{
    const int why = errno;
    return err_set(err, MOTE_E_IO,
                   why == ENOSPC ? "cannot %s %.800s: %s; free space on that disk and run the same "
                                   "command again: it continues"
                                 : "cannot %s %.800s: %s",
                   what, w->partial, strerror(why));
}

static mote_status writer_set_paths(gguf_writer *w, const char *path, mote_error *err)
{
    if ((size_t)snprintf(w->path, sizeof w->path, "%s", path) >= sizeof w->path)
        return err_set(err, MOTE_E_ARG, "path is longer than %zu bytes: %.60s...",
                       sizeof w->path - 1, path);
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) /* a rename would replace a device */
        return err_set(err, MOTE_E_IO, "%.800s exists and is not a regular file", path);
    snprintf(w->partial, sizeof w->partial, "%s.partial", w->path);
    snprintf(w->journal_path, sizeof w->journal_path, "%s.journal", w->partial);
    return MOTE_OK;
}

static bool is_file(const char *path, const struct stat *file)
{
    struct stat info;
    return stat(path, &info) == 0 && info.st_dev == file->st_dev && info.st_ino == file->st_ino;
}

mote_status gguf_writer_check_input(const char *path, const char *input, mote_error *err)
{
    static const char *const endings[] = {"", ".partial", ".partial.journal"};
    struct stat info;
    for (size_t i = 0; stat(input, &info) == 0 && i < sizeof endings / sizeof *endings; i++) {
        char name[PATH_BYTES + 32];
        snprintf(name, sizeof name, "%.*s%s", PATH_BYTES - 1, path, endings[i]);
        if (is_file(name, &info))
            return err_set(err, MOTE_E_ARG,
                           "%.400s would replace the source %.400s; give another output", name,
                           input);
    }
    return MOTE_OK;
}

/* Opens or creates a file in *fd. In a directory that others can write, a symbolic link could name
 * any file of the user. */
static mote_status writer_open_file(int *fd, const char *path, int flags, mote_error *err)
{
    struct stat info = {0};
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0666);
    const int why = errno;
    if (*fd < 0 && lstat(path, &info) != 0)
        return err_set(err, MOTE_E_IO, "cannot create %.800s: %s", path, strerror(why));
    if (*fd >= 0 && fstat(*fd, &info) == 0 && S_ISREG(info.st_mode))
        return MOTE_OK;
    if (*fd < 0 && S_ISREG(info.st_mode))
        return err_set(err, MOTE_E_IO, "cannot open %.800s: %s", path, strerror(why));
    return err_set(err, MOTE_E_IO, "%.800s exists and is not a regular file; remove it", path);
}

static mote_status writer_open(gguf_writer *w, mote_error *err)
{
    struct stat info;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    TRY(writer_open_file(&w->fd, w->partial, 0, err));
    const bool locked = fcntl(w->fd, F_SETLK, &lock) != 0 && (errno == EACCES || errno == EAGAIN);
    /* After its commit the other process has no lock, but the file has its final name. */
    if (locked || fstat(w->fd, &info) != 0 || !is_file(w->partial, &info)) {
        close(w->fd);
        w->fd = -1; /* gguf_writer_discard must not remove the file of the other process */
        return err_set(err, MOTE_E_IO, "another process is writing %.800s", w->partial);
    }
    return writer_open_file(&w->journal, w->journal_path, O_APPEND, err);
}

/* Reads the file from its start; false: not exactly these bytes. */
static bool file_starts_with(int fd, str wanted)
{
    char block[4096];
    for (size_t at = 0; at < wanted.n;) {
        const size_t room = wanted.n - at < sizeof block ? wanted.n - at : sizeof block;
        const ssize_t n = pread(fd, block, room, (off_t)at);
        if (n <= 0 || memcmp(block, wanted.p + at, (size_t)n) != 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* The number in the last whole line "done N"; 0: none. */
static uint32_t journal_done(str lines)
{
    uint32_t done = 0;
    while (lines.n > 0) {
        const char *end = memchr(lines.p, '\n', lines.n);
        if (end == NULL)
            break;
        if (lines.n > 5 && memcmp(lines.p, "done ", 5) == 0)
            done = (uint32_t)strtoul(lines.p + 5, NULL, 10);
        lines.n -= (size_t)(end + 1 - lines.p);
        lines.p = end + 1;
    }
    return done;
}

static uint32_t journal_read(const gguf_writer *w, str first)
{
    struct stat info;
    if (fstat(w->journal, &info) != 0 || info.st_size <= (off_t)first.n ||
        info.st_size > JOURNAL_MAX || !file_starts_with(w->journal, first))
        return 0;
    const size_t n = (size_t)info.st_size - first.n;
    char *lines = mem_new(n + 1, 1);
    uint32_t done = 0;
    if (lines != NULL && pread(w->journal, lines, n, (off_t)first.n) == (ssize_t)n)
        done = journal_done((str){lines, n});
    mem_free(lines);
    return done;
}

/* The end of tensor i - 1 with its padding, in the data section. */
static uint64_t data_before(const gguf_writer *w, uint32_t i)
{
    return i < w->n_tensors ? w->tensors[i].offset : w->data_bytes;
}

static bool writer_continue(gguf_writer *w, str header, str journal, uint32_t *done)
{
    struct stat info;
    const uint32_t n = journal_read(w, journal);
    if (n == 0 || n > w->n_tensors || fstat(w->fd, &info) != 0)
        return false;
    const uint64_t end = w->data_start + data_before(w, n);
    if ((uint64_t)info.st_size < end || !file_starts_with(w->fd, header) ||
        ftruncate(w->fd, (off_t)end) != 0 || lseek(w->fd, (off_t)end, SEEK_SET) < 0)
        return false;
    *done = w->current = n;
    w->synced = data_before(w, n);
    return true;
}

static mote_status writer_start(gguf_writer *w, str header, str journal, mote_error *err)
{
    /* The old journal must be gone from the disk before data that it does not describe. */
    if (ftruncate(w->journal, 0) != 0 || !os_sync(w->journal) || ftruncate(w->fd, 0) != 0 ||
        lseek(w->fd, 0, SEEK_SET) < 0 || !os_write_all(w->fd, header.p, header.n) ||
        !os_write_all(w->journal, journal.p, journal.n))
        return writer_failed(w, "write", err);
    return MOTE_OK;
}

mote_status gguf_writer_begin(gguf_writer *w, const char *path, str sources, uint32_t *done,
                              mote_error *err)
{
    strbuf header = {0}, journal = {0};
    char first[64];
    *done = 0;
    snprintf(first, sizeof first, "mote-partial %s %zu\n", MOTE_VERSION, sources.n);
    strbuf_text(&journal, first);
    strbuf_put(&journal, sources);
    strbuf_byte(&journal, '\n');
    mote_status status = writer_set_paths(w, path, err);
    if (status == MOTE_OK)
        status = writer_check_names(w, err);
    if (status == MOTE_OK)
        status = writer_header(w, &header, err);
    if (status == MOTE_OK)
        status = strbuf_check(&journal, err);
    w->data_start = header.n;
    if (status == MOTE_OK)
        status = writer_open(w, err);
    if (status == MOTE_OK && !writer_continue(w, strbuf_view(&header), strbuf_view(&journal), done))
        status = writer_start(w, strbuf_view(&header), strbuf_view(&journal), err);
    strbuf_fini(&header);
    strbuf_fini(&journal);
    return status;
}

/* ---- data ---- */

static mote_status writer_sync(gguf_writer *w, mote_error *err)
{
    char line[32];
    const int n = snprintf(line, sizeof line, "done %u\n", w->current);
    if (!os_sync(w->fd) || !os_write_all(w->journal, line, (size_t)n))
        return writer_failed(w, "write", err);
    w->synced = data_before(w, w->current);
    return MOTE_OK;
}

static mote_status writer_end_tensor(gguf_writer *w, mote_error *err)
{
    static const char zeros[ALIGNMENT];
    const uint64_t end = w->tensors[w->current].offset + w->in_tensor;
    w->current++;
    w->in_tensor = 0;
    if (!os_write_all(w->fd, zeros, (size_t)(data_before(w, w->current) - end)))
        return writer_failed(w, "write", err);
    const bool due = data_before(w, w->current) - w->synced >= SYNC_BYTES;
    return due || w->current == w->n_tensors ? writer_sync(w, err) : MOTE_OK;
}

mote_status gguf_writer_data(gguf_writer *w, const void *bytes, size_t n, mote_error *err)
{
    if (w->current == w->n_tensors || n > w->tensors[w->current].bytes - w->in_tensor)
        return err_set(err, MOTE_E_ARG, "more data than the tensors of %.800s have", w->path);
    if (!os_write_all(w->fd, bytes, n))
        return writer_failed(w, "write", err);
    w->in_tensor += n;
    return w->in_tensor == w->tensors[w->current].bytes ? writer_end_tensor(w, err) : MOTE_OK;
}

mote_status gguf_writer_commit(gguf_writer *w, mote_error *err)
{
    if (w->current != w->n_tensors)
        return err_set(err, MOTE_E_ARG, "tensor '%.200s' of %.800s is not complete",
                       w->tensors[w->current].name, w->path);
    if (!os_sync(w->fd) || rename(w->partial, w->path) != 0)
        return writer_failed(w, "complete", err);
    unlink(w->journal_path);
    writer_close(w);
    if (!os_sync_directory_of(w->path))
        return err_set(err, MOTE_E_IO, "%.800s was written, but fsync of its directory failed",
                       w->path);
    return MOTE_OK;
}

void gguf_writer_discard(gguf_writer *w)
{
    if (w->fd < 0)
        return;
    unlink(w->journal_path);
    unlink(w->partial);
    writer_close(w);
}
