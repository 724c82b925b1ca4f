/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_sealed_test.c - the encrypted disk cache: what is on disk, damage, exchanged records,
 * several keys in one directory, answers, texts of sessions, key files.
 *
 * The cipher is the real one. The contents of a record follow from its number, so a wrong answer is
 * found whatever happened before.
 */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include "base/mem.h"
#include "cli/load/cache_cipher.h"
#include "cli/term/output.h"
#include "disk_cache/answer_file.h"
#include "disk_cache/disk_cache.h"
#include "disk_cache/disk_directory.h"
#include "disk_cache/sealed_text.h"
#include "support/random.h"
#include "support/test_files.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { CAP = 1 << 26, MAX_FILE = 2 << 20, NAME_BYTES = 400 };

static char directory[] = "/tmp/mote-sealed-XXXXXX";
static disk_cipher *keys[2];
static unsigned char *bytes, *got, *file_bytes;

static int make_directory(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        unsigned char key[CACHE_KEY_BYTES] = "key of the test";
        key[31] = (unsigned char)i;
        if (cache_cipher_new(&keys[i], key, NULL) != MOTE_OK)
            return -1;
    }
    bytes = malloc(MAX_FILE);
    got = malloc(MAX_FILE);
    file_bytes = malloc(MAX_FILE);
    return bytes != NULL && got != NULL && file_bytes != NULL && mkdtemp(directory) != NULL ? 0
                                                                                            : -1;
}

static void count_record(const char *name, void *with)
{
    *(size_t *)with += strstr(name, "/lock") == NULL;
}

static size_t count_files(void)
{
    size_t n = 0;
    test_files(directory, "", count_record, &n);
    return n;
}

static int empty_directory(void **state)
{
    (void)state;
    test_files(directory, "", test_file_remove, NULL);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    cache_cipher_free(keys[0]);
    cache_cipher_free(keys[1]);
    cache_cipher_free(NULL);
    free(bytes);
    free(got);
    free(file_bytes);
    return rmdir(directory);
}

/* ---- records ---- */

static disk_cache *cache_of(const disk_cipher *cipher)
{
    disk_cache *c;
    mote_error err = {0};
    if (disk_cache_open(&c, directory, CAP, false, cipher, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    return c;
}

static disk_head head_of(uint64_t n, disk_kind kind, uint64_t payload)
{
    test_random r = {n};
    disk_head h = {.kind = kind,
                   .key = {{test_random_u64(&r), n}},
                   .parent = {{test_random_u64(&r), 5}},
                   .binding = {{test_random_u64(&r), test_random_u64(&r)}},
                   .ns = test_random_u64(&r),
                   .position = 64,
                   .payload_bytes = payload,
                   .n_tokens = 64};
    for (uint32_t i = 0; i < h.n_tokens; i++)
        h.tokens[i] = (int32_t)test_random_below(&r, 250000);
    snprintf(h.label, sizeof h.label, "name of the model %llu", (unsigned long long)n);
    return h;
}

static void fill(const disk_head *h, unsigned char *to)
{
    test_random r = {h->key.word[0]};
    for (uint64_t i = 0; i < h->payload_bytes; i++)
        to[i] = (unsigned char)test_random_u64(&r);
}

static bool source(void *with, void *to, uint64_t offset, size_t n)
{
    memcpy(to, (unsigned char *)with + offset, n);
    return true;
}

static void put(disk_cache *c, disk_head h)
{
    mote_error err = {0};
    fill(&h, bytes);
    if (disk_cache_put(c, &h, 1, source, bytes, &err) != MOTE_OK)
        fail_msg("%s", err.text);
}

/* The record is read with its contents, or not at all. Returns true if it is. */
static bool read_right(disk_cache *c, const disk_head *h)
{
    mote_error err;
    memset(got, 0xa5, (size_t)h->payload_bytes);
    if (disk_cache_get(c, h, got, NULL, &err) != MOTE_OK)
        return false;
    fill(h, bytes);
    assert_memory_equal(got, bytes, h->payload_bytes);
    return true;
}

/* The same with an object that reads the directory first, as a new process does. */
static bool read_anew(const disk_cipher *cipher, const disk_head *h)
{
    disk_cache *c = cache_of(cipher);
    const bool found = disk_cache_has(c, h->key) && read_right(c, h);
    disk_cache_close(c);
    return found;
}

static void path_of(char out[NAME_BYTES], const disk_cipher *cipher, const disk_head *h)
{
    char name[DISK_NAME_BYTES];
    assert_true(disk_file_name(name, cipher, h->key, (disk_kind)h->kind));
    snprintf(out, NAME_BYTES, "%s/%s", directory, name);
}

static size_t load(const char *path, unsigned char *out)
{
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    const ssize_t n = read(fd, out, MAX_FILE);
    close(fd);
    assert_true(n > 0 && n < MAX_FILE);
    return (size_t)n;
}

static void store(const char *path, const unsigned char *from, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, from, n), (ssize_t)n);
    close(fd);
}

