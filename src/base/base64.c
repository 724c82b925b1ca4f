/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c - implements base64.h. */
#include "base/base64.h"

#include <stdint.h>

static const char LETTERS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

static char base64_letter(unsigned bits, bool url)
{
    bits &= 63;
    return bits < 62 ? LETTERS[bits] : bits == 62 ? (url ? '-' : '+') : url ? '_' : '/';
}

void base64_put(strbuf *out, str bytes, bool url)
{
    const unsigned char *p = (const unsigned char *)bytes.p;
    if (!strbuf_reserve(out, bytes.n / 3 * 4 + 4))
        return;
    for (size_t i = 0; i < bytes.n; i += 3) {
        const size_t left = bytes.n - i;
        const unsigned bits = (unsigned)p[i] << 16 | (left > 1 ? (unsigned)p[i + 1] << 8 : 0) |
                              (left > 2 ? (unsigned)p[i + 2] : 0);
        out->p[out->n++] = base64_letter(bits >> 18, url);
        out->p[out->n++] = base64_letter(bits >> 12, url);
        if (left > 1 || !url)
            out->p[out->n++] = left > 1 ? base64_letter(bits >> 6, url) : '=';
        if (left > 2 || !url)
            out->p[out->n++] = left > 2 ? base64_letter(bits, url) : '=';
    }
}

enum { NO_LETTER = -1, BLANK = -2, PADDING = -3 };

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    switch (c) {
    case '+':
    case '-': return 62;
    case '/':
    case '_': return 63;
    case '=': return PADDING;
    case ' ':
    case '\t':
    case '\r':
    case '\n': return BLANK;
    default: return NO_LETTER;
    }
}

bool base64_get(strbuf *out, str text)
{
    uint32_t bits = 0;
    unsigned held = 0;
    size_t letters = 0, padding = 0;
    if (!strbuf_reserve(out, text.n / 4 * 3 + 3))
        return false;
    for (size_t i = 0; i < text.n; i++) {
        const int value = base64_value(text.p[i]);
        if (value == BLANK)
            continue;
        if (value == NO_LETTER || (value == PADDING ? ++padding > 2 : padding > 0))
            return false;
        if (value == PADDING)
            continue;
        letters++;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out->p[out->n++] = (char)(bits >> held & 255);
        }
    }
    return letters % 4 != 1 && (padding == 0 || (letters + padding) % 4 == 0);
}
