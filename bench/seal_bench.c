/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seal_bench.c - the cost of encrypting the disk cache: bytes per second of the cipher in memory,
 * and of records in the page cache with and without it. One thread.
 *
 *   seal_bench DIRECTORY [RECORDS]   records of 2 MB, 100 unless given; creates the directory
 *
 *   cc -O2 -Iinclude -Isrc bench/seal_bench.c src/cli/load/cache_cipher_openssl.c
 *       build/release/libmote.a -lcrypto -lutf8proc -lpthread -lm -o build/seal_bench
 */
#include "base/os.h"
#include "cli/load/cache_cipher.h"
#include "disk_cache/disk_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 2 << 20, ROUNDS = 5 };

static unsigned char *block;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "seal_bench: %s\n", what);
    exit(1);
}

static bool source(void *with, void *to, uint64_t offset, size_t n)
{
    memcpy(to, (unsigned char *)with + offset, n);
    return true;
}

static void show(const char *what, double bytes, double seconds)
{
    printf("%-28s %7.2f GB/s\n", what, bytes / seconds / 1e9);
}

/* Seals and opens pieces of 256 KiB in place. */
static void time_cipher(const disk_cipher *cipher, bool seal)
{
    unsigned char tags[BYTES / DISK_PIECE_BYTES][DISK_TAG_BYTES];
    double best = 1e9;
    for (int round = 0; round < 20 * ROUNDS; round++) {
        const unsigned char salt[DISK_SALT_BYTES] = {(unsigned char)round};
        for (int way = 0; way < 2; way++) {
            const double began = os_now();
            void *record = cipher->begin(cipher->with, salt, way == 0);
            for (size_t i = 0; i < BYTES / DISK_PIECE_BYTES; i++) {
                unsigned char *at = block + i * DISK_PIECE_BYTES;
                const disk_piece p = {
                    .number = i, .in = at, .out = at, .bytes = DISK_PIECE_BYTES, .tag = tags[i]};
                if (!cipher->piece(record, &p))
                    die("a piece failed");
            }
            cipher->end(record);
            const double took = os_now() - began;
            if ((way == 0) == seal && took < best)
                best = took;
        }
    }
    show(seal ? "seal in memory" : "open in memory", BYTES, best);
}

/* Deriving the key of a record and preparing the cipher. */
static void time_begin(const disk_cipher *cipher)
{
    enum { N = 20000 };
    const unsigned char salt[DISK_SALT_BYTES] = {1};
    const double began = os_now();
    for (int i = 0; i < N; i++)
        cipher->end(cipher->begin(cipher->with, salt, true));
    printf("%-28s %7.2f us\n", "begin and end of a record", (os_now() - began) / N * 1e6);
}

/* Records in the directory: written and synced, read from the page cache. */
static void time_records(const char *directory, const disk_cipher *cipher, uint64_t n)
{
    disk_cache *c;
    mote_error err;
    double best = 1e9;
    if (disk_cache_open(&c, directory, (n + 2) * (BYTES + 8192), false, cipher, &err) != MOTE_OK)
        die(err.text);
    double began = os_now();
    for (uint64_t i = 0; i < n; i++) {
        disk_head h = {.kind = DISK_PAGE, .key = {{i, 7}}, .payload_bytes = BYTES};
        if (disk_cache_put(c, &h, 1, source, block, &err) != MOTE_OK)
            die(err.text);
    }
    show(cipher != NULL ? "write encrypted" : "write", (double)n * BYTES, os_now() - began);
    for (int round = 0; round < ROUNDS; round++) {
        began = os_now();
        for (uint64_t i = 0; i < n; i++) {
            const disk_head h = {.kind = DISK_PAGE, .key = {{i, 7}}, .payload_bytes = BYTES};
            if (disk_cache_get(c, &h, block, NULL, &err) != MOTE_OK)
                die(err.text);
        }
        best = os_now() - began < best ? os_now() - began : best;
    }
    show(cipher != NULL ? "read encrypted" : "read", (double)n * BYTES, best);
    disk_cache_remove_all(c, &err);
    disk_cache_close(c);
}

int main(int argc, char **argv)
{
    const unsigned char key[CACHE_KEY_BYTES] = "seal_bench";
    const uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    disk_cipher *cipher;
    mote_error err;
    block = malloc(BYTES);
    if (argc < 2 || block == NULL)
        die("usage: seal_bench DIRECTORY [RECORDS]");
    if (cache_cipher_new(&cipher, key, &err) != MOTE_OK)
        die(err.text);
    for (size_t i = 0; i < BYTES; i++)
        block[i] = (unsigned char)(i * 2654435761u >> 13);
    time_cipher(cipher, true);
    time_cipher(cipher, false);
    time_begin(cipher);
    time_records(argv[1], NULL, n);
    time_records(argv[1], cipher, n);
    cache_cipher_free(cipher);
    free(block);
    return 0;
}