/* Short patterns occur by chance in encrypted bytes; from 7 bytes on they do not. */
static bool contains(const unsigned char *in, size_t n, const void *what, size_t m)
{
    assert_true(m >= 7);
    for (size_t i = 0; i + m <= n; i++)
        if (in[i] == *(const unsigned char *)what && memcmp(in + i, what, m) == 0)
            return true;
    return false;
}

static void round_trip(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1,
                                     1000,
                                     DISK_PIECE_BYTES - 1,
                                     DISK_PIECE_BYTES,
                                     DISK_PIECE_BYTES + 1,
                                     3 * DISK_PIECE_BYTES + 77};
    disk_cache *c = cache_of(keys[0]);
    mote_error err;
    for (uint64_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const disk_head h = head_of(i, (disk_kind)(DISK_PAGE + i % 4), sizes[i]);
        char path[NAME_BYTES];
        struct stat info;
        put(c, h);
        assert_true(disk_cache_has(c, h.key));
        assert_true(read_right(c, &h));
        assert_true(read_anew(keys[0], &h));
        assert_int_equal(disk_cache_verify(c, h.key, &err), MOTE_OK);
        path_of(path, keys[0], &h);
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_size, disk_record_file_bytes(sizes[i], true));
        assert_int_equal(info.st_mode & 0777, 0600);
    }
    disk_cache_close(c);
}

/* Neither tokens nor contents nor what identifies a record can be read, not even from the name. */
static void nothing_can_be_read(void **state)
{
    (void)state;
    disk_cache *c = cache_of(keys[0]);
    const disk_head h = head_of(1, DISK_PAGE, 300000);
    char path[NAME_BYTES], other[NAME_BYTES], plain[DISK_NAME_BYTES];
    put(c, h);
    path_of(path, keys[0], &h);
    const size_t n = load(path, file_bytes);
    fill(&h, bytes);
    for (size_t i = 0; i + 16 <= h.payload_bytes; i += 5000)
        assert_false(contains(file_bytes, n, bytes + i, 16));
    for (size_t i = 0; i + 2 <= h.n_tokens; i++)
        assert_false(contains(file_bytes, n, &h.tokens[i], 2 * sizeof *h.tokens));
    assert_false(contains(file_bytes, n, "name of", 7));
    assert_false(contains(file_bytes, n, &h.key, 8));
    assert_false(contains(file_bytes, n, &h.parent, 8));
    assert_false(contains(file_bytes, n, &h.binding, 8));
    assert_false(contains(file_bytes, n, &h.ns, 8));
    disk_record_name(plain, h.key, DISK_PAGE);
    assert_null(strstr(path, plain));
    path_of(other, keys[1], &h);
    assert_string_not_equal(path, other);
    disk_cache_close(c);
}

