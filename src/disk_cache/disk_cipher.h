/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_cipher.h - how the files of a cache directory are encrypted: a table of functions.
 *
 * The library has no cryptography: the program provides the table (src/cli/load/cache_cipher.h).
 * Where a cipher is NULL, files are not encrypted.
 *
 * Each record has a key of its own, which follows from the user's key and a random salt. So no two
 * records share a key, and inside a record the number of a piece is its nonce: none is ever used
 * twice. docs/decisions/0030 has the reasons.
 *
 * All functions are thread-safe; what `begin` returns belongs to one thread.
 */
#ifndef MOTE_DISK_CACHE_DISK_CIPHER_H
#define MOTE_DISK_CACHE_DISK_CIPHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DISK_SALT_BYTES = 32, DISK_TAG_BYTES = 16, DISK_NAME_KEY_BYTES = 16 };

/* One piece of a record. in and out may be the same; at most 1 GiB. */
typedef struct disk_piece {
    uint64_t number;  /* in the record, from 0 */
    const void *with; /* [with_bytes], not encrypted but authenticated; NULL: none */
    size_t with_bytes;
    const void *in; /* [bytes] */
    void *out;
    size_t bytes;
    unsigned char *tag; /* [DISK_TAG_BYTES]: written by seal, compared by open */
} disk_piece;

typedef struct disk_cipher {
    void *with;
    uint64_t key_id; /* identifies the user's key and reveals nothing else about it */
    /* A permutation that depends on the user's key: the key of a record to its file name, or
     * `back`. Without the user's key a name does not reveal its prompt. False: it failed. */
    bool (*map_name)(void *with, const unsigned char in[DISK_NAME_KEY_BYTES], bool back,
                     unsigned char out[DISK_NAME_KEY_BYTES]);
    /* Begins to seal or to open a record. NULL: out of memory. */
    void *(*begin)(void *with, const unsigned char salt[DISK_SALT_BYTES], bool seal);
    /* Seals (encrypts, writes the tag) or opens (decrypts, compares the tag) a piece. False when
     * opening: the bytes were changed; `out` must not be used. */
    bool (*piece)(void *record, const disk_piece *p);
    /* NULL is allowed. */
    void (*end)(void *record);
} disk_cipher;

#endif
