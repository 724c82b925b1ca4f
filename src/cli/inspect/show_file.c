/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show_file.c - tensors and metadata of a GGUF file; see show_file.h.
 *
 * Long arrays, such as a vocabulary of 248,320 strings, are cut to their first entries; their
 * length is always printed.
 */
#include "cli/inspect/show_file.h"

#include "cli/term/text.h"
#include "json/json_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ---- */

static uint64_t tensor_values(const gguf_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->n_dims; i++)
        n *= t->dims[i];
    return n;
}

static const char *tensor_format(const gguf_tensor *t)
{
    return t->format != NULL ? t->format->name : quant_gguf_name(t->gguf_type);
}

/* The last entry of the table collects all further formats. */
static show_format *show_find_format(show_file *f, const char *name)
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

static int formats_by_bytes(const void *a, const void *b)
{
    const show_format *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void show_count_formats(show_file *f)
{
    for (uint64_t i = 0; i < gguf_n_tensors(f->gguf); i++) {
        const gguf_tensor *t = gguf_tensor_at(f->gguf, i);
        show_format *format = show_find_format(f, tensor_format(t));
        format->tensors++;
        format->values += tensor_values(t);
        format->bytes += t->bytes;
        f->tensor_bytes += t->bytes;
    }
    qsort(f->formats, f->n_formats, sizeof *f->formats, formats_by_bytes);
}

mote_status show_file_open(show_file *f, const char *path, mote_error *err)
{
    *f = (show_file){0};
    TRY(gguf_files_open(&f->files, path, err));
    f->gguf = f->files.gguf;
    show_count_formats(f);
    return MOTE_OK;
}

void show_file_close(show_file *f)
{
    gguf_files_close(&f->files);
    *f = (show_file){0};
}

static uint64_t show_part_tensors(const show_file *f, uint32_t part)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < gguf_n_tensors(f->gguf); i++)
        n += gguf_tensor_at(f->gguf, i)->part == part;
    return n;
}

void show_parts_text(const show_file *f, cli_out *o)
{
    char a[TEXT_NUMBER_BYTES];
    for (uint32_t i = 0; i < f->files.n_parts && f->files.n_parts > 1; i++)
        out_printf(o, "  %-11s  %s, %s, %" PRIu64 " tensors\n", i == 0 ? "Parts" : "",
                   f->files.maps[i].name, text_bytes(a, f->files.maps[i].bytes),
                   show_part_tensors(f, i));
}

void show_parts_json(const show_file *f, strbuf *j)
{
    if (f->files.n_parts <= 1)
        return;
    jw_key(j, "parts");
    jw_open(j, '[');
    for (uint32_t i = 0; i < f->files.n_parts; i++) {
        jw_open(j, '{');
        jw_key_text(j, "file", f->files.paths[i]);
        jw_key_uint(j, "bytes", f->files.maps[i].bytes);
        jw_key_uint(j, "tensors", show_part_tensors(f, i));
        jw_close(j, '}');
    }
    jw_close(j, ']');
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

static void tensor_shape(char *shape, size_t room, const gguf_tensor *t)
{
    size_t at = 0;
    shape[0] = '\0';
    for (uint32_t i = 0; i < t->n_dims && at < room; i++)
        at += (size_t)snprintf(shape + at, room - at, i == 0 ? "%" PRIu64 : " x %" PRIu64,
                               t->dims[i]);
}

static size_t show_name_width(const show_file *f)
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
    int width = (int)show_name_width(f);
    out_printf(o, "\n  %-*s  %-8s  %-18s  %14s  %16s\n", width, "TENSOR", "FORMAT", "SHAPE",
               "BYTES", "OFFSET");
    for (uint64_t i = 0; i < gguf_n_tensors(f->gguf); i++) {
        const gguf_tensor *t = gguf_tensor_at(f->gguf, i);
        char name[4 * 48 + 1], shape[96], a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
        text_fit(name, sizeof name, t->name.p, t->name.n, (size_t)width);
        tensor_shape(shape, sizeof shape, t);
        out_printf(o, "  %-*s  %-8s  %-18s  %14s  %16s\n", width, name, tensor_format(t), shape,
                   text_count(a, t->bytes), text_count(b, t->offset));
    }
}

void show_formats_json(const show_file *f, strbuf *j)
{
    jw_key(j, "formats");
    jw_open(j, '[');
    for (size_t i = 0; i < f->n_formats; i++) {
        jw_open(j, '{');
        jw_key_text(j, "format", f->formats[i].name);
        jw_key_uint(j, "tensors", f->formats[i].tensors);
        jw_key_uint(j, "values", f->formats[i].values);
        jw_key_uint(j, "bytes", f->formats[i].bytes);
        jw_close(j, '}');
    }
    jw_close(j, ']');
}

