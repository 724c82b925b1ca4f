/* SPDX-License-Identifier: Apache-2.0 */
/* show_file.c - see show_file.h. Tensors and their formats; show_metadata.c has the rest. */
#include "cli/inspect/show_file.h"

#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of general.file_type that files of this family carry. */
static const struct {
    uint32_t id;
    const char *name;
} file_types[] = {
    {0, "F32"},     {1, "F16"},     {2, "Q4_0"},    {3, "Q4_1"},    {7, "Q8_0"},
    {8, "Q5_0"},    {9, "Q5_1"},    {10, "Q2_K"},   {11, "Q3_K_S"}, {12, "Q3_K_M"},
    {13, "Q3_K_L"}, {14, "Q4_K_S"}, {15, "Q4_K_M"}, {16, "Q5_K_S"}, {17, "Q5_K_M"},
    {18, "Q6_K"},   {21, "Q2_K_S"}, {25, "IQ4_NL"}, {30, "IQ4_XS"}, {32, "BF16"},
};

static uint64_t values_of(const gguf_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

static const char *format_of(const gguf_tensor *t)
{
    return t->format != NULL ? t->format->name : quant_gguf_name(t->gguf_type);
}

/* The table's last entry collects what there is no row for. */
static show_format *find_format(show_file *f, const char *name)
{
    for (size_t i = 0; i < f->n_formats; i++)
        if (strcmp(f->formats[i].name, name) == 0)
            return &f->formats[i];
    if (f->n_formats == SHOW_MAX_FORMATS)
        return &f->formats[SHOW_MAX_FORMATS - 1];
    show_format *format = &f->formats[f->n_formats++];
    snprintf(format->name, sizeof format->name, "%s",
             f->n_formats == SHOW_MAX_FORMATS ? "others" : name);
    return format;
}

static int more_bytes_first(const void *a, const void *b)
{
    const show_format *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void count_formats(show_file *f)
{
    for (uint64_t i = 0; i < gguf_n_tensors(f->gguf); i++) {
        const gguf_tensor *t = gguf_tensor_at(f->gguf, i);
        show_format *format = find_format(f, format_of(t));
        format->tensors++;
        format->values += values_of(t);
        format->bytes += t->bytes;
        f->tensor_bytes += t->bytes;
    }
    qsort(f->formats, f->n_formats, sizeof *f->formats, more_bytes_first);
}

mote_status show_file_open(show_file *f, const char *path, mote_error *err)
{
    *f = (show_file){0};
    TRY(os_map_open(&f->map, path, err));
    mote_status status = gguf_read(&f->gguf, f->map.data, f->map.bytes, err);
    if (status != MOTE_OK) {
        show_file_close(f);
        return status;
    }
    count_formats(f);
    return MOTE_OK;
}

void show_file_close(show_file *f)
{
    if (f->gguf != NULL)
        gguf_free(f->gguf);
    os_map_close(&f->map);
    *f = (show_file){0};
}

const char *show_file_type(const show_file *f)
{
    uint32_t id = UINT32_MAX;
    bool found = false;
    if (gguf_get_u32(f->gguf, "general.file_type", &id, &found, NULL) == MOTE_OK && found)
        for (size_t i = 0; i < sizeof file_types / sizeof *file_types; i++)
            if (file_types[i].id == id)
                return file_types[i].name;
    return NULL;
}

str show_file_text(const show_file *f, const char *key)
{
    str value = {"", 0};
    bool found = false;
    if (gguf_get_str(f->gguf, key, &value, &found, NULL) != MOTE_OK || !found)
        return (str){"", 0};
    return value;
}

void show_formats_text(const show_file *f, cli_out *o)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    out_printf(o, "\n  %-8s  %7s  %17s  %17s  %7s\n", "FORMAT", "TENSORS", "VALUES", "BYTES",
               "SHARE");
    for (size_t i = 0; i < f->n_formats; i++) {
        const show_format *format = &f->formats[i];
        double share = f->tensor_bytes > 0 ? (double)format->bytes / (double)f->tensor_bytes : 0;
        out_printf(o, "  %-8s  %7" PRIu64 "  %17s  %17s  %5.1f %%\n", format->name, format->tensors,
                   text_count(a, format->values), text_count(b, format->bytes), 100 * share);
    }
}

static void write_shape(char *shape, size_t room, const gguf_tensor *t)
{
    size_t at = 0;
    shape[0] = '\0';
    for (uint32_t i = 0; i < t->n_dims && at < room; i++)
        at += (size_t)snprintf(shape + at, room - at, i == 0 ? "%" PRIu64 : " x %" PRIu64,
                               t->dims[i]);
}

static size_t longest_name(const show_file *f)
{
    size_t longest = strlen("TENSOR");
    for (uint64_t i = 0; i < gguf_n_tensors(f->gguf); i++) {
        size_t n = gguf_tensor_at(f->gguf, i)->name.n;
        longest = n > longest ? n : longest;
    }
    return longest < 48 ? longest : 48;
}

void show_tensors_text(const show_file *f, cli_out *o)
{
    int width = (int)longest_name(f);
    out_printf(o, "\n  %-*s  %-8s  %-18s  %14s  %16s\n", width, "TENSOR", "FORMAT", "SHAPE",
               "BYTES", "OFFSET");
    for (uint64_t i = 0; i < gguf_n_tensors(f->gguf); i++) {
        const gguf_tensor *t = gguf_tensor_at(f->gguf, i);
        char name[4 * 48 + 1], shape[96], a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
        text_fit(name, sizeof name, t->name.p, t->name.n, (size_t)width);
        write_shape(shape, sizeof shape, t);
        out_printf(o, "  %-*s  %-8s  %-18s  %14s  %16s\n", width, name, format_of(t), shape,
                   text_count(a, t->bytes), text_count(b, t->offset));
    }
}

void show_formats_json(const show_file *f, json *j)
{
    json_key(j, "formats");
    json_begin_array(j);
    for (size_t i = 0; i < f->n_formats; i++) {
        json_begin_object(j);
        json_key_text(j, "format", f->formats[i].name);
        json_key_u64(j, "tensors", f->formats[i].tensors);
        json_key_u64(j, "values", f->formats[i].values);
        json_key_u64(j, "bytes", f->formats[i].bytes);
        json_end_object(j);
    }
    json_end_array(j);
}

void show_tensors_json(const show_file *f, json *j)
{
    json_key(j, "tensors");
    json_begin_array(j);
    for (uint64_t i = 0; i < gguf_n_tensors(f->gguf); i++) {
        const gguf_tensor *t = gguf_tensor_at(f->gguf, i);
        json_begin_object(j);
        json_key(j, "name");
        json_bytes(j, t->name.p, t->name.n);
        json_key_text(j, "format", format_of(t));
        json_key(j, "shape");
        json_begin_array(j);
        for (uint32_t d = 0; d < t->n_dims; d++)
            json_u64(j, t->dims[d]);
        json_end_array(j);
        json_key_u64(j, "bytes", t->bytes);
        json_key_u64(j, "offset", t->offset);
        json_end_object(j);
    }
    json_end_array(j);
}
