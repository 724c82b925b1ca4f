/* SPDX-License-Identifier: Apache-2.0 */
/* json_writer.c - see json_writer.h. */
#include "json/json_writer.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- text ---- */

/* Bytes of the character at p; 0: not UTF-8. */
static size_t utf8_length(const unsigned char *p, size_t n)
{
    const int length = utf8_check(p, n);
    return length > 0 ? (size_t)length : 0;
}

static void jw_escape(strbuf *out, unsigned char c)
{
    char text[8];
    switch (c) {
    case '"': strbuf_text(out, "\\\""); return;
    case '\\': strbuf_text(out, "\\\\"); return;
    case '\b': strbuf_text(out, "\\b"); return;
    case '\f': strbuf_text(out, "\\f"); return;
    case '\n': strbuf_text(out, "\\n"); return;
    case '\r': strbuf_text(out, "\\r"); return;
    case '\t': strbuf_text(out, "\\t"); return;
    default: break;
    }
    snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
    strbuf_text(out, text);
}

static bool is_line_separator(const unsigned char *p, size_t length)
{
    return length == 3 && p[0] == 0xE2 && p[1] == 0x80 && (p[2] & 0xFE) == 0xA8;
}

static void jw_line_separator(strbuf *out, const unsigned char *p)
{
    strbuf_text(out, p[2] == 0xA8 ? "\\u2028" : "\\u2029");
}

void jw_escaped(strbuf *out, str text)
{
    const unsigned char *p = (const unsigned char *)text.p;
    size_t plain = 0, i = 0; /* `plain`: start of the bytes to copy unchanged */
    while (i < text.n) {
        const size_t length = utf8_length(p + i, text.n - i);
        const bool special = length == 1 && (p[i] < 0x20 || p[i] == '"' || p[i] == '\\');
        if (length > 0 && !special && !is_line_separator(p + i, length)) {
            i += length;
            continue;
        }
        strbuf_put(out, (str){text.p + plain, i - plain});
        if (length == 0)
            strbuf_text(out, "\xEF\xBF\xBD");
        else if (special)
            jw_escape(out, p[i]);
        else
            jw_line_separator(out, p + i);
        i += length > 0 ? length : 1;
        plain = i;
    }
    if (plain < text.n)
        strbuf_put(out, (str){text.p + plain, text.n - plain});
}

/* ---- values ---- */

/* No comma before the first entry of a container, after a key, and at the start of a line. */
static void jw_comma(strbuf *out)
{
    if (out->n > 0 && strchr("{[:, \n", out->p[out->n - 1]) == NULL)
        strbuf_byte(out, ',');
}

void jw_open(strbuf *out, char bracket)
{
    jw_comma(out);
    strbuf_byte(out, bracket);
}

void jw_close(strbuf *out, char bracket)
{
    strbuf_byte(out, bracket);
}

void jw_key(strbuf *out, const char *name)
{
    jw_comma(out);
    strbuf_byte(out, '"');
    strbuf_text(out, name);
    strbuf_text(out, "\":");
}

void jw_str(strbuf *out, str text)
{
    jw_comma(out);
    strbuf_byte(out, '"');
    jw_escaped(out, text);
    strbuf_byte(out, '"');
}

void jw_raw(strbuf *out, str json)
{
    jw_comma(out);
    strbuf_put(out, json);
}

void jw_null(strbuf *out)
{
    jw_raw(out, str_of("null"));
}

void jw_text(strbuf *out, const char *terminated)
{
    if (terminated == NULL)
        jw_null(out);
    else
        jw_str(out, str_of(terminated));
}

void jw_bool(strbuf *out, bool b)
{
    jw_raw(out, str_of(b ? "true" : "false"));
}

void jw_int(strbuf *out, int64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRId64, n);
    jw_raw(out, str_of(digits));
}

void jw_uint(strbuf *out, uint64_t n)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, n);
    jw_raw(out, str_of(digits));
}

/* x - x is 0 for finite numbers and NaN for the others. */
void jw_double(strbuf *out, double x)
{
    char digits[40];
    int precision = 15;
    if (x - x != 0) {
        jw_null(out);
        return;
    }
    do
        snprintf(digits, sizeof digits, "%.*g", precision, x);
    while (precision++ < 17 && strtod(digits, NULL) != x);
    jw_raw(out, str_of(digits));
}

void jw_float(strbuf *out, float x)
{
    char digits[40];
    int precision = 6;
    if (x - x != 0) {
        jw_null(out);
        return;
    }
    do
        snprintf(digits, sizeof digits, "%.*g", precision, (double)x);
    while (precision++ < 9 && strtof(digits, NULL) != x);
    jw_raw(out, str_of(digits));
}

/* In the output of json_put_as_spelt a line separator can only be inside a string. */
void jw_node(strbuf *out, const json_node *node)
{
    strbuf text = {0};
    json_put_as_spelt(&text, node);
    jw_comma(out);
    const unsigned char *p = (const unsigned char *)text.p;
    size_t plain = 0;
    for (size_t i = 0; i + 2 < text.n; i++) {
        if (!is_line_separator(p + i, 3))
            continue;
        strbuf_put(out, (str){text.p + plain, i - plain});
        jw_line_separator(out, p + i);
        plain = i + 3;
        i += 2;
    }
    if (plain < text.n)
        strbuf_put(out, (str){text.p + plain, text.n - plain});
    out->failed |= text.failed;
    strbuf_fini(&text);
}

void jw_bytes(strbuf *out, str bytes)
{
    jw_open(out, '[');
    for (size_t i = 0; i < bytes.n; i++)
        jw_uint(out, (unsigned char)bytes.p[i]);
    jw_close(out, ']');
}

/* ---- a key and its value ---- */

void jw_key_str(strbuf *out, const char *name, str text)
{
    jw_key(out, name);
    jw_str(out, text);
}

void jw_key_text(strbuf *out, const char *name, const char *terminated)
{
    jw_key(out, name);
    jw_text(out, terminated);
}

void jw_key_int(strbuf *out, const char *name, int64_t n)
{
    jw_key(out, name);
    jw_int(out, n);
}

void jw_key_uint(strbuf *out, const char *name, uint64_t n)
{
    jw_key(out, name);
    jw_uint(out, n);
}

void jw_key_double(strbuf *out, const char *name, double x)
{
    jw_key(out, name);
    jw_double(out, x);
}

void jw_key_float(strbuf *out, const char *name, float x)
{
    jw_key(out, name);
    jw_float(out, x);
}

void jw_key_bool(strbuf *out, const char *name, bool b)
{
    jw_key(out, name);
    jw_bool(out, b);
}

void jw_key_null(strbuf *out, const char *name)
{
    jw_key(out, name);
    jw_null(out);
}

void jw_key_raw(strbuf *out, const char *name, const char *json)
{
    jw_key(out, name);
    jw_raw(out, str_of(json));
}
