/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.c - texts of hashes. See digest.h. The hashes themselves are computed by digest_openssl.c,
 * digest_macos.c or, in a build with neither, digest_absent.c.
 */
#include "store/digest.h"

#include <stdio.h>

static int hex_digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool digest_parse(digest *out, str hex)
{
    if (hex.n != (size_t)2 * DIGEST_BYTES)
        return false;
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        int high = hex_digit_value(hex.p[2 * i]), low = hex_digit_value(hex.p[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out->bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

void digest_print_hex(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

void digest_print(const digest *d, char out[2 * DIGEST_BYTES + 1])
{
    digest_print_hex(d->bytes, DIGEST_BYTES, out);
}

uint64_t digest_number(const digest *d)
{
    uint64_t n;
    memcpy(&n, d->bytes, sizeof n);
    return n != 0 ? n : 1;
}

/* ---- data in pieces ---- */

enum { GIT_HASH_BYTES = 20 };

bool hash_kind_of(hash_kind *out, str hex)
{
    for (size_t i = 0; i < hex.n; i++)
        if (!((hex.p[i] >= '0' && hex.p[i] <= '9') || (hex.p[i] >= 'a' && hex.p[i] <= 'f')))
            return false;
    *out = hex.n == (size_t)2 * DIGEST_BYTES ? HASH_SHA256 : HASH_GIT_BLOB;
    return hex.n == (size_t)2 * DIGEST_BYTES || hex.n == (size_t)2 * GIT_HASH_BYTES;
}

void digest_add_git_head(hasher *h, uint64_t bytes)
{
    char head[32];
    const int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)bytes);
    hasher_add(h, head, (size_t)n + 1); /* with the zero byte */
}