/* Equal contents do not look equal: in two records, in two writes of one, in the pieces of one. */
static void equal_contents_look_different(void **state)
{
    (void)state;
    enum { BYTES = 2 * DISK_PIECE_BYTES };
    unsigned char *before = malloc(MAX_FILE);
    char path[NAME_BYTES];
    disk_cache *c = cache_of(keys[0]);
    assert_non_null(before);
    memset(bytes, 0, BYTES);
    for (uint64_t i = 0; i < 3; i++) {
        disk_head h = head_of(i == 2, DISK_PAGE, BYTES);
        assert_int_equal(disk_cache_put(c, &h, 1, source, bytes, NULL), MOTE_OK);
        path_of(path, keys[0], &h);
        const size_t n = load(path, file_bytes);
        const unsigned char *first = file_bytes + DISK_SEALED_HEAD_BYTES;
        for (size_t k = 0; k < DISK_PIECE_BYTES; k += 16) {
            assert_memory_not_equal(first + k, first + k + DISK_PIECE_BYTES + DISK_TAG_BYTES, 16);
            if (i > 0)
                assert_memory_not_equal(first + k, before + DISK_SEALED_HEAD_BYTES + k, 16);
        }
        memcpy(before, file_bytes, n);
        disk_cache_remove_all(c, NULL);
    }
    free(before);
    disk_cache_close(c);
}

static void every_flipped_byte_is_a_miss(void **state)
{
    (void)state;
    const disk_head h = head_of(3, DISK_STATE, 100);
    char path[NAME_BYTES];
    disk_cache *c = cache_of(keys[0]);
    put(c, h);
    path_of(path, keys[0], &h);
    const size_t n = load(path, file_bytes);
    assert_int_equal(n, DISK_SEALED_HEAD_BYTES + 100 + DISK_TAG_BYTES);
    for (size_t i = 0; i < n; i++) {
        file_bytes[i] ^= (unsigned char)(1 << i % 8);
        store(path, file_bytes, n);
        assert_false(read_anew(keys[0], &h));
        store(path, file_bytes, n);
        assert_false(read_right(c, &h)); /* removed, or of another key */
        file_bytes[i] ^= (unsigned char)(1 << i % 8);
    }
    store(path, file_bytes, n);
    assert_true(read_anew(keys[0], &h));
    for (size_t cut = 0; cut < n; cut += 7) {
        store(path, file_bytes, cut);
        assert_false(read_anew(keys[0], &h));
    }
    file_bytes[n] = 0;
    store(path, file_bytes, n + 1);
    assert_false(read_anew(keys[0], &h));
    disk_cache_close(c);
}

/* Puts the files of two records at each other's place, or parts of them. */
static void exchanged_records_are_misses(void **state)
{
    (void)state;
    enum { BYTES = 2 * DISK_PIECE_BYTES, PIECE = DISK_PIECE_BYTES + DISK_TAG_BYTES };
    unsigned char *a = malloc(MAX_FILE), *b = malloc(MAX_FILE), *both = malloc(MAX_FILE);
    const disk_head ha = head_of(10, DISK_PAGE, BYTES), hb = head_of(11, DISK_PAGE, BYTES);
    char pa[NAME_BYTES], pb[NAME_BYTES];
    disk_cache *c = cache_of(keys[0]);
    assert_true(a != NULL && b != NULL && both != NULL);
    put(c, ha);
    put(c, hb);
    path_of(pa, keys[0], &ha);
    path_of(pb, keys[0], &hb);
    const size_t n = load(pa, a);
    assert_int_equal(load(pb, b), n);
    const struct {
        size_t at, bytes;
        const unsigned char *from;
    } parts[] = {
        {0, n, b},                                                           /* the whole file */
        {0, DISK_SEALED_HEAD_BYTES, b},                                      /* the head */
        {DISK_SEALED_HEAD_BYTES, n - DISK_SEALED_HEAD_BYTES, b},             /* the payload */
        {DISK_SEALED_HEAD_BYTES + PIECE, PIECE, b},                          /* a piece */
        {offsetof(disk_sealed_head, salt), DISK_SALT_BYTES, b},              /* the salt */
        {DISK_SEALED_HEAD_BYTES, PIECE, a + DISK_SEALED_HEAD_BYTES + PIECE}, /* another piece */
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        memcpy(both, a, n);
        memcpy(both + parts[i].at, parts[i].from, parts[i].bytes);
        store(pa, both, n);
        assert_false(read_right(c, &ha));
        store(pa, both, n);
        assert_false(read_anew(keys[0], &ha));
        store(pa, a, n);
        assert_true(read_anew(keys[0], &ha));
        assert_true(read_anew(keys[0], &hb));
    }
    free(a);
    free(b);
    free(both);
    disk_cache_close(c);
}

