/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_scan.c - one pass over a stranger's text before the parser sees it.
 *
 * The parser would turn 1.10 into 1.1 and 12345678901234567890 into an error, so
 * it is given small integers instead, each the index of a number whose spelling
 * is kept. Depth and number of values are checked here, before there is a tree.
 * Errors of grammar are not looked for: rewriting keeps them errors.
 */
#include "json/json_doc.h"

#include "base/mem.h"

#include <stdio.h>

enum { FIRST_NUMBERS = 64 };

typedef struct scanner {
    json_scan *out;
    str text;
    size_t at;
    size_t copied; /* text before this is in out->rewritten */
    size_t room;   /* of out->numbers */
    uint32_t depth;
} scanner;

static void copy_up_to(scanner *s, size_t end)
{
    strbuf_put(&s->out->rewritten, (str){s->text.p + s->copied, end - s->copied});
    s->copied = end;
}

static mote_status count_value(scanner *s, mote_error *err)
{
    if (s->out->n_values == JSON_MAX_NODES)
        return err_set(err, MOTE_E_ARG, "the JSON text has more than %d values", JSON_MAX_NODES);
    s->out->n_values++;
    return MOTE_OK;
}

static mote_status add_number(scanner *s, size_t n, mote_error *err)
{
    json_scan *out = s->out;
    char index[16];
    if (n > JSON_MAX_NUMBER)
        return err_set(err, MOTE_E_ARG, "a number of %zu bytes is too long: at most %d", n,
                       JSON_MAX_NUMBER);
    TRY(count_value(s, err));
    if (out->n_numbers == s->room) {
        size_t room = s->room > 0 ? 2 * s->room : FIRST_NUMBERS;
        json_scan_number *moved = mem_resize(out->numbers, s->room, room, sizeof *moved);
        if (moved == NULL)
            return err_set(err, MOTE_E_MEMORY, "no memory for the numbers of a JSON text");
        out->numbers = moved;
        s->room = room;
    }
    copy_up_to(s, s->at);
    out->numbers[out->n_numbers] = (json_scan_number){s->at, out->rewritten.n, (uint32_t)n};
    /* Spaces keep it apart from what stands beside it by mistake: another number, or a sign. */
    int digits = snprintf(index, sizeof index, " %u ", out->n_numbers++);
    strbuf_put(&out->rewritten, (str){index, (size_t)digits});
    s->at += n;
    s->copied = s->at;
    return MOTE_OK;
}

/* The code unit of an escape \uXXXX at this place; -1: there is none. */
static int32_t code_unit(str text, size_t at)
{
    int32_t code = 0;
    if (text.n - at < 6 || text.p[at] != '\\' || text.p[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + 6; i++) {
        const char c = text.p[i];
        if (c >= '0' && c <= '9')
            code = code << 4 | (c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            code = code << 4 | ((c | 32) - 'a' + 10);
        else
            return -1;
    }
    return code;
}

/* At a backslash inside a string; steps over the escape. */
static void scan_escape(scanner *s)
{
    int32_t code = code_unit(s->text, s->at);
    if (code < 0xD800 || code > 0xDFFF) {
        s->at += s->text.n - s->at < 2 ? 1 : 2;
        return;
    }
    int32_t low = s->text.n - s->at > 6 ? code_unit(s->text, s->at + 6) : -1;
    if (code < 0xDC00 && low >= 0xDC00 && low <= 0xDFFF) {
        s->at += 12;
        return;
    }
    copy_up_to(s, s->at);
    strbuf_text(&s->out->rewritten, "\\ufffd");
    s->at += 6;
    s->copied = s->at;
}

/* At an opening quote; steps over the string. One followed by a colon is a name, not a value. */
static mote_status scan_string(scanner *s, mote_error *err)
{
    const str text = s->text;
    s->at++;
    while (s->at < text.n && text.p[s->at] != '"') {
        if (text.p[s->at] == '\\')
            scan_escape(s);
        else
            s->at++;
    }
    s->at += s->at < text.n;
    size_t next = s->at;
    while (next < text.n && strchr(" \t\r\n", text.p[next]) != NULL && text.p[next] != 0)
        next++;
    bool is_name = next < text.n && text.p[next] == ':';
    return is_name ? MOTE_OK : count_value(s, err);
}

static mote_status scan_next(scanner *s, mote_error *err)
{
    const char c = s->text.p[s->at];
    size_t number = 0;
    if (c == '"')
        return scan_string(s, err);
    if (c == '-' || (c >= '0' && c <= '9'))
        number = json_number_length((str){s->text.p + s->at, s->text.n - s->at});
    if (number > 0)
        return add_number(s, number, err);
    if (c == '[' || c == '{') {
        if (s->depth == JSON_MAX_DEPTH)
            return err_set(err, MOTE_E_ARG, "the JSON text is nested deeper than %d",
                           JSON_MAX_DEPTH);
        s->depth++;
    } else if ((c == ']' || c == '}') && s->depth > 0) {
        s->depth--;
    }
    /* Each of true, false and null has exactly one of these three letters. */
    if (c == '[' || c == '{' || c == 't' || c == 'f' || c == 'n')
        TRY(count_value(s, err));
    s->at++;
    return MOTE_OK;
}

mote_status json_scan_text(json_scan *scan, str text, mote_error *err)
{
    scanner s = {.out = scan, .text = text};
    while (s.at < text.n)
        TRY(scan_next(&s, err));
    copy_up_to(&s, text.n);
    return strbuf_check(&scan->rewritten, err);
}

void json_scan_fini(json_scan *scan)
{
    strbuf_fini(&scan->rewritten);
    mem_free(scan->numbers);
    *scan = (json_scan){0};
}

size_t json_scan_source(const json_scan *scan, size_t placed)
{
    uint32_t low = 0, high = scan->n_numbers; /* the number of numbers that begin before it */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (scan->numbers[middle].placed < placed)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return placed;
    const json_scan_number *before = &scan->numbers[low - 1];
    size_t width = 3; /* of an index below ten, and the spaces */
    for (uint32_t index = low - 1; index >= 10; index /= 10)
        width++;
    size_t inside = placed - before->placed;
    return inside < width ? before->source : before->source + before->n + (inside - width);
}