void show_tensors_json(const show_file *f, strbuf *j, cli_out *out)
{
    jw_key(j, "tensors");
    jw_open(j, '[');
    for (uint64_t i = 0; i < gguf_n_tensors(f->gguf); i++) {
        const gguf_tensor *t = gguf_tensor_at(f->gguf, i);
        jw_open(j, '{');
        jw_key_str(j, "name", (str){t->name.p, t->name.n});
        jw_key_text(j, "format", tensor_format(t));
        jw_key(j, "shape");
        jw_open(j, '[');
        for (uint32_t d = 0; d < t->n_dims; d++)
            jw_uint(j, t->dims[d]);
        jw_close(j, ']');
        jw_key_uint(j, "bytes", t->bytes);
        jw_key_uint(j, "offset", t->offset);
        jw_close(j, '}');
        out_json_part(out, j);
    }
    jw_close(j, ']');
}

/* ---- metadata ---- */

static const char *const type_names[GGUF_N_TYPES] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64",
};

/* Element i of any type but string. The bytes are little-endian and unaligned, as in the file. */
static void kv_write_number(const gguf_kv *kv, uint64_t i, strbuf *j)
{
    int64_t integer = 0;
    if (kv->type == GGUF_F32) {
        float x;
        memcpy(&x, kv->bytes + i * sizeof x, sizeof x);
        jw_float(j, x);
    } else if (kv->type == GGUF_F64) {
        double x;
        memcpy(&x, kv->bytes + i * sizeof x, sizeof x);
        jw_double(j, x);
    } else if (kv->type == GGUF_U64) {
        uint64_t x;
        memcpy(&x, kv->bytes + i * sizeof x, sizeof x);
        jw_uint(j, x);
    } else if (kv->type == GGUF_BOOL) {
        jw_bool(j, kv->bytes[i] != 0);
    } else if (gguf_int_at(kv, i, &integer)) {
        jw_int(j, integer);
    } else {
        jw_null(j);
    }
}

static void kv_write_elements(const gguf_kv *kv, uint64_t most, size_t most_bytes, strbuf *j)
{
    uint64_t n = kv->count < most ? kv->count : most;
    gguf_str_walk walk = {0};
    for (uint64_t i = 0; i < n; i++) {
        str text = {"", 0};
        if (kv->type != GGUF_STRING)
            kv_write_number(kv, i, j);
        else if (gguf_next_str(kv, &walk, &text))
            jw_str(j, (str){text.p, text.n < most_bytes ? text.n : most_bytes});
    }
}

/* One value, or an array of the first `most` values; of a string the first `most_bytes`. */
static void kv_write(const gguf_kv *kv, uint64_t most, size_t most_bytes, strbuf *j)
{
    if (kv->is_array)
        jw_open(j, '[');
    kv_write_elements(kv, most, most_bytes, j);
    if (kv->is_array)
        jw_close(j, ']');
}

void show_metadata_json(const show_file *f, strbuf *j, cli_out *out)
{
    jw_key(j, "metadata");
    jw_open(j, '[');
    for (uint64_t i = 0; i < gguf_n_kv(f->gguf); i++) {
        const gguf_kv *kv = gguf_kv_at(f->gguf, i);
        jw_open(j, '{');
        jw_key_str(j, "key", (str){kv->key.p, kv->key.n});
        jw_key_text(j, "type", type_names[kv->type]);
        jw_key_bool(j, "array", kv->is_array);
        jw_key_uint(j, "count", kv->count);
        jw_key(j, "value");
        kv_write(kv, SHOW_ARRAY_MAX, SIZE_MAX, j);
        jw_close(j, '}');
        out_json_part(out, j);
    }
    jw_close(j, ']');
}

enum { KEY_COLUMNS = 42, VALUE_COLUMNS = 160, VALUE_BYTES = 200, FEW = 8 };

/* "u32", "string[8192]" */
static void kv_type(char *type, size_t room, const gguf_kv *kv)
{
    if (kv->is_array)
        snprintf(type, room, "%s[%" PRIu64 "]", type_names[kv->type], kv->count);
    else
        snprintf(type, room, "%s", type_names[kv->type]);
}

/* The value is JSON, cut to the width of the line. */
static void kv_print(const gguf_kv *kv, cli_out *o, size_t value_columns)
{
    strbuf json = {0};
    kv_write(kv, FEW, VALUE_BYTES, &json);
    if (kv->is_array && kv->count > FEW && json.n > 0) {
        json.n--; /* the closing bracket */
        strbuf_text(&json, ",...]");
    }
    char key[4 * KEY_COLUMNS + 1], type[40], value[4 * VALUE_COLUMNS + 1];
    text_fit(key, sizeof key, kv->key.p, kv->key.n, KEY_COLUMNS);
    kv_type(type, sizeof type, kv);
    text_fit(value, sizeof value, json.p, json.n, value_columns);
    out_printf(o, "  %-*s  %-12s  %s\n", KEY_COLUMNS, key, type, value);
    strbuf_fini(&json);
}

void show_metadata_text(const show_file *f, cli_out *o, size_t columns)
{
    size_t used = 2 + KEY_COLUMNS + 2 + 12 + 2;
    size_t left = columns > used + 20 ? columns - used : 20;
    out_printf(o, "\n  %-*s  %-12s  %s\n", KEY_COLUMNS, "KEY", "TYPE", "VALUE");
    for (uint64_t i = 0; i < gguf_n_kv(f->gguf); i++)
        kv_print(gguf_kv_at(f->gguf, i), o, left < VALUE_COLUMNS ? left : VALUE_COLUMNS);
}
