/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_cache_test.c - records of the disk cache: contents, damage, the cap, several objects on one
 * directory, writers that are killed.
 *
 * The contents of a record follow from its key, so a wrong answer is found whatever happened
 * before. Built twice: unit_disk_cache_sealed does the same with encrypted records. Arguments:
 * MOTE_DISK_DAMAGES and MOTE_DISK_KILLS set the number of random cases, MOTE_DISK_SEED the seed.
 * scripts/disk_cache_long runs many; MOTE_TEST_SCALE scales the usual ones.
 */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include "disk_cache/disk_cache.h"
#include "disk_cache/disk_directory.h"
#include "support/random.h"
#include "support/scale.h"
#include "unit/sealed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_PAYLOAD = 3 << 20 };

static char directory[] = "/tmp/mote-disk-XXXXXX";
static char path[64];
static test_random chance;
static unsigned char *bytes, *got;

/* Instead of the C library's. A disk with a bad sector: reads behind `bad_from` fail; 0: none
 * do. */
static off_t bad_from;

ssize_t pread(int fd, void *to, size_t n, off_t at)
{
    if (bad_from > 0 && at + (off_t)n > bad_from) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, n, at);
}

static int make_directory(void **state)
{
    (void)state;
    chance.state = test_setting("MOTE_DISK_SEED", 1);
    printf("MOTE_DISK_SEED=%llu\n", (unsigned long long)chance.state);
    bytes = malloc(MAX_PAYLOAD);
    got = malloc(MAX_PAYLOAD);
    if (bytes == NULL || got == NULL || mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/a/prefix", directory);
    return 0;
}

/* Calls fn for each file of the cache. */
static void each_file(void (*fn)(const char *name, const struct stat *info, void *with), void *with)
{
    DIR *dir = opendir(path);
    if (dir == NULL)
        return;
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        struct stat info;
        char name[400];
        snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (stat(name, &info) == 0 && S_ISREG(info.st_mode))
            fn(name, &info, with);
    }
    closedir(dir);
}

static void remove_file(const char *name, const struct stat *info, void *with)
{
    (void)info, (void)with;
    unlink(name);
}

static int empty_directory(void **state)
{
    (void)state;
    each_file(remove_file, NULL);
    return 0;
}

static int remove_directory(void **state)
{
    char above[64];
    empty_directory(state);
    rmdir(path);
    snprintf(above, sizeof above, "%s/a", directory);
    rmdir(above);
    free(bytes);
    free(got);
    return rmdir(directory);
}

static void add_bytes(const char *name, const struct stat *info, void *with)
{
    (void)name;
    *(uint64_t *)with += ((uint64_t)info->st_size + 4095) / 4096 * 4096;
}

static uint64_t directory_bytes(void)
{
    uint64_t sum = 0;
    each_file(add_bytes, &sum);
    return sum;
}

static disk_cache *cache_of(uint64_t cap)
{
    disk_cache *c;
    mote_error err = {0};
    if (disk_cache_open(&c, path, cap, false, sealed_cipher(), &err) != MOTE_OK)
        fail_msg("%s", err.text);
    return c;
}

/* A record; its identity follows from `n`. */
static disk_head head_of(uint64_t n, disk_kind kind, uint64_t parent)
{
    test_random r = {n};
    disk_head h = {.kind = kind,
                   .key = {{test_random_u64(&r), n}},
                   .parent = {{0, parent}},
                   .binding = {{1, 2}},
                   .ns = n % 3,
                   .position = 64 * (n % 100 + 1),
                   .payload_bytes = 1000 + n * 7919 % 300000,
                   .n_tokens = 64};
    if (parent > 0) {
        test_random p = {parent};
        h.parent.word[0] = test_random_u64(&p);
    }
    for (uint32_t i = 0; i < h.n_tokens; i++)
        h.tokens[i] = (int32_t)test_random_below(&r, 250000);
    snprintf(h.label, sizeof h.label, "record %llu", (unsigned long long)n);
    return h;
}

static void fill(const disk_head *h, unsigned char *to)
{
    test_random r = {h->key.word[0] ^ h->key.word[1]};
    for (uint64_t i = 0; i < h->payload_bytes; i += 8) {
        const uint64_t word = test_random_u64(&r);
        const uint64_t left = h->payload_bytes - i;
        memcpy(to + i, &word, left < 8 ? (size_t)left : 8);
    }
}

