/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c - see digest.h. The only file that uses libcrypto. */
#include "store/digest.h"

#include <openssl/crypto.h>
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

static void hex_print(const unsigned char *bytes, size_t n, char *out)
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
    hex_print(d->bytes, DIGEST_BYTES, out);
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

#ifdef MOTE_LIBCRYPTO
mote_status hasher_begin(hasher *h, hash_kind kind, uint64_t bytes, mote_error *err)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    *h = (hasher){.context = context};
    if (context == NULL ||
        EVP_DigestInit_ex(context, kind == HASH_SHA256 ? EVP_sha256() : EVP_sha1(), NULL) != 1) {
        hasher_fini(h);
        return err_set(err, MOTE_E_UNSUPPORTED, "libcrypto cannot compute %s",
                       kind == HASH_SHA256 ? "SHA-256" : "SHA-1");
    }
    if (kind == HASH_GIT_BLOB) {
        char head[32];
        const int n = snprintf(head, sizeof head, "blob %llu", (unsigned long long)bytes);
        hasher_add(h, head, (size_t)n + 1); /* with the zero byte */
    }
    return MOTE_OK;
}

void hasher_add(hasher *h, const void *data, size_t bytes)
{
    if (EVP_DigestUpdate(h->context, data, bytes) != 1)
        h->failed = true;
}

mote_status hasher_end(hasher *h, char out[HASH_TEXT_BYTES], mote_error *err)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    const bool ok =
        EVP_DigestFinal_ex(h->context, hash, &n) == 1 && !h->failed && n <= DIGEST_BYTES;
    hasher_fini(h);
    if (!ok)
        return err_set(err, MOTE_E_UNSUPPORTED, "libcrypto failed to compute a hash");
    hex_print(hash, n, out);
    return MOTE_OK;
}

void hasher_fini(hasher *h)
{
    EVP_MD_CTX_free(h->context);
    *h = (hasher){0};
}
#else
mote_status hasher_begin(hasher *h, hash_kind kind, uint64_t bytes, mote_error *err)
{
    (void)kind;
    (void)bytes;
    *h = (hasher){0};
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "this build has no libcrypto and cannot compute hashes (Debian: libssl-dev)");
}

void hasher_add(hasher *h, const void *data, size_t bytes)
{
    (void)h;
    (void)data;
    (void)bytes;
}

mote_status hasher_end(hasher *h, char out[HASH_TEXT_BYTES], mote_error *err)
{
    (void)out;
    return hasher_begin(h, HASH_SHA256, 0, err);
}

void hasher_fini(hasher *h)
{
    *h = (hasher){0};
}
#endif
