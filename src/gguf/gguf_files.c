/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_files.c - see gguf_files.h. */
#include "gguf/gguf_files.h"

#include "base/mem.h"
#include "base/os.h"
#include "gguf/gguf_writer.h"

#include <stdio.h>

/* ---- names of parts ---- */

enum { DIGITS = 5 };
static const char part_form[] = "-00000-of-00000.gguf";

static uint32_t part_number(const char *digits)
{
    uint32_t n = 0;
    for (int i = 0; i < DIGITS; i++)
        n = n * 10 + (uint32_t)(digits[i] - '0');
    return n;
}

bool gguf_part_name_parse(gguf_part_name *out, str path)
{
    const size_t n = sizeof part_form - 1;
    if (path.n <= n || path.p[path.n - n - 1] == '/')
        return false;
    const char *end = path.p + path.n - n;
    for (size_t i = 0; i < n; i++)
        if (part_form[i] == '0' ? end[i] < '0' || end[i] > '9' : end[i] != part_form[i])
            return false;
    *out = (gguf_part_name){.stem = {path.p, path.n - n},
                            .no = part_number(end + 1),
                            .count = part_number(end + 1 + DIGITS + 4)};
    return out->no >= 1 && out->no <= out->count;
}

bool gguf_part_name_print(char *out, size_t room, const gguf_part_name *name, uint32_t no)
{
    const int n = snprintf(out, room, "%.*s-%05u-of-%05u.gguf", (int)name->stem.n, name->stem.p, no,
                           name->count);
    return n > 0 && (size_t)n < room;
}

/* ---- files ---- */