static bool source(void *with, void *to, uint64_t offset, size_t n)
{
    memcpy(to, (unsigned char *)with + offset, n);
    return true;
}

static mote_status put(disk_cache *c, disk_head h, uint64_t chain)
{
    mote_error err;
    fill(&h, bytes);
    return disk_cache_put(c, &h, chain, source, bytes, &err);
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

static void record_is_written_once(void **state)
{
    (void)state;
    disk_stats before, after;
    struct stat info;
    char name[400];
    disk_cache *c = cache_of(1 << 24), *other = cache_of(1 << 24);
    disk_head h = head_of(5, DISK_PAGE, 0);
    assert_false(disk_cache_has(c, h.key));
    assert_false(read_right(c, &h));
    assert_int_equal(put(c, h, 1), MOTE_OK);
    assert_true(disk_cache_has(c, h.key));
    assert_true(read_right(c, &h));
    disk_cache_read_stats(c, &before);
    assert_int_equal(put(c, h, 2), MOTE_OK); /* exists */
    for (int i = 0; i < 10; i++)
        assert_true(read_right(c, &h));
    disk_cache_read_stats(c, &after);
    assert_int_equal(after.written, before.written);
    assert_int_equal(after.write_bytes, before.write_bytes);
    assert_true(disk_cache_is_stale(other));
    assert_false(disk_cache_is_stale(c));
    assert_int_equal(disk_cache_refresh(other, NULL), MOTE_OK);
    assert_true(disk_cache_has(other, h.key));
    assert_true(read_right(other, &h));
    stat(path, &info);
    assert_int_equal(info.st_mode & 0777, 0700);
    assert_true(disk_file_name(name, sealed_cipher(), h.key, DISK_PAGE));
    char full[500];
    snprintf(full, sizeof full, "%s/%s", path, name);
    stat(full, &info);
    assert_int_equal(info.st_mode & 0777, 0600);
    disk_cache_close(c);
    disk_cache_close(other);
}

/* Another token, namespace, binding or parent is another record, whatever its key. */
static void identity_is_compared(void **state)
{
    (void)state;
    disk_cache *c = cache_of(1 << 24);
    const disk_head h = head_of(6, DISK_PAGE, 0);
    assert_int_equal(put(c, h, 1), MOTE_OK);
    disk_head wrong[5];
    for (int i = 0; i < 5; i++)
        wrong[i] = h;
    wrong[0].tokens[63]++;
    wrong[1].ns++;
    wrong[2].binding.word[1]++;
    wrong[3].parent.word[0]++;
    wrong[4].n_tokens--;
    for (int i = 0; i < 5; i++)
        assert_false(read_right(c, &wrong[i]));
    assert_true(read_right(c, &h));
    disk_cache_close(c);
}

static void damage(const char *name)
{
    const int fd = open(name, O_RDWR);
    struct stat info;
    assert_true(fd >= 0 && fstat(fd, &info) == 0);
    const off_t size = info.st_size, at = (off_t)test_random_below(&chance, (uint64_t)size);
    /* Half of the flips are in the head. */
    const off_t where = test_random_below(&chance, 2) ? at : at % DISK_HEAD_BYTES;
    unsigned char byte;
    switch (test_random_below(&chance, 4)) {
    case 0: /* the end is missing */ assert_int_equal(ftruncate(fd, at), 0); break;
    case 1: { /* a block was never written */
        static const unsigned char zeros[4096];
        const off_t from = at / 4096 * 4096;
        const size_t n = size - from < 4096 ? (size_t)(size - from) : 4096;
        assert_int_equal(pwrite(fd, zeros, n, from), (ssize_t)n);
        break;
    }
    default:
        assert_int_equal(pread(fd, &byte, 1, where), 1);
        byte ^= (unsigned char)(1u << test_random_below(&chance, 8));
        assert_int_equal(pwrite(fd, &byte, 1, where), 1);
    }
    close(fd);
}

static void damage_is_a_miss(void **state)
{
    (void)state;
    const uint64_t cases = test_setting("MOTE_DISK_DAMAGES", test_scaled(200, 20));
    uint64_t found = 0;
    for (uint64_t i = 0; i < cases; i++) {
        char name[DISK_NAME_BYTES], full[500];
        disk_cache *c = cache_of(1 << 26);
        disk_head h = head_of(100 + i % 50, i % 2 ? DISK_PAGE : DISK_STATE, 0);
        h.payload_bytes = 1000 + test_random_below(&chance, 20000);
        assert_int_equal(put(c, h, 1), MOTE_OK);
        assert_true(disk_file_name(name, sealed_cipher(), h.key, (disk_kind)h.kind));
        snprintf(full, sizeof full, "%s/%s", path, name);
        damage(full);
        if (i % 3 == 0) { /* a new process reads the heads first */
            disk_cache_close(c);
            c = cache_of(1 << 26);
        }
        found += read_right(c, &h); /* a zeroed block may have been zero: never wrong bytes */
        disk_cache_remove_all(c, NULL);
        disk_cache_close(c);
    }
    assert_int_equal(found, 0);
}

/* A record that the disk cannot read is removed: it would fail again in every restore. */
static void unreadable_is_a_miss(void **state)
{
    (void)state;
    disk_stats stats;
    disk_cache *c = cache_of(1 << 24);
    disk_head h = head_of(9, DISK_PAGE, 0);
    h.payload_bytes = 20000;
    assert_int_equal(put(c, h, 1), MOTE_OK);
    bad_from = 8192;
    assert_false(read_right(c, &h));
    bad_from = 0;
    assert_false(disk_cache_has(c, h.key));
    disk_cache_read_stats(c, &stats);
    assert_int_equal(stats.damaged, 1);
    assert_int_equal(directory_bytes(), 4096); /* the lock */
    disk_cache_close(c);
}

/* A process with too many open files keeps the record: its bytes count for the cap. */
static void failed_open_is_a_miss(void **state)
{
    (void)state;
    struct rlimit limit;
    disk_cache *c = cache_of(1 << 24);
    const disk_head h = head_of(11, DISK_PAGE, 0);
    assert_int_equal(put(c, h, 1), MOTE_OK);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, limit.rlim_max}), 0);
    const bool found = read_right(c, &h);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_false(found);
    assert_true(disk_cache_has(c, h.key));
    assert_true(read_right(c, &h));
    empty_directory(NULL); /* another process */
    assert_false(read_right(c, &h));
    assert_false(disk_cache_has(c, h.key));
    disk_cache_close(c);
}