/* Records of three keys, one of them none, in one directory: each finds its own. */
static void keys_share_a_directory(void **state)
{
    (void)state;
    const disk_cipher *of[3] = {keys[0], keys[1], NULL};
    const disk_head h = head_of(20, DISK_PAGE, 5000), more = head_of(21, DISK_STATE, 5000);
    disk_item items[8];
    disk_stats stats;
    mote_error err;
    for (size_t i = 0; i < 3; i++) {
        assert_false(read_anew(of[i], &h));
        disk_cache *c = cache_of(of[i]);
        assert_false(disk_cache_has(c, h.key));
        assert_false(disk_cache_keep(c, h.key, 1));
        put(c, h);
        disk_cache_close(c);
        assert_int_equal(count_files(), i + 1);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(read_anew(of[k], &h), k <= i);
    }
    for (size_t i = 0; i < 3; i++) {
        disk_cache *c = cache_of(of[i]);
        assert_false(read_right(c, &more));
        disk_cache_read_stats(c, &stats);
        assert_int_equal(stats.sealed, 2);
        assert_int_equal(stats.plain, 1);
        assert_int_equal(stats.foreign, of[i] == NULL ? 2 : 1);
        assert_int_equal(stats.bytes,
                         2 * disk_record_bytes(5000, true) + disk_record_bytes(5000, false));
        assert_int_equal(disk_cache_list(c, items, 8), 3);
        for (size_t k = 0; k < 3; k++) {
            const bool locked = items[k].is_sealed && items[k].is_foreign;
            assert_int_equal(disk_cache_verify(c, items[k].key, &err),
                             locked ? MOTE_E_MISMATCH : MOTE_OK);
        }
        disk_cache_close(c);
    }
    assert_int_equal(count_files(), 3); /* nothing was taken for damage */
    disk_cache *c = cache_of(keys[1]);
    assert_int_equal(disk_cache_remove_all(c, NULL), MOTE_OK);
    assert_int_equal(count_files(), 0);
    disk_cache_close(c);
}

/* A record that was written without the key, under the right name, is not used. */
static void unencrypted_records_are_not_used(void **state)
{
    (void)state;
    const disk_head h = head_of(30, DISK_PAGE, 5000);
    char plain[NAME_BYTES], sealed[NAME_BYTES];
    disk_cache *c = cache_of(NULL);
    put(c, h);
    path_of(plain, NULL, &h);
    path_of(sealed, keys[0], &h);
    const size_t n = load(plain, file_bytes);
    store(sealed, file_bytes, n);
    assert_false(read_anew(keys[0], &h));
    disk_cache_close(c);
    c = cache_of(keys[0]);
    put(c, h);
    store(sealed, file_bytes, n); /* after it was indexed */
    assert_false(read_right(c, &h));
    disk_cache_close(c);
}