static mote_status files_reserve(gguf_files *f, uint32_t n, mote_error *err)
{
    f->maps = mem_new(n, sizeof *f->maps);
    f->paths = mem_new(n, sizeof *f->paths);
    if (f->maps == NULL || f->paths == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: list of %u files", n);
    return MOTE_OK;
}

/* Maps the next file. */
static mote_status files_add(gguf_files *f, const char *path, gguf **out, mote_error *err)
{
    const uint32_t i = f->n_parts;
    const size_t n = strlen(path) + 1;
    *out = NULL;
    f->paths[i] = mem_new(n, 1);
    if (f->paths[i] == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a path", n);
    memcpy(f->paths[i], path, n);
    f->n_parts++;
    TRY(os_map_open(&f->maps[i], path, err));
    f->bytes += f->maps[i].bytes;
    return gguf_read(out, f->maps[i].data, f->maps[i].bytes, err);
}

static mote_status files_open_one(gguf_files *f, const char *path, mote_error *err)
{
    TRY(files_reserve(f, 1, err));
    mote_status status = files_add(f, path, &f->gguf, err);
    if (!gguf_files_intact(f)) /* the cause of any other error */
        status = gguf_files_check(f, err);
    return status;
}

/* The name of a part must say what its metadata say: the other parts are found by name. */
static mote_status files_check_name(const char *path, const gguf_split *split, gguf_part_name *name,
                                    mote_error *err)
{
    const char *slash = strrchr(path, '/');
    if (gguf_part_name_parse(name, str_of(path)) && name->count == split->count &&
        name->no == split->no + 1)
        return MOTE_OK;
    return err_set(err, MOTE_E_FORMAT,
                   "%.200s is part %u of %u of a split model, so its name must end in "
                   "-%05u-of-%05u.gguf, with the other parts in the same directory",
                   slash != NULL ? slash + 1 : path, split->no + 1, split->count, split->no + 1,
                   split->count);
}

static mote_status files_add_part(gguf_files *f, const gguf_part_name *name, uint32_t no,
                                  gguf **out, mote_error *err)
{
    char path[4096];
    if (!gguf_part_name_print(path, sizeof path, name, no))
        return err_set(err, MOTE_E_ARG, "the path of part %u is longer than %zu bytes", no,
                       sizeof path - 1);
    mote_error why = {0};
    mote_status status = files_add(f, path, out, &why);
    if (status == MOTE_OK || status == MOTE_E_MEMORY)
        return status == MOTE_OK ? MOTE_OK : err_set(err, status, "%s", why.text);
    const os_map *map = &f->maps[f->n_parts - 1];
    if (map->data == NULL)
        return err_set(err, status,
                       "part %u of %u of the model: %s; all parts must be in one directory", no,
                       name->count, why.text);
    return err_set(err, status, "%s (part %u of %u): %s", map->name, no, name->count, why.text);
}

static mote_status files_open_parts(gguf_files *f, const gguf_part_name *name, gguf *parts[],
                                    mote_error *err)
{
    TRY(files_reserve(f, name->count, err));
    for (uint32_t i = 0; i < name->count; i++)
        TRY(files_add_part(f, name, i + 1, &parts[i], err));
    return gguf_join(parts, name->count, err);
}

static mote_status files_open_split(gguf_files *f, const gguf_part_name *name, mote_error *err)
{
    gguf *parts[GGUF_MAX_PARTS] = {NULL};
    mote_status status = files_open_parts(f, name, parts, err);
    if (!gguf_files_intact(f))
        status = gguf_files_check(f, err);
    if (status == MOTE_OK) {
        f->gguf = parts[0];
        return MOTE_OK;
    }
    for (uint32_t i = 0; i < name->count; i++)
        gguf_free(parts[i]);
    return status;
}

mote_status gguf_files_open(gguf_files *out, const char *path, mote_error *err)
{
    gguf_split split = {0, 1};
    gguf_part_name name;
    *out = (gguf_files){0};
    mote_status status = files_open_one(out, path, err);
    if (status == MOTE_OK)
        status = gguf_split_of(out->gguf, &split, err);
    if (status == MOTE_OK && split.count > 1) {
        gguf_files_close(out);
        status = files_check_name(path, &split, &name, err);
        if (status == MOTE_OK)
            status = files_open_split(out, &name, err);
    }
    if (status != MOTE_OK)
        gguf_files_close(out);
    return status;
}

void gguf_files_close(gguf_files *f)
{
    gguf_free(f->gguf);
    for (uint32_t i = 0; i < f->n_parts; i++) {
        os_map_close(&f->maps[i]);
        mem_free(f->paths[i]);
    }
    mem_free(f->maps);
    mem_free(f->paths);
    *f = (gguf_files){0};
}

uint64_t gguf_files_private_bytes(const gguf_files *f)
{
    uint64_t bytes = f->n_parts * (sizeof *f->maps + sizeof *f->paths);
    for (uint32_t i = 0; i < f->n_parts; i++)
        bytes += strlen(f->paths[i]) + 1;
    return bytes + (f->gguf != NULL ? gguf_private_bytes(f->gguf) : 0);
}

void gguf_files_put_sources(const gguf_files *f, strbuf *out)
{
    for (uint32_t i = 0; i < f->n_parts; i++) {
        struct stat info = {0};
        char line[96];
        stat(f->paths[i], &info);
        snprintf(line, sizeof line, " %lld %lld\n", (long long)info.st_size,
                 (long long)os_modified_ns(&info));
        strbuf_text(out, f->paths[i]);
        strbuf_text(out, line);
    }
}

mote_status gguf_files_check_output(const gguf_files *f, const char *path, mote_error *err)
{
    for (uint32_t i = 0; i < f->n_parts; i++)
        TRY(gguf_writer_check_input(path, f->paths[i], err));
    return MOTE_OK;
}

bool gguf_files_intact(const gguf_files *f)
{
    for (uint32_t i = 0; i < f->n_parts; i++)
        if (!os_map_intact(&f->maps[i]))
            return false;
    return true;
}

mote_status gguf_files_check(const gguf_files *f, mote_error *err)
{
    for (uint32_t i = 0; i < f->n_parts; i++)
        TRY(os_map_check(&f->maps[i], err));
    return MOTE_OK;
}

void gguf_files_drop_pages(const gguf_files *f)
{
    for (uint32_t i = 0; i < f->n_parts; i++)
        os_map_drop_pages(&f->maps[i]);
}
