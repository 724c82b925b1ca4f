/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - see checkpoint.h. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "convert/checkpoint.h"

#include "base/mem.h"
#include "base/os.h"
#include "base/strmap.h"
#include "gguf/gguf_writer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MAX_FILE_BYTES = 256 << 20, /* of a text file; tokenizer.json has about 20 MB */
    MAX_VALUES = 1 << 21,
    OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK /* a pipe would wait for its other end */
};

typedef struct shard {
    char name[SAFETENSORS_MAX_NAME + 1];
    int fd;
    uint64_t bytes;
    int64_t modified;
    safetensors *tensors;
} shard;

struct checkpoint {
    char directory[CHECKPOINT_PATH_BYTES];
    json_doc *config;
    shard *shards;
    uint32_t n_shards, shard_room;
    checkpoint_tensor *tensors;
    uint32_t n_tensors;
};

/* ---- text files ---- */

static mote_status checkpoint_path(const checkpoint *c, const char *name,
                                   char out[2 * CHECKPOINT_PATH_BYTES], mote_error *err)
{
    const int n = snprintf(out, 2 * CHECKPOINT_PATH_BYTES, "%s/%s", c->directory, name);
    return n < 2 * CHECKPOINT_PATH_BYTES
               ? MOTE_OK
               : err_set(err, MOTE_E_ARG, "path is too long: %.60s", name);
}

static mote_status file_read(int fd, const char *path, char **out, size_t *bytes, mote_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size > MAX_FILE_BYTES)
        return err_set(err, MOTE_E_FORMAT, "%.800s is not a file of at most 256 MB", path);
    *out = mem_new((size_t)info.st_size + 1, 1);
    if (*out == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %.800s", path);
    size_t n = 0;
    while (n < (size_t)info.st_size) {
        const ssize_t got = pread(fd, *out + n, (size_t)info.st_size - n, (off_t)n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            mem_free(*out);
            *out = NULL;
            return err_set(err, MOTE_E_IO, "cannot read %.800s: %s", path,
                           got < 0 ? strerror(errno) : "it became shorter");
        }
        n += (size_t)got;
    }
    *bytes = n;
    return MOTE_OK;
}

mote_status checkpoint_file(const checkpoint *c, const char *name, char **out, size_t *bytes,
                            mote_error *err)
{
    char path[2 * CHECKPOINT_PATH_BYTES];
    *out = NULL;
    *bytes = 0;
    TRY(checkpoint_path(c, name, path, err));
    const int fd = open(path, OPEN_FLAGS);
    if (fd < 0 && errno == ENOENT)
        return MOTE_OK;
    if (fd < 0)
        return err_set(err, MOTE_E_IO, "cannot open %.800s: %s", path, strerror(errno));
    const mote_status status = file_read(fd, path, out, bytes, err);
    close(fd);
    return status;
}

mote_status checkpoint_json(const checkpoint *c, const char *name, json_doc **out, mote_error *err)
{
    char *text;
    size_t n;
    *out = NULL;
    TRY(checkpoint_file(c, name, &text, &n, err));
    if (text == NULL)
        return MOTE_OK;
    const mote_status status = json_doc_read_large(out, (str){text, n}, MAX_VALUES, err);
    mem_free(text);
    if (status != MOTE_OK)
        err_prefix(err, name);
    return status;
}

/* ---- names of the Safetensors files ---- */