/* Records of other keys count for the cap, and are the first to go. */
static void cap_counts_all_keys(void **state)
{
    (void)state;
    enum { SMALL = 1 << 20 };
    disk_index x = {0};
    for (uint64_t i = 0; i < 60; i++) {
        disk_cache *c;
        disk_stats stats;
        assert_int_equal(
            disk_cache_open(&c, directory, SMALL, false, i % 3 < 2 ? keys[i % 3] : NULL, NULL),
            MOTE_OK);
        put(c, head_of(i, DISK_STATE, 40000));
        disk_cache_read_stats(c, &stats);
        assert_true(stats.bytes + 4096 <= SMALL);
        disk_cache_close(c);
    }
    assert_true(count_files() >= 20 && count_files() * 40960 + 4096 <= SMALL);
    const disk_entry entries[] = {
        {.key = {{1, 1}}, .kind = DISK_STATE, .position = 64, .bytes = 100, .used = 10},
        {.key = {{2, 2}},
         .kind = DISK_STATE,
         .position = 64,
         .bytes = 9,
         .used = 99,
         .is_foreign = true},
    };
    for (size_t i = 0; i < 2; i++)
        assert_true(disk_index_add(&x, &entries[i]));
    assert_int_equal(disk_index_least(&x, 9, 1000)->key.word[0], 2);
    disk_index_fini(&x);
}

typedef struct reader {
    pthread_t thread;
    disk_cache *cache;
    uint64_t first;
    size_t right;
} reader;

enum { READERS = 4, EACH = 8, READER_ROUNDS = 10, READER_BYTES = 70000 };

/* Reads and verifies records, as the threads of a restore do. */
static void *reader_run(void *with)
{
    reader *r = with;
    mote_error err;
    unsigned char *to = malloc(READER_BYTES), *expected = malloc(READER_BYTES);
    for (uint64_t i = 0; i < READER_ROUNDS * EACH && to != NULL && expected != NULL; i++) {
        const disk_head h = head_of(r->first + i % EACH, DISK_PAGE, READER_BYTES);
        fill(&h, expected);
        if (disk_cache_get(r->cache, &h, to, NULL, &err) == MOTE_OK &&
            memcmp(to, expected, READER_BYTES) == 0 &&
            disk_cache_verify(r->cache, h.key, &err) == MOTE_OK)
            r->right++;
    }
    free(to);
    free(expected);
    return NULL;
}

/* One cipher serves all threads of a process, while another one writes. */
static void threads_share_a_cipher(void **state)
{
    (void)state;
    reader readers[READERS];
    disk_cache *c = cache_of(keys[0]);
    for (uint64_t i = 0; i < READERS * EACH; i++)
        put(c, head_of(i, DISK_PAGE, READER_BYTES));
    for (uint64_t i = 0; i < READERS; i++) {
        readers[i] = (reader){.cache = c, .first = i * EACH};
        assert_int_equal(pthread_create(&readers[i].thread, NULL, reader_run, &readers[i]), 0);
    }
    for (uint64_t i = 0; i < EACH; i++)
        put(c, head_of(1000 + i, DISK_PAGE, READER_BYTES));
    for (size_t i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        assert_int_equal(readers[i].right, READER_ROUNDS * EACH);
    }
    disk_cache_close(c);
}

/* The n-th allocation fails, for every n: an error or a right answer, and the record stays. */
static void no_memory_loses_nothing(void **state)
{
    (void)state;
    const disk_head h = head_of(40, DISK_PAGE, 5000);
    disk_head out;
    mote_error err;
    char path[NAME_BYTES];
    disk_cache *c = cache_of(keys[0]);
    path_of(path, keys[0], &h);
    for (uint64_t n = 1, failed = 1; failed; n++) { /* of a write */
        disk_head copy = h;
        fill(&h, bytes);
        mem_fail_at(n);
        const mote_status status = disk_cache_put(c, &copy, 1, source, bytes, &err);
        failed = mem_failed();
        mem_fail_at(0);
        assert_int_equal(count_files(), status == MOTE_OK);
        assert_true(failed || (n > 3 && disk_cache_has(c, h.key)));
        if (failed && status == MOTE_OK) /* written, but not in the index of this object */
            assert_true(!disk_cache_has(c, h.key) && unlink(path) == 0);
    }
    for (uint64_t n = 1, failed = 1; failed; n++) { /* of a read and of a check */
        mem_fail_at(n);
        const bool right = read_right(c, &h);
        const bool intact = disk_cache_verify(c, h.key, &err) == MOTE_OK;
        failed = mem_failed();
        mem_fail_at(0);
        assert_true((right && intact) == !failed);
        assert_int_equal(count_files(), 1);
    }
    assert_true(read_right(c, &h));
    assert_int_equal(disk_cache_read_head(c, h.key, DISK_PAGE, &out, &err), MOTE_OK);
    assert_true(disk_head_same(&out, &h));
    disk_cache_close(c);
    c = cache_of(keys[1]);
    assert_int_equal(disk_cache_read_head(c, h.key, DISK_PAGE, &out, &err), MOTE_E_IO);
    disk_cache_close(c);
}

