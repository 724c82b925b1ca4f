/* SPDX-License-Identifier: Apache-2.0 */
/* digest_macos.c - hashes of digest.h by CommonCrypto, which is a part of macOS. */
#include "store/digest.h"

#include "base/mem.h"

#include <CommonCrypto/CommonDigest.h>

typedef struct mac_context {
    hash_kind kind;
    CC_SHA256_CTX sha256;
    CC_SHA1_CTX sha1;
} mac_context;

/* Lengths of one call are 32-bit numbers. */
enum { MOST_BYTES = 1 << 30 };

bool digest_of(digest *out, str text)
{
    CC_SHA256_CTX context;
    CC_SHA256_Init(&context);
    for (size_t at = 0, n; at < text.n; at += n) {
        n = text.n - at < MOST_BYTES ? text.n - at : MOST_BYTES;
        CC_SHA256_Update(&context, text.p + at, (CC_LONG)n);
    }
    CC_SHA256_Final(out->bytes, &context);
    return true;
}

bool digest_equal(const digest *a, const digest *b)
{
    volatile unsigned char differs = 0;
    for (size_t i = 0; i < DIGEST_BYTES; i++)
        differs |= a->bytes[i] ^ b->bytes[i];
    return differs == 0;
}

mote_status hasher_begin(hasher *h, hash_kind kind, uint64_t bytes, mote_error *err)
{
    mac_context *context = mem_new(1, sizeof *context);
    *h = (hasher){.context = context};
    if (context == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for a hash", sizeof *context);
    context->kind = kind;
    CC_SHA256_Init(&context->sha256);
    CC_SHA1_Init(&context->sha1);
    if (kind == HASH_GIT_BLOB)
        digest_add_git_head(h, bytes);
    return MOTE_OK;
}

void hasher_add(hasher *h, const void *data, size_t bytes)
{
    mac_context *context = h->context;
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < MOST_BYTES ? bytes - at : MOST_BYTES;
        if (context->kind == HASH_SHA256)
            CC_SHA256_Update(&context->sha256, (const char *)data + at, (CC_LONG)n);
        else
            CC_SHA1_Update(&context->sha1, (const char *)data + at, (CC_LONG)n);
    }
}

mote_status hasher_end(hasher *h, char out[HASH_TEXT_BYTES], mote_error *err)
{
    mac_context *context = h->context;
    unsigned char hash[DIGEST_BYTES];
    (void)err;
    if (context->kind == HASH_SHA256)
        CC_SHA256_Final(hash, &context->sha256);
    else
        CC_SHA1_Final(hash, &context->sha1);
    digest_print_hex(
        hash, context->kind == HASH_SHA256 ? CC_SHA256_DIGEST_LENGTH : CC_SHA1_DIGEST_LENGTH, out);
    hasher_fini(h);
    return MOTE_OK;
}

void hasher_fini(hasher *h)
{
    mem_free(h->context);
    *h = (hasher){0};
}
