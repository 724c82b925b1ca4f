/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - see digest.h. The only file that uses libcrypto. */
#include "server/core/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

bool digest_of(digest *out, str text)
{
    unsigned n = 0;
    return EVP_Digest(text.p, text.n, out->bytes, &n, EVP_sha256(), NULL) == 1 && n == DIGEST_BYTES;
}

bool digest_equal(const digest *a, const digest *b)
{
    return CRYPTO_memcmp(a->bytes, b->bytes, DIGEST_BYTES) == 0;
}

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

void digest_print(const digest *d, char out[2 * DIGEST_BYTES + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        out[2 * i] = digits[d->bytes[i] >> 4];
        out[2 * i + 1] = digits[d->bytes[i] & 15];
    }
    out[2 * DIGEST_BYTES] = '\0';
}

uint64_t digest_number(const digest *d)
{
    uint64_t n;
    memcpy(&n, d->bytes, sizeof n);
    return n != 0 ? n : 1;
}
