/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - SHA-256 (libcrypto) and comparison in constant time. */
#ifndef MOTE_SERVER_CORE_DIGEST_H
#define MOTE_SERVER_CORE_DIGEST_H

#include "base/str.h"

#include <stdint.h>

enum { DIGEST_BYTES = 32 };

typedef struct digest {
    unsigned char bytes[DIGEST_BYTES];
} digest;

/* false: the library has no memory or no SHA-256. */
bool digest_of(digest *out, str text);
/* Takes as long for equal ones as for others. */
bool digest_equal(const digest *a, const digest *b);
/* From 64 hexadecimal digits; false: that is something else. */
bool digest_parse(digest *out, str hex);
/* 64 digits and a terminating zero. */
void digest_print(const digest *d, char out[2 * DIGEST_BYTES + 1]);
/* The first eight bytes as a number, never 0. */
uint64_t digest_number(const digest *d);

#endif
