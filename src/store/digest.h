/* SPDX-License-Identifier: Apache-2.0 */
/*
 * digest.h - SHA-256 of a text, and hashes of data that arrives in pieces (libcrypto, on macOS
 * CommonCrypto).
 *
 * Thread-safe; a hasher belongs to one thread at a time. In a build with neither, digest_of
 * and digest_equal return false and hasher_begin MOTE_E_UNSUPPORTED.
 */
#ifndef MOTE_STORE_DIGEST_H
#define MOTE_STORE_DIGEST_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum { DIGEST_BYTES = 32 };

typedef struct digest {
    unsigned char bytes[DIGEST_BYTES];
} digest;

/* false: libcrypto is out of memory or has no SHA-256. */
bool digest_of(digest *out, str text);
/* Constant time. */
bool digest_equal(const digest *a, const digest *b);
/* Parses 64 hex digits; false: the text is anything else. */
bool digest_parse(digest *out, str hex);
/* 64 hex digits, zero-terminated. */
void digest_print(const digest *d, char out[2 * DIGEST_BYTES + 1]);
/* The first eight bytes as a number, never 0. */
uint64_t digest_number(const digest *d);

/* ---- data in pieces ---- */

/* The two hashes that name the files of a Hugging Face repository. */
typedef enum hash_kind {
    HASH_SHA256,  /* files in LFS: 64 hex digits */
    HASH_GIT_BLOB /* files in git: 40 hex digits, SHA-1 of "blob LENGTH", a zero byte, the data */
} hash_kind;

enum { HASH_TEXT_BYTES = 2 * DIGEST_BYTES + 1 };

/* The kind of a hash in lower-case hex digits, by its length; false: the text is not such a hash.
 * Only a text that passes may become a file name. */
bool hash_kind_of(hash_kind *out, str hex);

typedef struct hasher {
    void *context; /* NULL: not started */
    bool failed;
} hasher;

/* `bytes` is the length of all data; only HASH_GIT_BLOB uses it. */
mote_status hasher_begin(hasher *h, hash_kind kind, uint64_t bytes, mote_error *err);
/* A failure is reported by hasher_end. */
void hasher_add(hasher *h, const void *data, size_t bytes);
/* Writes the hash in lower-case hex digits, zero-terminated, and ends the hasher. */
mote_status hasher_end(hasher *h, char out[HASH_TEXT_BYTES], mote_error *err);
/* Ends a hasher without a hash. Does nothing after hasher_end. */
void hasher_fini(hasher *h);

/* For the files that compute hashes: bytes as lower-case hex digits, zero-terminated; what comes before
 * the data of a git blob. */
void digest_print_hex(const unsigned char *bytes, size_t n, char *out);
void digest_add_git_head(hasher *h, uint64_t bytes);

#endif