/* Objects on a new directory agree on its generation before anything is written. */
static void new_directory_is_not_stale(void **state)
{
    (void)state;
    disk_cache *a = cache_of(1 << 24), *b = cache_of(1 << 24);
    assert_false(disk_cache_is_stale(a));
    assert_false(disk_cache_is_stale(b));
    disk_cache_close(a);
    disk_cache_close(b);
}

typedef struct rival {
    disk_cache *cache;
    disk_head head;
    bool done;
} rival;

/* While one process writes the record, another one does the same and is faster. */
static bool rival_source(void *with, void *to, uint64_t offset, size_t n)
{
    rival *r = with;
    fill(&r->head, bytes);
    if (!r->done) {
        r->done = true;
        assert_int_equal(put(r->cache, r->head, 1), MOTE_OK);
    }
    memcpy(to, bytes + offset, n);
    return true;
}

static void second_writer_changes_nothing(void **state)
{
    (void)state;
    mote_error err;
    disk_stats stats;
    disk_cache *c = cache_of(1 << 24);
    rival r = {.cache = cache_of(1 << 24), .head = head_of(10, DISK_PAGE, 0)};
    disk_head h = r.head;
    assert_int_equal(disk_cache_put(c, &h, 1, rival_source, &r, &err), MOTE_OK);
    disk_cache_read_stats(c, &stats);
    assert_int_equal(stats.written, 1);
    assert_int_equal(stats.own_written, 0);
    assert_true(disk_cache_has(c, h.key));
    assert_true(read_right(c, &h));
    assert_int_equal(directory_bytes(),
                     4096 + disk_record_bytes(h.payload_bytes, sealed_cipher() != NULL));
    disk_cache_close(c);
    disk_cache_close(r.cache);
}

static void lower_cap_evicts(void **state)
{
    (void)state;
    enum { CAP = 1 << 20 };
    disk_cache *c = cache_of(1 << 26);
    for (uint64_t i = 0; i < 40; i++)
        assert_int_equal(put(c, head_of(2000 + i, DISK_STATE, 0), i + 1), MOTE_OK);
    disk_cache_close(c);
    assert_true(directory_bytes() > CAP);
    c = cache_of(CAP);
    assert_true(directory_bytes() <= CAP && directory_bytes() > CAP / 2);
    disk_cache_close(c);
}

