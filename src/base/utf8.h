/* SPDX-License-Identifier: Apache-2.0 */
/*
 * utf8.h - UTF-8 decoder and encoder.
 *
 * Ill-formed input follows the Unicode recommendation, like Python and Rust: the longest valid
 * prefix of a character counts as one error (maximal subpart).
 */
#ifndef MOTE_BASE_UTF8_H
#define MOTE_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* U+FFFD, the replacement for one error. */
static const unsigned char UTF8_REPLACEMENT[3] = {0xEF, 0xBF, 0xBD};

/*
 * Classifies the n >= 1 bytes at p. Positive: a character of that many bytes. 0: the n bytes are an
 * incomplete character. Negative: the first -result bytes are one error.
 */
static inline int utf8_check(const unsigned char *p, size_t n)
{
    unsigned lead = p[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return -1;
    int bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    /* The second byte has special limits: no overlong forms, no surrogates, at most U+10FFFF. */
    unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < bytes; i++) {
        if ((size_t)i == n)
            return 0;
        if (p[i] < low || p[i] > high)
            return -i;
        low = 0x80;
        high = 0xBF;
    }
    return bytes;
}

/* Decodes the character at p of well-formed text; *bytes is its length. */
static inline uint32_t utf8_get(const unsigned char *p, size_t *bytes)
{
    uint32_t lead = p[0];
    if (lead < 0x80) {
        *bytes = 1;
        return lead;
    }
    if (lead < 0xE0) {
        *bytes = 2;
        return (lead & 0x1F) << 6 | (p[1] & 0x3Fu);
    }
    if (lead < 0xF0) {
        *bytes = 3;
        return (lead & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *bytes = 4;
    return (lead & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

/* Encodes a code point; returns its length. */
static inline size_t utf8_put(unsigned char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (unsigned char)(0xC0 | c >> 6);
        out[1] = (unsigned char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (unsigned char)(0xE0 | c >> 12);
        out[1] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (unsigned char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (unsigned char)(0xF0 | c >> 18);
    out[1] = (unsigned char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (unsigned char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (unsigned char)(0x80 | (c & 0x3F));
    return 4;
}

#endif
