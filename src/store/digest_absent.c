/* SPDX-License-Identifier: Apache-2.0 */
/* digest_absent.c - digest.h in a build that cannot compute hashes. */
#include "store/digest.h"

bool digest_of(digest *out, str text)
{
    (void)out, (void)text;
    return false;
}

bool digest_equal(const digest *a, const digest *b)
{
    (void)a, (void)b;
    return false;
}

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