static void cap_is_never_exceeded(void **state)
{
    (void)state;
    enum { CAP = 3 << 20 };
    disk_cache *c[2] = {cache_of(CAP), cache_of(CAP)};
    uint64_t done = 0;
    for (uint64_t i = 0; i < 150; i++) {
        disk_head h =
            head_of(1000 + i, i % 4 == 3 ? DISK_STATE : DISK_PAGE, i % 4 > 0 ? 1000 + i - 1 : 0);
        done += put(c[i % 7 == 0], h, i / 4 + 1) == MOTE_OK;
        assert_true(directory_bytes() <= CAP);
    }
    assert_true(done >= 140);
    disk_head big = head_of(7, DISK_STATE, 0);
    big.payload_bytes = CAP - 100;
    assert_int_equal(put(c[0], big, 99), MOTE_E_FULL);
    assert_true(directory_bytes() <= CAP);
    disk_cache_close(c[0]);
    disk_cache_close(c[1]);
}

/* Of two states the one that saves fewer tokens per byte goes first, a page without a state before
 * both, and nothing of the chain that is written. */
static void least_value_goes_first(void **state)
{
    (void)state;
    disk_index x = {0};
    const disk_entry entries[] = {
        {.key = {{1, 1}}, .kind = DISK_PAGE, .position = 64, .bytes = 100, .used = 10},
        {.key = {{2, 2}},
         .parent = {{1, 1}},
         .kind = DISK_PAGE,
         .position = 128,
         .bytes = 100,
         .used = 10},
        {.key = {{3, 3}},
         .parent = {{2, 2}},
         .kind = DISK_STATE,
         .position = 128,
         .bytes = 500,
         .used = 10},
        {.key = {{4, 4}},
         .parent = {{1, 1}},
         .kind = DISK_STATE,
         .position = 64,
         .bytes = 500,
         .used = 10},
        {.key = {{5, 5}},
         .parent = {{2, 2}},
         .kind = DISK_PAGE,
         .position = 192,
         .bytes = 100,
         .used = 10},
        {.key = {{6, 6}}, .kind = DISK_PAGE, .position = 64, .bytes = 100, .used = 1, .chain = 9},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_true(disk_index_add(&x, &entries[i]));
    const uint64_t order[] = {5, 4, 3, 2, 1};
    disk_index_find(&x, (disk_key){{3, 3}})->hits = 1;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const disk_entry *e = disk_index_least(&x, 9, 100);
        assert_non_null(e);
        assert_int_equal(e->key.word[0], order[i]);
        disk_index_remove(&x, e->key);
    }
    assert_null(disk_index_least(&x, 9, 100));
    assert_int_equal(x.bytes, 100);
    disk_index_fini(&x);
}

/* A page of another writer that has no state yet stays while there is something else, and for a
 * minute. */
