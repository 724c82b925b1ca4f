/* SPDX-License-Identifier: Apache-2.0 */
/* cache_cipher_absent.c - cache_cipher.h in a build without libcrypto. */
#include "cli/load/cache_cipher.h"

mote_status cache_cipher_new(disk_cipher **out, const unsigned char key[CACHE_KEY_BYTES],
                             mote_error *err)
{
    (void)key;
    *out = NULL;
    return err_set(
        err, MOTE_E_UNSUPPORTED,
        "this build has no encryption: build mote with libcrypto (Debian: libssl-dev; not "
        "on macOS), or put the cache on an encrypted file system and omit --cache-key");
}

void cache_cipher_free(disk_cipher *cipher)
{
    (void)cipher;
}
