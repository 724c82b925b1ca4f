/* SPDX-License-Identifier: Apache-2.0 */
/* json_span.c - see json_span.h. Every function returns 0 for a text that ends too early. */
#include "server/batch/json_span.h"

static size_t span_skip_space(str t, size_t at)
{
    while (at < t.n && (t.p[at] == ' ' || t.p[at] == '\t' || t.p[at] == '\r' || t.p[at] == '\n'))
        at++;
    return at;
}

/* The end of the string that begins at `at`. */
static size_t span_string_end(str t, size_t at)
{
    for (at++; at < t.n; at++) {
        if (t.p[at] == '\\')
            at++;
        else if (t.p[at] == '"')
            return at + 1;
    }
    return 0;
}

static size_t span_container_end(str t, size_t at)
{
    size_t depth = 0;
    while (at < t.n) {
        const char c = t.p[at];
        if (c == '"') {
            at = span_string_end(t, at);
            if (at == 0)
                return 0;
            continue;
        }
        depth += c == '{' || c == '[';
        if ((c == '}' || c == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return 0;
}

static size_t span_value_end(str t, size_t at)
{
    if (at >= t.n)
        return 0;
    if (t.p[at] == '"')
        return span_string_end(t, at);
    if (t.p[at] == '{' || t.p[at] == '[')
        return span_container_end(t, at);
    const size_t from = at;
    while (at < t.n && strchr(",]} \t\r\n", t.p[at]) == NULL)
        at++;
    return at > from ? at : 0;
}

bool json_span_is_object(str text)
{
    const size_t from = span_skip_space(text, 0);
    if (from >= text.n || text.p[from] != '{')
        return false;
    const size_t end = span_container_end(text, from);
    return end > 0 && span_skip_space(text, end) == text.n;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character at *at of a string, its escape decoded, and the place behind it. -1: it is not
 * ASCII, or the escape is invalid. */
static int span_character(str t, size_t *at)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char c = t.p[(*at)++];
    if (c != '\\')
        return (unsigned char)c < 0x80 ? c : -1;
    if (*at >= t.n)
        return -1;
    const char kind = t.p[(*at)++];
    if (kind == 'u') {
        int code = 0;
        for (int i = 0; i < 4; i++) {
            const int digit = *at < t.n ? hex_value(t.p[(*at)++]) : -1;
            if (digit < 0)
                return -1;
            code = 16 * code + digit;
        }
        return code < 0x80 ? code : -1;
    }
    const char *known = kind != '\0' ? strchr(escapes, kind) : NULL;
    return known != NULL ? meanings[known - escapes] : -1;
}

bool json_span_is_string(str value, const char *text)
{
    if (value.n < 2 || value.p[0] != '"')
        return false;
    const str inner = {value.p + 1, value.n - 2};
    size_t at = 0;
    while (at < inner.n && *text != '\0')
        if (span_character(inner, &at) != *text++)
            return false;
    return at == inner.n && *text == '\0';
}

/* Reads one member at `at`. Returns the end of its value. */
static size_t span_read_member(str t, size_t at, str *name, str *value)
{
    if (at >= t.n || t.p[at] != '"')
        return 0;
    const size_t name_end = span_string_end(t, at);
    if (name_end == 0)
        return 0;
    *name = (str){t.p + at, name_end - at};
    at = span_skip_space(t, name_end);
    if (at >= t.n || t.p[at] != ':')
        return 0;
    at = span_skip_space(t, at + 1);
    const size_t end = span_value_end(t, at);
    if (end > 0)
        *value = (str){t.p + at, end - at};
    return end;
}

bool json_span_member(str object, const char *name, str *value)
{
    bool found = false;
    size_t at = span_skip_space(object, 0);
    if (at >= object.n || object.p[at] != '{')
        return false;
    do {
        str member, content;
        at = span_read_member(object, span_skip_space(object, at + 1), &member, &content);
        if (at == 0)
            return found;
        if (json_span_is_string(member, name)) {
            *value = content;
            found = true;
        }
        at = span_skip_space(object, at);
    } while (at < object.n && object.p[at] == ',');
    return found;
}

uint64_t json_span_count(str object, const char *name)
{
    str value;
    uint64_t n = 0;
    if (!json_span_member(object, name, &value) || value.n > 18)
        return 0;
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9')
            return 0;
        n = 10 * n + (uint64_t)(value.p[i] - '0');
    }
    return n;
}
