/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_cipher.h - encryption of the prefix cache on disk: --cache-key, the key file, the cipher.
 *
 * The cipher is AES-256-GCM of libcrypto (cache_cipher_openssl.c). A build without libcrypto has
 * none (cache_cipher_absent.c): then a key is an error, so nothing is stored unencrypted by
 * mistake. docs/decisions/0030 has the reasons.
 */
#ifndef MOTE_CLI_LOAD_CACHE_CIPHER_H
#define MOTE_CLI_LOAD_CACHE_CIPHER_H

#include "base/err.h"
#include "disk_cache/disk_cipher.h"

/* What commands have in common in --cache-key. A row adds `at`. */
#define CACHE_KEY_FLAG                                                                             \
    .name = "cache-key", .kind = FLAG_TEXT, .value = "FILE", .shown = "not encrypted",             \
    .env = "MOTE_CACHE_KEY",                                                                       \
    .help = "encrypt the prefix cache on disk, and named sessions, with the key in this file; "    \
            "mote cache key FILE makes one"

enum { CACHE_KEY_BYTES = 32 };

/* MOTE_E_UNSUPPORTED: this build has no encryption. */
mote_status cache_cipher_new(disk_cipher **out, const unsigned char key[CACHE_KEY_BYTES],
                             mote_error *err);
/* NULL is allowed. */
void cache_cipher_free(disk_cipher *cipher);

/* ---- cache_key.c ---- */

/* Reads a key file: 32 bytes, or 64 hexadecimal digits. MOTE_E_ARG: it is not one, or others than
 * its owner may read it. */
mote_status cache_key_read(unsigned char key[CACHE_KEY_BYTES], const char *path, mote_error *err);

/* The cipher of --cache-key; *out is NULL if `path` is NULL or empty. Returns an exit code, and has
 * reported the error unless it is 0. */
int cache_key_open(disk_cipher **out, const char *path);
/* Writes a new key to a new file, which only its owner can read. Returns an exit code, likewise. */
int cache_key_create(const char *path);

#endif