/* ---- answers and texts ---- */

static void count_answer(void *with, str record)
{
    assert_true(record.n == 11 && memcmp(record.p, "the answer ", 10) == 0);
    ++*(size_t *)with;
}

static size_t answers(const disk_cipher *cipher, uint64_t binding, size_t add)
{
    answer_file *f;
    size_t n = 0;
    assert_int_equal(
        answer_file_open(&f, directory, 1 << 20, (disk_key){{binding, 7}}, cipher, NULL), MOTE_OK);
    for (size_t i = 0; i < add; i++)
        answer_file_append(f, str_of("the answer "));
    answer_file_close(f); /* writes */
    assert_int_equal(
        answer_file_open(&f, directory, 1 << 20, (disk_key){{binding, 7}}, cipher, NULL), MOTE_OK);
    answer_file_read(f, count_answer, &n);
    answer_file_close(f);
    return n;
}

static void answers_are_sealed(void **state)
{
    (void)state;
    char path[NAME_BYTES];
    snprintf(path, sizeof path, "%s/" ANSWER_FILE_NAME, directory);
    assert_int_equal(answers(keys[0], 1, 3), 3);
    assert_int_equal(answers(keys[1], 1, 2), 2);
    assert_int_equal(answers(keys[0], 2, 1), 1);
    size_t n = load(path, file_bytes);
    assert_false(contains(file_bytes, n, "answer ", 7));
    assert_int_equal(answers(NULL, 1, 4), 4);
    assert_int_equal(answers(keys[0], 1, 0), 3);
    assert_int_equal(answers(keys[1], 1, 0), 2);
    n = load(path, file_bytes);
    for (size_t i = 8; i < n; i += 3) { /* any byte: the record is skipped, or it ends there */
        file_bytes[i] ^= 0x10;
        store(path, file_bytes, n);
        assert_true(answers(keys[0], 1, 0) <= 3); /* count_answer checks their contents */
        file_bytes[i] ^= 0x10;
    }
    const size_t one = 32 + DISK_SALT_BYTES + DISK_TAG_BYTES + 16 + 16;
    file_bytes[8 + 32 + DISK_SALT_BYTES] ^= 1; /* the tag of the first */
    store(path, file_bytes, n);
    assert_int_equal(answers(keys[0], 1, 0), 2);
    memcpy(file_bytes + 8, file_bytes + 8 + one, one); /* a copy of the second is one, too */
    store(path, file_bytes, n);
    assert_int_equal(answers(keys[0], 1, 0), 3);
}

static void texts_are_sealed(void **state)
{
    (void)state;
    const str text = str_of("{\"messages\": \"a conversation\"}");
    strbuf a = {0}, b = {0};
    assert_int_equal(sealed_text_put(&a, keys[0], text, NULL), MOTE_OK);
    assert_int_equal(sealed_text_put(&b, keys[0], text, NULL), MOTE_OK);
    assert_true(sealed_text_is(strbuf_view(&a)) && !sealed_text_is(text));
    assert_false(contains((unsigned char *)a.p, a.n, "conversation", 12));
    assert_memory_not_equal(a.p + 64, b.p + 64, text.n);
    for (size_t i = 0; i < a.n; i++) {
        b.n = 0;
        strbuf_put(&b, strbuf_view(&a));
        b.p[i] ^= 1;
        assert_true(sealed_text_open(&b, keys[0], NULL) != MOTE_OK);
    }
    b.n = 0;
    strbuf_put(&b, strbuf_view(&a));
    assert_int_equal(sealed_text_open(&b, NULL, NULL), MOTE_E_MISMATCH);
    assert_int_equal(sealed_text_open(&b, keys[1], NULL), MOTE_E_MISMATCH);
    assert_int_equal(sealed_text_open(&b, keys[0], NULL), MOTE_OK);
    assert_int_equal(b.n, text.n);
    assert_memory_equal(b.p, text.p, text.n);
    assert_int_equal(sealed_text_open(&b, keys[0], NULL), MOTE_E_FORMAT);
    strbuf_fini(&a);
    strbuf_fini(&b);
}

