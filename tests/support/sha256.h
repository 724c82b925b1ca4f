/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4). */
#ifndef MOTE_TESTS_SUPPORT_SHA256_H
#define MOTE_TESTS_SUPPORT_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct test_sha256 {
    uint32_t h[8];
    uint64_t total;
    unsigned char block[64];
} test_sha256;

void test_sha256_begin(test_sha256 *s);
void test_sha256_add(test_sha256 *s, const void *data, size_t bytes);
/* Writes 64 hexadecimal digits and a NUL. */
void test_sha256_end(test_sha256 *s, char hex[65]);

#endif
