/* SPDX-License-Identifier: Apache-2.0 */
/* digest_openssl.c - hashes of digest.h by libcrypto. */
#include "store/digest.h"

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
    if (kind == HASH_GIT_BLOB)
        digest_add_git_head(h, bytes);
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
    digest_print_hex(hash, n, out);
    return MOTE_OK;
}

void hasher_fini(hasher *h)
{
    EVP_MD_CTX_free(h->context);
    *h = (hasher){0};
}