/* The index is untrusted: a name must be a file of the directory. */
static mote_status shards_add(checkpoint *c, str name, bool indexed, mote_error *err)
{
    static const char suffix[] = ".safetensors";
    const size_t n = sizeof suffix - 1;
    if (name.n <= n || name.n > SAFETENSORS_MAX_NAME || name.p[0] == '.' ||
        memcmp(name.p + name.n - n, suffix, n) != 0 || !str_has_only(name, "._-"))
        return err_set(err, MOTE_E_FORMAT,
                       "%s the file '%.*s'; expected a name of letters, digits and ._- that ends "
                       "in .safetensors",
                       indexed ? "model.safetensors.index.json names" : "the directory has",
                       STR_ARG(name));
    for (uint32_t i = 0; i < c->n_shards; i++)
        if (str_is(name, c->shards[i].name))
            return MOTE_OK;
    if (c->n_shards == CHECKPOINT_MAX_FILES)
        return err_set(err, MOTE_E_UNSUPPORTED, "more than %d Safetensors files",
                       CHECKPOINT_MAX_FILES);
    if (!mem_grow(&c->shards, c->n_shards, &c->shard_room, sizeof *c->shards))
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of files");
    shard *s = &c->shards[c->n_shards++];
    *s = (shard){.fd = -1};
    memcpy(s->name, name.p, name.n);
    return MOTE_OK;
}

static mote_status shards_from_index(checkpoint *c, const json_node *index, mote_error *err)
{
    const json_node *map = json_node_get(index, "weight_map");
    if (!json_node_is(map, JSON_IS_OBJECT))
        return err_set(err, MOTE_E_FORMAT, "model.safetensors.index.json has no weight_map");
    for (const json_node *f = json_node_first(map); f != NULL; f = json_node_next(f))
        TRY(shards_add(c, json_node_text(f), true, err));
    return MOTE_OK;
}

static mote_status shards_from_directory(checkpoint *c, mote_error *err)
{
    DIR *d = opendir(c->directory);
    if (d == NULL)
        return err_set(err, MOTE_E_IO, "cannot open %.800s: %s", c->directory, strerror(errno));
    mote_status status = MOTE_OK;
    for (const struct dirent *e = readdir(d); e != NULL && status == MOTE_OK; e = readdir(d)) {
        const str name = str_of(e->d_name);
        const size_t n = sizeof ".safetensors" - 1;
        if (name.n > n && strncmp(name.p, "model", 5) == 0 &&
            strcmp(name.p + name.n - n, ".safetensors") == 0)
            status = shards_add(c, name, false, err);
    }
    closedir(d);
    return status;
}

static int shard_by_name(const void *a, const void *b)
{
    return strcmp(((const shard *)a)->name, ((const shard *)b)->name);
}

/* ---- opening ---- */

