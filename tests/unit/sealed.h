/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sealed.h - the cipher of tests that are built twice: with TEST_SEALED all files are encrypted.
 */
#ifndef MOTE_TESTS_UNIT_SEALED_H
#define MOTE_TESTS_UNIT_SEALED_H

#include "disk_cache/disk_cipher.h"

#ifdef TEST_SEALED
#include "cli/load/cache_cipher.h"

#include <stdlib.h>

static inline const disk_cipher *sealed_cipher(void)
{
    static const unsigned char key[CACHE_KEY_BYTES] = "a key for tests";
    static disk_cipher *cipher;
    if (cipher == NULL && cache_cipher_new(&cipher, key, NULL) != MOTE_OK)
        abort();
    return cipher;
}
#else
static inline const disk_cipher *sealed_cipher(void)
{
    return NULL;
}
#endif

#endif
