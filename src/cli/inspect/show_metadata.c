/* SPDX-License-Identifier: Apache-2.0 */
/*
 * show_metadata.c - the metadata of a GGUF file for `mote show --metadata`.
 *
 * Long arrays (a vocabulary has 248,320 strings) are cut to their first entries;
 * their length is always told.
 */
#include "cli/inspect/show_file.h"

#include "cli/term/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const type_names[GGUF_N_TYPES] = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64",
};

/* Element i of anything but strings. Bytes lie as in the file: little-endian and unaligned. */
static void write_number(const gguf_kv *kv, uint64_t i, json *j)
{
    int64_t integer = 0;
    if (kv->type == GGUF_F32) {
        float x;
        memcpy(&x, kv->bytes + i * sizeof x, sizeof x);
        json_f32(j, x);
    } else if (kv->type == GGUF_F64) {
        double x;
        memcpy(&x, kv->bytes + i * sizeof x, sizeof x);
        json_f64(j, x);
    } else if (kv->type == GGUF_U64) {
        uint64_t x;
        memcpy(&x, kv->bytes + i * sizeof x, sizeof x);
        json_u64(j, x);
    } else if (kv->type == GGUF_BOOL) {
        json_bool(j, kv->bytes[i] != 0);
    } else if (gguf_int_at(kv, i, &integer)) {
        json_i64(j, integer);
    } else {
        json_absent(j);
    }
}

static void write_elements(const gguf_kv *kv, uint64_t most, size_t most_bytes, json *j)
{
    uint64_t n = kv->count < most ? kv->count : most;
    gguf_str_walk walk = {0};
    for (uint64_t i = 0; i < n; i++) {
        str text = {"", 0};
        if (kv->type != GGUF_STRING)
            write_number(kv, i, j);
        else if (gguf_next_str(kv, &walk, &text))
            json_bytes(j, text.p, text.n < most_bytes ? text.n : most_bytes);
    }
}

/* One value, or an array of the first `most`; of a text the first `most_bytes`. */
static void write_value(const gguf_kv *kv, uint64_t most, size_t most_bytes, json *j)
{
    if (kv->is_array)
        json_begin_array(j);
    write_elements(kv, most, most_bytes, j);
    if (kv->is_array)
        json_end_array(j);
}

void show_metadata_json(const show_file *f, json *j)
{
    json_key(j, "metadata");
    json_begin_array(j);
    for (uint64_t i = 0; i < gguf_n_kv(f->gguf); i++) {
        const gguf_kv *kv = gguf_kv_at(f->gguf, i);
        json_begin_object(j);
        json_key(j, "key");
        json_bytes(j, kv->key.p, kv->key.n);
        json_key_text(j, "type", type_names[kv->type]);
        json_key_bool(j, "array", kv->is_array);
        json_key_u64(j, "count", kv->count);
        json_key(j, "value");
        write_value(kv, SHOW_ARRAY_MAX, SIZE_MAX, j);
        json_end_object(j);
    }
    json_end_array(j);
}

enum { KEY_COLUMNS = 42, VALUE_COLUMNS = 160, VALUE_BYTES = 200, FEW = 8 };

/* "u32", "string[8192]" */
static void write_type(char *type, size_t room, const gguf_kv *kv)
{
    if (kv->is_array)
        snprintf(type, room, "%s[%" PRIu64 "]", type_names[kv->type], kv->count);
    else
        snprintf(type, room, "%s", type_names[kv->type]);
}

/* Values are written as JSON here too, into a buffer, and cut to the width of the line. */
static void print_entry(const gguf_kv *kv, cli_out *o, size_t value_columns)
{
    static cli_out buffer; /* FEW texts of VALUE_BYTES fit even if every byte is escaped */
    _Static_assert(6 * FEW * (VALUE_BYTES + 4) < OUT_BYTES, "metadata line");
    out_open(&buffer, -1);
    json j = {.to = &buffer};
    write_value(kv, FEW, VALUE_BYTES, &j);
    if (kv->is_array)
        buffer.n--; /* the newline that ends a document */
    if (kv->is_array && kv->count > FEW) {
        buffer.n--;
        out_text(&buffer, ",...]");
    }
    char key[4 * KEY_COLUMNS + 1], type[40], value[4 * VALUE_COLUMNS + 1];
    text_fit(key, sizeof key, kv->key.p, kv->key.n, KEY_COLUMNS);
    write_type(type, sizeof type, kv);
    text_fit(value, sizeof value, buffer.buffer, buffer.n, value_columns);
    out_printf(o, "  %-*s  %-12s  %s\n", KEY_COLUMNS, key, type, value);
}

void show_metadata_text(const show_file *f, cli_out *o, size_t columns)
{
    size_t used = 2 + KEY_COLUMNS + 2 + 12 + 2;
    size_t left = columns > used + 20 ? columns - used : 20;
    out_printf(o, "\n  %-*s  %-12s  %s\n", KEY_COLUMNS, "KEY", "TYPE", "VALUE");
    for (uint64_t i = 0; i < gguf_n_kv(f->gguf); i++)
        print_entry(gguf_kv_at(f->gguf, i), o, left < VALUE_COLUMNS ? left : VALUE_COLUMNS);
}
