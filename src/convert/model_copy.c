/* SPDX-License-Identifier: Apache-2.0 */
/* model_copy.c - see model_copy.h. */
#include "convert/model_copy.h"

#include "base/mem.h"
#include "base/os.h"
#include "convert/tensor_stream.h"
#include "gguf/gguf_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* Where the copy has a tensor. */
typedef struct copy_place {
    uint64_t type, data; /* offsets in the file */
} copy_place;

struct model_copy {
    const gguf *gguf;
    copy_place *places; /* of each tensor of gguf */
    char *path;
    int fd;
    bool exists;
    bool (*progress)(void *ctx, uint64_t done, uint64_t all);
    void *ctx;
};

/* ---- making the copy ---- */

static void copy_describe(void *ctx, uint32_t i, stream_tensor *out)
{
    static const char name[] = "copy";
    const gguf_tensor *t = gguf_tensor_at(((const model_copy *)ctx)->gguf, i);
    const uint64_t rows = t->dims[1] * t->dims[2] * t->dims[3];
    *out = (stream_tensor){.name = name, .rows = rows, .row_bytes = t->bytes / rows};
}

static mote_status copy_fill(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *out,
                             mote_error *err)
{
    (void)err;
    const gguf_tensor *t = gguf_tensor_at(((const model_copy *)ctx)->gguf, i);
    const uint64_t row_bytes = t->bytes / (t->dims[1] * t->dims[2] * t->dims[3]);
    memcpy(out, t->data + first * row_bytes, (size_t)(n * row_bytes));
    return MOTE_OK;
}

static bool copy_progress(void *ctx, uint32_t tensor, const char *name, uint64_t done, uint64_t all)
{
    (void)tensor, (void)name;
    const model_copy *c = ctx;
    return c->progress == NULL || c->progress(c->ctx, done, all);
}

static mote_status copy_declare(const model_copy *c, gguf_writer *w, mote_error *err)
{
    for (uint64_t i = 0; i < gguf_n_kv(c->gguf); i++) {
        const gguf_kv *kv = gguf_kv_at(c->gguf, i);
        const bool split = kv->key.n > 6 && memcmp(kv->key.p, "split.", 6) == 0;
        if (!split && !str_is(kv->key, "general.alignment"))
            gguf_writer_copy(w, kv);
    }
    for (uint64_t i = 0; i < gguf_n_tensors(c->gguf); i++) {
        const gguf_tensor *t = gguf_tensor_at(c->gguf, i);
        TRY(gguf_writer_tensor(w, t->name, t->format->format, t->n_dims, t->dims, err));
    }
    return MOTE_OK;
}

static mote_status copy_write_all(model_copy *c, gguf_writer *w, mote_error *err)
{
    const stream_source source = {.ctx = c,
                                  .n = (uint32_t)gguf_n_tensors(c->gguf),
                                  .describe = copy_describe,
                                  .fill = copy_fill};
    char sources[64]; /* never those of another run: a partial copy is not continued */
    uint32_t done = 0;
    TRY(copy_declare(c, w, err));
    snprintf(sources, sizeof sources, "%d %.9f", (int)getpid(), os_now());
    TRY(gguf_writer_begin(w, c->path, str_of(sources), &done, err));
    TRY(tensor_stream_write(w, &source, done, copy_progress, c, err));
    TRY(gguf_writer_commit(w, err));
    c->exists = true;
    return MOTE_OK;
}

/* The header has, for each tensor, its name, the number of dimensions, these and the type. */
static mote_status copy_find_places(model_copy *c, mote_error *err)
{
    gguf_files files = {0};
    TRY(gguf_files_open(&files, c->path, err));
    const uint64_t n = gguf_n_tensors(files.gguf);
    c->places = mem_new((size_t)n, sizeof *c->places);
    for (uint64_t i = 0; i < n && c->places != NULL; i++) { /* in the order of the model */
        const gguf_tensor *t = gguf_tensor_at(files.gguf, i);
        const uint64_t name = (uint64_t)((const unsigned char *)t->name.p - files.maps[0].data);
        c->places[i] =
            (copy_place){.type = name + t->name.n + sizeof(uint32_t) + t->n_dims * sizeof(uint64_t),
                         .data = t->offset};
    }
    gguf_files_close(&files);
    return c->places != NULL ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "out of memory: %s", c->path);
}

