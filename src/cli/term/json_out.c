/* SPDX-License-Identifier: Apache-2.0 */
/* json_out.c - see json_out.h. */
#include "cli/term/json_out.h"

#include "cli/term/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A comma before every entry but the first; after a key the entry has begun already. */
static void begin_value(json *j)
{
    if (j->after_key)
        j->after_key = false;
    else if (j->depth > 0 && j->filled[j->depth - 1])
        out_text(j->to, ",");
    if (j->depth > 0)
        j->filled[j->depth - 1] = true;
}

static void open_nest(json *j, const char *bracket)
{
    begin_value(j);
    assert(j->depth < JSON_DEPTH);
    j->filled[j->depth++] = false;
    out_text(j->to, bracket);
}

static void close_nest(json *j, const char *bracket)
{
    assert(j->depth > 0 && !j->after_key);
    j->depth--;
    out_text(j->to, bracket);
    if (j->depth == 0)
        out_text(j->to, "\n");
}

void json_begin_object(json *j)
{
    open_nest(j, "{");
}

void json_begin_array(json *j)
{
    open_nest(j, "[");
}

void json_end_object(json *j)
{
    close_nest(j, "}");
}

void json_end_array(json *j)
{
    close_nest(j, "]");
}

static void write_char(json *j, uint32_t code, const char *p, size_t bytes)
{
    if (code == '"' || code == '\\')
        out_printf(j->to, "\\%c", (int)code);
    else if (code == '\n')
        out_text(j->to, "\\n");
    else if (code == '\t')
        out_text(j->to, "\\t");
    else if (code < 0x20 || (code >= 0x7F && code < 0xA0))
        out_printf(j->to, "\\u%04x", (unsigned)code);
    else
        out_write(j->to, p, bytes);
}

static void write_string(json *j, const char *p, size_t n)
{
    out_text(j->to, "\"");
    while (n > 0) {
        uint32_t code;
        size_t bytes = text_char(p, n, &code);
        if (bytes == 0) {
            out_text(j->to, "\xEF\xBF\xBD");
            bytes = 1;
        } else {
            write_char(j, code, p, bytes);
        }
        p += bytes;
        n -= bytes;
    }
    out_text(j->to, "\"");
}

void json_key(json *j, const char *name)
{
    begin_value(j);
    write_string(j, name, strlen(name));
    out_text(j->to, ":");
    j->after_key = true;
}

void json_bytes(json *j, const char *text, size_t n)
{
    begin_value(j);
    write_string(j, text, n);
}

void json_text(json *j, const char *terminated)
{
    if (terminated == NULL)
        json_absent(j);
    else
        json_bytes(j, terminated, strlen(terminated));
}

void json_u64(json *j, uint64_t n)
{
    begin_value(j);
    out_printf(j->to, "%" PRIu64, n);
}

void json_i64(json *j, int64_t n)
{
    begin_value(j);
    out_printf(j->to, "%" PRId64, n);
}

/* x - x is 0 for every number JSON can hold and NaN for the others. */
static bool is_number(double x)
{
    return x - x == 0;
}

/* The fewest digits that read back as the same number: 0.8 is written as 0.8. */
void json_f64(json *j, double x)
{
    char digits[40];
    if (!is_number(x)) {
        json_absent(j);
        return;
    }
    int precision = 15;
    do
        snprintf(digits, sizeof digits, "%.*g", precision, x);
    while (precision++ < 17 && strtod(digits, NULL) != x);
    begin_value(j);
    out_text(j->to, digits);
}

void json_f32(json *j, float x)
{
    char digits[40];
    if (!is_number((double)x)) {
        json_absent(j);
        return;
    }
    int precision = 6;
    do
        snprintf(digits, sizeof digits, "%.*g", precision, (double)x);
    while (precision++ < 9 && strtof(digits, NULL) != x);
    begin_value(j);
    out_text(j->to, digits);
}

void json_bool(json *j, bool b)
{
    begin_value(j);
    out_text(j->to, b ? "true" : "false");
}

void json_raw(json *j, const char *text, size_t n)
{
    begin_value(j);
    out_shown(j->to, text, n); /* on a terminal no control stays, not even one JSON allows */
}

void json_absent(json *j)
{
    begin_value(j);
    out_text(j->to, "null");
}

void json_key_text(json *j, const char *name, const char *terminated)
{
    json_key(j, name);
    json_text(j, terminated);
}

void json_key_u64(json *j, const char *name, uint64_t n)
{
    json_key(j, name);
    json_u64(j, n);
}

void json_key_f64(json *j, const char *name, double x)
{
    json_key(j, name);
    json_f64(j, x);
}

void json_key_bool(json *j, const char *name, bool b)
{
    json_key(j, name);
    json_bool(j, b);
}
