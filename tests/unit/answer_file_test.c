/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer_file_test.c - the file of answers: order, bindings, the size limit, damage, killed
 * writers.
 *
 * The contents of a record follow from its number, so a wrong record is found whatever happened
 * before. Built twice: unit_answer_file_sealed does the same with encrypted records.
 */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE
#include "disk_cache/answer_file.h"
#include "disk_cache/disk_cache.h"
#include "support/random.h"
#include "unit/sealed.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CAP = 1 << 20, MAX_NUMBERS = 4096, MAX_RECORD = 3000 };

static char directory[] = "/tmp/mote-answers-XXXXXX";
static char path[64];
static test_random chance = {1};

static size_t record_of(uint32_t number, char out[MAX_RECORD])
{
    test_random r = {number + 100};
    const size_t n = 4 + (size_t)(test_random_u64(&r) % (MAX_RECORD - 4));
    memcpy(out, &number, 4);
    for (size_t i = 4; i < n; i++)
        out[i] = (char)test_random_u64(&r);
    return n;
}

typedef struct seen {
    uint32_t times[MAX_NUMBERS];
    uint32_t n, last;
} seen;

static void see(void *with, str record)
{
    seen *s = with;
    uint32_t number;
    char right[MAX_RECORD];
    assert_true(record.n >= 4);
    memcpy(&number, record.p, 4);
    assert_true(number < MAX_NUMBERS);
    assert_int_equal(record_of(number, right), record.n);
    assert_memory_equal(right, record.p, record.n);
    s->times[number]++;
    s->last = number;
    s->n++;
}

static answer_file *file_of(uint64_t binding)
{
    answer_file *f;
    mote_error err;
    if (answer_file_open(&f, directory, CAP, (disk_key){{binding, 7}}, sealed_cipher(), &err) !=
        MOTE_OK)
        fail_msg("%s", err.text);
    return f;
}

static void append(answer_file *f, uint32_t number)
{
    char record[MAX_RECORD];
    answer_file_append(f, (str){record, record_of(number, record)});
}

/* Writes records in one go. */
static void append_all(uint64_t binding, uint32_t from, uint32_t to)
{
    answer_file *f = file_of(binding);
    for (uint32_t i = from; i < to; i++)
        append(f, i);
    answer_file_close(f);
}

static seen read_all(uint64_t binding)
{
    seen s = {0};
    answer_file *f = file_of(binding);
    answer_file_read(f, see, &s);
    answer_file_close(f);
    return s;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static uint64_t size_of_file(void)
{
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    return (uint64_t)info.st_size;
}

static void records_are_read_once(void **state)
{
    (void)state;
    seen s = {0};
    answer_file *reader = file_of(1);
    answer_file_read(reader, see, &s);
    assert_int_equal(s.n, 0);
    append_all(1, 0, 20);
    append_all(2, 20, 40);
    answer_file_read(reader, see, &s);
    assert_int_equal(s.n, 20);
    append_all(1, 40, 50);
    answer_file_read(reader, see, &s);
    answer_file_read(reader, see, &s);
    assert_int_equal(s.n, 30);
    for (uint32_t i = 0; i < 50; i++)
        assert_int_equal(s.times[i], i < 20 || i >= 40);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    /* it is removed, as by `mote cache rm --all`: the next record begins a new file */
    assert_int_equal(unlink(path), 0);
    append(reader, 60);
    answer_file_close(reader);
    s = read_all(1);
    assert_int_equal(s.n, 1);
    assert_int_equal(s.last, 60);
}

static void newest_stay_below_the_limit(void **state)
{
    (void)state;
    seen s = {0};
    answer_file *reader = file_of(1), *writer = NULL;
    for (uint32_t i = 0; i < MAX_NUMBERS; i++) {
        if (i % 64 == 0) {
            answer_file_close(writer);
            writer = file_of(1);
        }
        append(writer, i);
        if (i % 100 == 0)
            answer_file_read(reader, see, &s);
    }
    answer_file_close(writer);
    assert_true(size_of_file() <= CAP);
    answer_file_read(reader, see, &s);
    assert_int_equal(s.last, MAX_NUMBERS - 1);
    answer_file_close(reader);
    s = read_all(1);
    assert_true(s.n > 200 && s.n < 800);
    for (uint32_t i = 0; i < MAX_NUMBERS; i++)
        assert_int_equal(s.times[i], i >= MAX_NUMBERS - s.n); /* the latest, without a gap */
}

/* The file ends anywhere: complete records stay, and new ones are found. */
static void torn_writes(void **state)
{
    (void)state;
    append_all(1, 0, 3);
    const uint64_t three = size_of_file();
    append_all(1, 3, 4);
    const uint64_t four = size_of_file();
    for (uint64_t cut = three; cut < four; cut += 1 + (four - three) / 50) {
        assert_int_equal(truncate(path, (off_t)cut), 0);
        append_all(1, 4, 5);
        const seen s = read_all(1);
        assert_int_equal(s.n, 4);
        assert_int_equal(s.times[3], 0);
        assert_int_equal(s.last, 4);
        assert_int_equal(truncate(path, (off_t)three), 0);
        append_all(1, 3, 4);
    }
    assert_int_equal(truncate(path, 3), 0); /* not even the head */
    append_all(1, 4, 5);
    assert_int_equal(read_all(1).n, 1);
}

static void flipped_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 200; i++) {
        unlink(path);
        append_all(1, 0, 8);
        const uint64_t at = test_random_u64(&chance) % size_of_file();
        const int fd = open(path, O_RDWR);
        char byte;
        assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
        byte ^= (char)(1 << test_random_u64(&chance) % 8);
        assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
        close(fd);
        assert_true(read_all(1).n <= 8); /* see() checks their contents */
        append_all(1, 8, 9);
        assert_int_equal(read_all(1).times[8], 1);
    }
}

static void killed_writers(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        const pid_t child = fork();
        if (child == 0) {
            answer_file *f = file_of(1);
            for (uint32_t k = 0;; k++) {
                append(f, k % 1000);
                if (k % 16 == 0)
                    usleep(100);
            }
        }
        usleep((useconds_t)(test_random_u64(&chance) % 5000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        append_all(1, 2000, 2001);
        const seen s = read_all(1);
        assert_int_equal(s.last, 2000);
        assert_true(size_of_file() <= CAP);
    }
}

static void no_directory(void **state)
{
    (void)state;
    answer_file *f;
    mote_error err;
    assert_int_equal(answer_file_open(&f, "/nowhere/mote", CAP, (disk_key){{0, 0}}, NULL, &err),
                     MOTE_E_IO);
    assert_null(f);
    answer_file_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(records_are_read_once, remove_file),
        cmocka_unit_test_teardown(newest_stay_below_the_limit, remove_file),
        cmocka_unit_test_teardown(torn_writes, remove_file),
        cmocka_unit_test_teardown(flipped_bits, remove_file),
        cmocka_unit_test_teardown(killed_writers, remove_file),
        cmocka_unit_test(no_directory),
    };
    if (mkdtemp(directory) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/" ANSWER_FILE_NAME, directory);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(directory);
    return failed;
}