/* ---- key files ---- */

static mote_status read_key(const char *path, const char *contents, size_t n, mode_t mode,
                            unsigned char key[CACHE_KEY_BYTES], mote_error *err)
{
    unlink(path);
    store(path, (const unsigned char *)contents, n);
    assert_int_equal(chmod(path, mode), 0);
    return cache_key_read(key, path, err);
}

static void key_files(void **state)
{
    (void)state;
    static const char hex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F\n";
    unsigned char raw[CACHE_KEY_BYTES], key[CACHE_KEY_BYTES];
    char path[NAME_BYTES];
    mote_error err;
    snprintf(path, sizeof path, "%s/key", directory);
    for (size_t i = 0; i < sizeof raw; i++)
        raw[i] = (unsigned char)i;
    for (size_t n = 64; n <= 65; n++) {
        memset(key, 0, sizeof key);
        assert_int_equal(read_key(path, hex, n, 0600, key, &err), MOTE_OK);
        assert_memory_equal(key, raw, sizeof raw);
    }
    memset(key, 0, sizeof key);
    assert_int_equal(read_key(path, (char *)raw, sizeof raw, 0400, key, &err), MOTE_OK);
    assert_memory_equal(key, raw, sizeof raw);
    static const size_t wrong[] = {0, 31, 33, 63};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(read_key(path, hex, wrong[i], 0600, key, &err), MOTE_E_ARG);
    assert_int_equal(read_key(path, "0g", 2, 0600, key, &err), MOTE_E_ARG);
    assert_non_null(strstr(err.text, "32 bytes or 64 hexadecimal digits"));
    static const mode_t modes[] = {0640, 0604, 0660, 0644, 0610};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(read_key(path, hex, 64, modes[i], key, &err), MOTE_E_ARG);
        assert_non_null(strstr(err.text, "chmod 600"));
    }
    assert_int_equal(cache_key_read(key, directory, &err), MOTE_E_ARG);
    assert_int_equal(cache_key_read(key, "/nowhere/key", &err), MOTE_E_ARG);
    assert_int_equal(cache_key_create(path), CLI_USAGE);
    unlink(path);
    struct stat info;
    assert_int_equal(cache_key_create(path), CLI_DONE);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(cache_key_read(key, path, &err), MOTE_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(round_trip, empty_directory),
        cmocka_unit_test_teardown(nothing_can_be_read, empty_directory),
        cmocka_unit_test_teardown(equal_contents_look_different, empty_directory),
        cmocka_unit_test_teardown(every_flipped_byte_is_a_miss, empty_directory),
        cmocka_unit_test_teardown(exchanged_records_are_misses, empty_directory),
        cmocka_unit_test_teardown(keys_share_a_directory, empty_directory),
        cmocka_unit_test_teardown(unencrypted_records_are_not_used, empty_directory),
        cmocka_unit_test_teardown(cap_counts_all_keys, empty_directory),
        cmocka_unit_test_teardown(threads_share_a_cipher, empty_directory),
        cmocka_unit_test_teardown(no_memory_loses_nothing, empty_directory),
        cmocka_unit_test_teardown(answers_are_sealed, empty_directory),
        cmocka_unit_test_teardown(texts_are_sealed, empty_directory),
        cmocka_unit_test_teardown(key_files, empty_directory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