static mote_status shard_read(shard *s, mote_error *err)
{
    unsigned char first[8];
    uint64_t n = 0;
    if (s->bytes < sizeof first || pread(s->fd, first, sizeof first, 0) != sizeof first)
        return err_set(err, MOTE_E_FORMAT,
                       "the file has %llu bytes; it is incomplete, download it again",
                       (unsigned long long)s->bytes);
    TRY(safetensors_header_bytes(first, s->bytes, &n, err));
    unsigned char *header = mem_new((size_t)n, 1);
    if (header == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: header of %s", s->name);
    mote_status status = MOTE_OK;
    if (pread(s->fd, header, (size_t)n, 0) != (ssize_t)n)
        status =
            err_set(err, MOTE_E_IO, "cannot read its header of %llu bytes", (unsigned long long)n);
    if (status == MOTE_OK)
        status = safetensors_read(&s->tensors, header, n, s->bytes, err);
    mem_free(header);
    return status;
}

static mote_status shard_open(checkpoint *c, shard *s, mote_error *err)
{
    char path[2 * CHECKPOINT_PATH_BYTES];
    struct stat info;
    TRY(checkpoint_path(c, s->name, path, err));
    s->fd = open(path, OPEN_FLAGS);
    if (s->fd < 0 || fstat(s->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return err_set(err, MOTE_E_IO, "cannot open %.800s: %s; download all files of the model",
                       path, s->fd < 0 ? strerror(errno) : "not a file");
    s->bytes = (uint64_t)info.st_size;
    s->modified = os_modified_ns(&info);
    const mote_status status = shard_read(s, err);
    if (status != MOTE_OK && status != MOTE_E_MEMORY)
        err_prefix(err, s->name);
    return status;
}

static mote_status checkpoint_list(checkpoint *c, mote_error *err)
{
    uint32_t n = 0;
    strmap names = {0};
    for (uint32_t i = 0; i < c->n_shards; i++)
        n += safetensors_count(c->shards[i].tensors);
    c->tensors = mem_new(n, sizeof *c->tensors);
    if (c->tensors == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u tensors", n);
    mote_status status = strmap_init(&names, n, err);
    for (uint32_t i = 0; i < c->n_shards && status == MOTE_OK; i++)
        for (uint32_t k = 0; k < safetensors_count(c->shards[i].tensors); k++) {
            bool existing = false;
            const safetensor *t = safetensors_at(c->shards[i].tensors, k);
            c->tensors[c->n_tensors++] = (checkpoint_tensor){.tensor = t, .file = i};
            if (status == MOTE_OK)
                status = strmap_put(&names, t->name, i, &existing, err);
            if (existing)
                status = err_set(err, MOTE_E_FORMAT,
                                 "tensor '%.*s' is in more than one file, also in %s",
                                 STR_ARG(t->name), c->shards[i].name);
        }
    strmap_fini(&names);
    return status;
}

static mote_status checkpoint_check_index(const checkpoint *c, const json_node *index,
                                          mote_error *err)
{
    const json_node *map = json_node_get(index, "weight_map");
    strmap names = {0};
    mote_status status = strmap_init(&names, c->n_tensors, err);
    for (uint32_t i = 0; i < c->n_tensors && status == MOTE_OK; i++)
        status = strmap_put(&names, c->tensors[i].tensor->name, i, NULL, err);
    for (const json_node *f = json_node_first(map); f != NULL && status == MOTE_OK;
         f = json_node_next(f)) {
        uint32_t i;
        if (!strmap_get(&names, json_node_name(f), &i))
            status = err_set(err, MOTE_E_FORMAT,
                             "tensor '%.*s' is missing in %.*s, which the index names; download "
                             "the file again",
                             STR_ARG(json_node_name(f)), STR_ARG(json_node_text(f)));
    }
    strmap_fini(&names);
    return status;
}

static mote_status checkpoint_open_shards(checkpoint *c, const json_node *index, mote_error *err)
{
    if (index != NULL)
        TRY(shards_from_index(c, index, err));
    else
        TRY(shards_from_directory(c, err));
    if (c->n_shards == 0)
        return err_set(err, MOTE_E_FORMAT,
                       "%.800s has no model*.safetensors; mote convert reads Safetensors "
                       "directories and GGUF files",
                       c->directory);
    qsort(c->shards, c->n_shards, sizeof *c->shards, shard_by_name);
    for (uint32_t i = 0; i < c->n_shards; i++)
        TRY(shard_open(c, &c->shards[i], err));
    TRY(checkpoint_list(c, err));
    return index != NULL ? checkpoint_check_index(c, index, err) : MOTE_OK;
}

static mote_status checkpoint_open_all(checkpoint *c, const char *directory, mote_error *err)
{
    if ((size_t)snprintf(c->directory, sizeof c->directory, "%s", directory) >= sizeof c->directory)
        return err_set(err, MOTE_E_ARG, "path is too long: %.60s...", directory);
    for (size_t n = strlen(c->directory); n > 1 && c->directory[n - 1] == '/'; n--)
        c->directory[n - 1] = '\0';
    TRY(checkpoint_json(c, "config.json", &c->config, err));
    if (c->config == NULL)
        return err_set(err, MOTE_E_FORMAT,
                       "%.800s has no config.json; download all files of the "
                       "model, not the weights alone",
                       c->directory);
    json_doc *index;
    TRY(checkpoint_json(c, "model.safetensors.index.json", &index, err));
    const mote_status status =
        checkpoint_open_shards(c, index != NULL ? json_doc_root(index) : NULL, err);
    json_doc_free(index);
    return status;
}

mote_status checkpoint_open(checkpoint **out, const char *directory, mote_error *err)
{
    *out = NULL;
    checkpoint *c = mem_new(1, sizeof *c);
    if (c == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: checkpoint");
    const mote_status status = checkpoint_open_all(c, directory, err);
    if (status != MOTE_OK) {
        checkpoint_close(c);
        return status;
    }
    *out = c;
    return MOTE_OK;
}

void checkpoint_close(checkpoint *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->n_shards; i++) {
        safetensors_free(c->shards[i].tensors);
        if (c->shards[i].fd >= 0)
            close(c->shards[i].fd);
    }
    mem_free(c->shards);
    mem_free(c->tensors);
    json_doc_free(c->config);
    mem_free(c);
}

/* ---- access ---- */

const char *checkpoint_directory(const checkpoint *c)
{
    return c->directory;
}

void checkpoint_real_name(const checkpoint *c, char out[CHECKPOINT_PATH_BYTES])
{
    char real[PATH_MAX];
    const char *path = realpath(c->directory, real) != NULL ? real : c->directory;
    const char *slash = strrchr(path, '/');
    snprintf(out, CHECKPOINT_PATH_BYTES, "%.1023s", slash != NULL ? slash + 1 : path);
}

const json_node *checkpoint_config(const checkpoint *c)
{
    return json_doc_root(c->config);
}

uint32_t checkpoint_count(const checkpoint *c)
{
    return c->n_tensors;
}

checkpoint_tensor *checkpoint_at(checkpoint *c, uint32_t i)
{
    return &c->tensors[i];
}

mote_status checkpoint_read(const checkpoint *c, const checkpoint_tensor *t, uint64_t offset,
                            void *out, size_t bytes, mote_error *err)
{
    const shard *s = &c->shards[t->file];
    size_t n = 0;
    while (n < bytes) {
        const ssize_t got =
            pread(s->fd, (char *)out + n, bytes - n, (off_t)(t->tensor->offset + offset + n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_set(err, MOTE_E_IO, "cannot read tensor '%.*s' of %s: %s",
                           STR_ARG(t->tensor->name), s->name,
                           got < 0 ? strerror(errno) : "the file became shorter");
        n += (size_t)got;
    }
    return MOTE_OK;
}

mote_status checkpoint_check_unchanged(const checkpoint *c, mote_error *err)
{
    for (uint32_t i = 0; i < c->n_shards; i++) {
        const shard *s = &c->shards[i];
        struct stat info;
        if (fstat(s->fd, &info) != 0 || (uint64_t)info.st_size != s->bytes ||
            os_modified_ns(&info) != s->modified)
            return err_set(err, MOTE_E_IO,
                           "%s has changed while it was read; run the command again", s->name);
    }
    return MOTE_OK;
}

mote_status checkpoint_check_output(const checkpoint *c, const char *path, mote_error *err)
{
    char input[2 * CHECKPOINT_PATH_BYTES];
    for (uint32_t i = 0; i < c->n_shards; i++) {
        TRY(checkpoint_path(c, c->shards[i].name, input, err));
        TRY(gguf_writer_check_input(path, input, err));
    }
    return MOTE_OK;
}

void checkpoint_put_sources(const checkpoint *c, strbuf *out)
{
    char line[SAFETENSORS_MAX_NAME + 80], real[PATH_MAX];
    strbuf_text(out, realpath(c->directory, real) != NULL ? real : c->directory);
    strbuf_byte(out, '\n');
    for (uint32_t i = 0; i < c->n_shards; i++) {
        snprintf(line, sizeof line, "%s %llu %lld\n", c->shards[i].name,
                 (unsigned long long)c->shards[i].bytes, (long long)c->shards[i].modified);
        strbuf_text(out, line);
    }
}
