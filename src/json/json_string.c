/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_string.c - what stands between two quotes, decoded.
 *
 * Nothing here is longer decoded than spelt: an escape of six bytes is a character of
 * at most three, two of them that make a pair are one of four.
 */
#include "json/json_int.h"

#include "base/utf8.h"

enum {
    REPLACEMENT = 0xFFFD,
    HIGH_SURROGATE = 0xD800,
    LOW_SURROGATE = 0xDC00,
    AFTER_SURROGATES = 0xE000,
    BEYOND_16_BITS = 0x10000,
    UNIT_BYTES = 6 /* \uXXXX */
};

/* The code unit of an escape \uXXXX at this place; -1: there is none. */
static int32_t code_unit(str text, size_t at)
{
    int32_t code = 0;
    if (text.n - at < UNIT_BYTES || text.p[at] != '\\' || text.p[at + 1] != 'u')
        return -1;
    for (size_t i = at + 2; i < at + UNIT_BYTES; i++) {
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

/* The character that one or two escapes \uXXXX spell; half a pair spells U+FFFD. -1: none. */
static int32_t escaped_character(str text, size_t *at)
{
    const int32_t code = code_unit(text, *at);
    if (code < 0)
        return -1;
    *at += UNIT_BYTES;
    if (code < HIGH_SURROGATE || code >= AFTER_SURROGATES)
        return code;
    const int32_t low = code < LOW_SURROGATE ? code_unit(text, *at) : -1;
    if (low < LOW_SURROGATE || low >= AFTER_SURROGATES)
        return REPLACEMENT;
    *at += UNIT_BYTES;
    return BEYOND_16_BITS + ((code - HIGH_SURROGATE) << 10 | (low - LOW_SURROGATE));
}

/* At a backslash. Returns the bytes written; 0: this is no escape. */
static size_t read_escape(str text, size_t *at, char *out)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (text.n - *at < 2)
        return 0;
    const char *name = memchr(names, text.p[*at + 1], sizeof names - 1);
    if (name != NULL) {
        *at += 2;
        *out = means[name - names];
        return 1;
    }
    const int32_t code = escaped_character(text, at);
    return code < 0 ? 0 : utf8_put((unsigned char *)out, (uint32_t)code);
}

/* How many bytes from here on stand for themselves; stops at quotes, backslashes and mistakes. */
static size_t plain_bytes(str text, size_t at)
{
    const unsigned char *p = (const unsigned char *)text.p;
    const size_t from = at;
    while (at < text.n && p[at] >= 0x20 && p[at] != '"' && p[at] != '\\') {
        const int bytes = utf8_check(p + at, text.n - at);
        if (bytes <= 0)
            break;
        at += (size_t)bytes;
    }
    return at - from;
}

static const char *mistake_at(str text, size_t at)
{
    if (at == text.n)
        return "a string without an end";
    return (unsigned char)text.p[at] < 0x20 ? "a control character in a string"
                                            : "a byte in a string that is not UTF-8";
}

const char *json_string_read(str text, size_t *at, char *out, size_t *n)
{
    for (;;) {
        const size_t plain = plain_bytes(text, *at);
        memcpy(out + *n, text.p + *at, plain);
        *n += plain;
        *at += plain;
        if (*at < text.n && text.p[*at] == '"') {
            ++*at;
            return NULL;
        }
        if (*at == text.n || text.p[*at] != '\\')
            return mistake_at(text, *at);
        const size_t bytes = read_escape(text, at, out + *n);
        if (bytes == 0)
            return "a backslash that begins no escape";
        *n += bytes;
    }
}