/* The lock of a copy that is in use. flock, because the copy is also opened and closed by those
 * that measure it. */
static mote_status copy_lock(const model_copy *c, int fd, mote_error *err)
{
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return err_set(err, MOTE_E_IO, "another process is measuring with %.200s; wait for it",
                       c->path);
    return MOTE_OK;
}

/* A copy that a killed process left has no lock and is replaced. */
static mote_status copy_check_unused(const model_copy *c, mote_error *err)
{
    const int fd = open(c->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return MOTE_OK;
    const mote_status status = copy_lock(c, fd, err);
    close(fd);
    return status;
}

static mote_status copy_make(model_copy *c, mote_error *err)
{
    gguf_writer *w = NULL;
    TRY(copy_check_unused(c, err));
    TRY(gguf_writer_new(&w, err));
    const mote_status status = copy_write_all(c, w, err);
    if (status != MOTE_OK)
        gguf_writer_discard(w); /* a measurement that begins again also copies again */
    gguf_writer_free(w);
    if (status != MOTE_OK)
        return status;
    TRY(copy_find_places(c, err));
    c->fd = open(c->path, O_WRONLY | O_CLOEXEC);
    if (c->fd < 0)
        return err_set(err, MOTE_E_IO, "cannot open %.200s: %s", c->path, strerror(errno));
    return copy_lock(c, c->fd, err);
}

mote_status model_copy_new(model_copy **out, const gguf *g, const char *path,
                           bool (*progress)(void *ctx, uint64_t done, uint64_t all), void *ctx,
                           mote_error *err)
{
    *out = NULL;
    model_copy *c = mem_new(1, sizeof *c);
    const size_t n = strlen(path) + 1;
    if (c != NULL)
        c->path = mem_new(n, 1);
    if (c == NULL || c->path == NULL) {
        mem_free(c);
        return err_set(err, MOTE_E_MEMORY, "out of memory: copy of the model");
    }
    memcpy(c->path, path, n);
    c->gguf = g;
    c->fd = -1;
    c->progress = progress;
    c->ctx = ctx;
    const mote_status status = copy_make(c, err);
    if (status != MOTE_OK) {
        model_copy_free(c);
        return status;
    }
    *out = c;
    return MOTE_OK;
}

void model_copy_free(model_copy *c)
{
    if (c == NULL)
        return;
    if (c->fd >= 0)
        close(c->fd);
    if (c->exists)
        unlink(c->path);
    mem_free(c->places);
    mem_free(c->path);
    mem_free(c);
}

/* ---- changes ---- */

static mote_status copy_put(model_copy *c, uint64_t at, const void *bytes, size_t n,
                            mote_error *err)
{
    const unsigned char *from = bytes;
    while (n > 0) {
        const ssize_t written = pwrite(c->fd, from, n, (off_t)at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return err_set(err, MOTE_E_IO, "cannot write %.200s: %s", c->path, strerror(errno));
        from += written;
        at += (uint64_t)written;
        n -= (size_t)written;
    }
    return MOTE_OK;
}

static const copy_place *copy_place_of(const model_copy *c, const gguf_tensor *t)
{
    return &c->places[t - gguf_tensor_at(c->gguf, 0)];
}

mote_status model_copy_set_format(model_copy *c, const gguf_tensor *t, quant_format format,
                                  mote_error *err)
{
    const uint32_t id = quant_get(format)->gguf_id;
    return copy_put(c, copy_place_of(c, t)->type, &id, sizeof id, err);
}

mote_status model_copy_write(model_copy *c, const gguf_tensor *t, uint64_t at, const void *bytes,
                             size_t n, mote_error *err)
{
    return copy_put(c, copy_place_of(c, t)->data + at, bytes, n, err);
}

mote_status model_copy_restore(model_copy *c, const gguf_tensor *t, mote_error *err)
{
    TRY(copy_put(c, copy_place_of(c, t)->data, t->data, (size_t)t->bytes, err));
    return model_copy_set_format(c, t, t->format->format, err);
}