static void fresh_pages_stay(void **state)
{
    (void)state;
    enum { NOW = 1000 };
    disk_index x = {0};
    const disk_entry entries[] = {
        {.key = {{1, 1}}, .kind = DISK_PAGE, .bytes = 100, .created = NOW - 5, .used = NOW - 5},
        {.key = {{2, 2}}, .kind = DISK_STATE, .position = 64, .bytes = 100, .used = NOW},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        assert_true(disk_index_add(&x, &entries[i]));
    assert_int_equal(disk_index_least(&x, 9, NOW + DISK_FRESH_SECONDS)->key.word[0], 1);
    assert_int_equal(disk_index_least(&x, 9, NOW)->key.word[0], 2);
    disk_index_remove(&x, entries[1].key);
    assert_int_equal(disk_index_least(&x, 9, NOW)->key.word[0], 1);
    disk_index_fini(&x);
}

static void index_finds_all(void **state)
{
    (void)state;
    enum { N = 600 };
    disk_index x = {0};
    bool has[N] = {0};
    for (int i = 0; i < 20000; i++) {
        const uint64_t n = test_random_below(&chance, N);
        const disk_key key = {{n * 3, n % 97}}; /* several share a slot */
        assert_int_equal(disk_index_find(&x, key) != NULL, has[n]);
        if (has[n])
            disk_index_remove(&x, key);
        else
            assert_true(disk_index_add(&x, &(disk_entry){.key = key, .bytes = 1}));
        has[n] = !has[n];
    }
    uint64_t n = 0;
    for (int i = 0; i < N; i++)
        n += has[i];
    assert_int_equal(x.n, n);
    assert_int_equal(x.bytes, n);
    disk_index_fini(&x);
}

/* A write that fails leaves no file and no entry. */
static void failed_write_leaves_nothing(void **state)
{
    (void)state;
    struct rlimit old, small;
    disk_cache *c = cache_of(1 << 26);
    disk_head h = head_of(8, DISK_PAGE, 0);
    h.payload_bytes = 100000;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 20000;
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(put(c, h, 1), MOTE_E_IO);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_false(disk_cache_has(c, h.key));
    assert_true(directory_bytes() <= 4096); /* the lock */
    assert_int_equal(put(c, h, 1), MOTE_OK);
    disk_cache_close(c);
}

static void other_users_directory_is_refused(void **state)
{
    (void)state;
    disk_cache *c;
    mote_error err;
    chmod(path, 0755);
    assert_int_equal(disk_cache_open(&c, path, 1 << 20, false, NULL, &err), MOTE_E_IO);
    chmod(path, 0700);
    assert_int_equal(disk_cache_open(&c, "/dev/null/x", 1 << 20, false, NULL, &err), MOTE_E_IO);
}

/* Writes records until it is killed. */
static void write_forever(uint64_t seed)
{
    disk_cache *c = cache_of(2 << 20);
    for (uint64_t i = 0;; i++) {
        test_random r = {seed + i};
        put(c, head_of(test_random_below(&r, 60), DISK_PAGE, 0), i);
    }
}

static void count_temporary(const char *name, const struct stat *info, void *with)
{
    (void)info;
    *(uint64_t *)with += strstr(name, "/t-") != NULL;
}

static void killed_writers_leave_whole_records(void **state)
{
    (void)state;
    const uint64_t kills = test_setting("MOTE_DISK_KILLS", test_scaled(25, 4));
    uint64_t found = 0;
    for (uint64_t i = 0; i < kills; i++) {
        pid_t child[2];
        for (int k = 0; k < 2; k++)
            if ((child[k] = fork()) == 0) {
                write_forever(test_random_u64(&chance) + (uint64_t)k);
                _exit(0);
            }
        test_random_u64(&chance);
        const long us = (long)test_random_below(&chance, 30000);
        nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
        for (int k = 0; k < 2; k++) {
            kill(child[k], SIGKILL);
            waitpid(child[k], NULL, 0);
        }
        disk_cache *c = cache_of(2 << 20);
        uint64_t temporary = 0;
        for (uint64_t n = 0; n < 60; n++) {
            const disk_head h = head_of(n, DISK_PAGE, 0);
            const bool has = disk_cache_has(c, h.key);
            assert_int_equal(read_right(c, &h), has); /* a named record is whole */
            found += has;
        }
        each_file(count_temporary, &temporary);
        assert_int_equal(temporary, 0);
        assert_true(directory_bytes() <= 2 << 20);
        disk_cache_close(c);
    }
    assert_true(kills < 20 || found > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(record_is_written_once, empty_directory),
        cmocka_unit_test_teardown(identity_is_compared, empty_directory),
        cmocka_unit_test_teardown(damage_is_a_miss, empty_directory),
        cmocka_unit_test_teardown(unreadable_is_a_miss, empty_directory),
        cmocka_unit_test_teardown(failed_open_is_a_miss, empty_directory),
        cmocka_unit_test_teardown(new_directory_is_not_stale, empty_directory),
        cmocka_unit_test_teardown(second_writer_changes_nothing, empty_directory),
        cmocka_unit_test_teardown(lower_cap_evicts, empty_directory),
        cmocka_unit_test_teardown(cap_is_never_exceeded, empty_directory),
        cmocka_unit_test_teardown(least_value_goes_first, empty_directory),
        cmocka_unit_test_teardown(fresh_pages_stay, empty_directory),
        cmocka_unit_test_teardown(index_finds_all, empty_directory),
        cmocka_unit_test_teardown(failed_write_leaves_nothing, empty_directory),
        cmocka_unit_test_teardown(other_users_directory_is_refused, empty_directory),
        cmocka_unit_test_teardown(killed_writers_leave_whole_records, empty_directory),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
