/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - SHA-256 (libcrypto) with constant-time comparison. Thread-safe. */
#ifndef MOTE_SERVER_CORE_DIGEST_H
#define MOTE_SERVER_CORE_DIGEST_H

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

#endif
