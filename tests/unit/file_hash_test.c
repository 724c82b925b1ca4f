/* SPDX-License-Identifier: Apache-2.0 */
/* file_hash_test.c - hashes of files and the list of verified files. */
#include "store/file_hash.h"
#include "support/data.h"
#include "support/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "mote-hash-XXXXXX";
static char content[64], list[64], lock[64];

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(content, sizeof content, "%s/content", directory);
    snprintf(list, sizeof list, "%s/verified", directory);
    snprintf(lock, sizeof lock, "%s/verified.lock", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(content);
    unlink(list);
    unlink(lock);
    return rmdir(directory);
}

static void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void known_hashes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        hash_kind kind;
        const char *hash;
    } rows[] = {
        {"", HASH_SHA256, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", HASH_SHA256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"", HASH_GIT_BLOB, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"},
        {"hello world\n", HASH_GIT_BLOB, "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char hash[HASH_TEXT_BYTES];
        mote_error err;
        write_file(content, rows[i].text, strlen(rows[i].text));
        assert_int_equal(file_hash(hash, rows[i].kind, content, NULL, NULL, NULL, &err), MOTE_OK);
        assert_string_equal(hash, rows[i].hash);
    }
}

typedef struct progress_calls {
    uint64_t last, total;
    int n, stop_at;
} progress_calls;

static bool on_progress(void *ctx, uint64_t done, uint64_t total)
{
    progress_calls *calls = ctx;
    assert_true(done > calls->last && done <= total);
    calls->last = done;
    calls->total = total;
    return ++calls->n != calls->stop_at;
}

/* Ten and a half MiB: several reads, an incomplete last one. */
static void a_large_file(void **state)
{
    (void)state;
    const size_t n = 21 << 19;
    unsigned char *data = malloc(n);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    write_file(content, data, n);
    test_sha256 reference;
    char expected[65], hash[HASH_TEXT_BYTES];
    test_sha256_begin(&reference);
    test_sha256_add(&reference, data, n);
    test_sha256_end(&reference, expected);
    free(data);

    progress_calls calls = {0};
    file_identity identity, named;
    mote_error err;
    assert_int_equal(file_hash(hash, HASH_SHA256, content, &identity, on_progress, &calls, &err),
                     MOTE_OK);
    assert_string_equal(hash, expected);
    assert_int_equal(calls.last, n);
    assert_int_equal(calls.total, n);
    assert_int_equal(calls.n, 3);
    assert_true(file_identity_of(&named, content));
    assert_memory_equal(&identity, &named, sizeof named);

    calls = (progress_calls){.stop_at = 1};
    assert_int_equal(file_hash(hash, HASH_SHA256, content, NULL, on_progress, &calls, &err),
                     MOTE_E_CANCELED);
    assert_int_equal(calls.n, 1);
}

static void what_is_no_file(void **state)
{
    (void)state;
    char hash[HASH_TEXT_BYTES];
    file_identity identity;
    mote_error err;
    assert_int_equal(file_hash(hash, HASH_SHA256, directory, NULL, NULL, NULL, &err), MOTE_E_IO);
    unlink(content);
    assert_int_equal(file_hash(hash, HASH_SHA256, content, NULL, NULL, NULL, &err), MOTE_E_IO);
    assert_int_equal(mkfifo(content, 0600), 0);
    assert_int_equal(file_hash(hash, HASH_SHA256, content, NULL, NULL, NULL, &err), MOTE_E_IO);
    assert_false(file_identity_of(&identity, content));
    unlink(content);
}

static void names_that_are_hashes(void **state)
{
    (void)state;
    hash_kind kind;
    char text[70];
    memset(text, 'a', sizeof text);
    assert_true(hash_kind_of(&kind, (str){text, 64}));
    assert_int_equal(kind, HASH_SHA256);
    assert_true(hash_kind_of(&kind, (str){text, 40}));
    assert_int_equal(kind, HASH_GIT_BLOB);
    for (size_t n = 0; n < sizeof text; n++)
        assert_true(hash_kind_of(&kind, (str){text, n}) == (n == 40 || n == 64));
    text[3] = 'A';
    assert_false(hash_kind_of(&kind, (str){text, 40}));
    text[3] = '/';
    assert_false(hash_kind_of(&kind, (str){text, 64}));
}

/* ---- the list ---- */

static const char HASH_A[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
static const char HASH_B[] = "3b18e512dba79e4c8300dd08aeb37f8e728b8dad";

static file_identity identity_number(uint64_t i)
{
    return (file_identity){.device = 7, .inode = i, .bytes = 1000 + i, .modified_ns = 5};
}

static void entries_are_found_replaced_and_removed(void **state)
{
    (void)state;
    file_identity one = identity_number(1), two = identity_number(2);
    char hash[HASH_TEXT_BYTES];
    int64_t when = 0;
    mote_error err;
    unlink(list);
    assert_false(verified_find(directory, &one, hash, NULL));
    assert_int_equal(verified_remove(directory, &one, &err), MOTE_OK);
    assert_int_equal(verified_add(directory, &one, HASH_A, &err), MOTE_OK);
    assert_int_equal(verified_add(directory, &two, HASH_B, &err), MOTE_OK);
    assert_true(verified_find(directory, &one, hash, &when));
    assert_string_equal(hash, HASH_A);
    assert_true(when > 1700000000);
    assert_int_equal(verified_add(directory, &one, HASH_B, &err), MOTE_OK);
    assert_true(verified_find(directory, &one, hash, NULL));
    assert_string_equal(hash, HASH_B);
    assert_int_equal(verified_remove(directory, &one, &err), MOTE_OK);
    assert_false(verified_find(directory, &one, hash, NULL));
    assert_true(verified_find(directory, &two, hash, NULL));
    assert_int_equal(verified_add(directory, &one, "not a hash", &err), MOTE_E_ARG);

    file_identity other = two;
    other.modified_ns++;
    assert_false(verified_find(directory, &other, hash, NULL));
    other = two;
    other.bytes++;
    assert_false(verified_find(directory, &other, hash, NULL));
    other = two;
    other.device++;
    assert_false(verified_find(directory, &other, hash, NULL));
}

static void invalid_lines_are_ignored(void **state)
{
    (void)state;
    static const char *const invalid[] = {
        "\n",
        " \n",
        "%s\n",
        "%s 7 1 1001 5\n",
        "%s 7 1 1001 5 9 9\n",
        "%s 7 1 1001 5 9 \n",
        "%s 7 1 1001 -5 9\n",
        "%s 7 1 1001 18446744073709551615 9\n",
        "%s 7 1 99999999999999999999999 5 9\n",
        "%sa 7 1 1001 5 9\n",
        "../../etc/passwd 7 1 1001 5 9\n",
        "%s 7 1 1001 5 9", /* no newline: a torn write */
    };
    file_identity one = identity_number(1), two = identity_number(2);
    char hash[HASH_TEXT_BYTES];
    mote_error err;
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        char line[200];
        snprintf(line, sizeof line, invalid[i], HASH_A);
        write_file(list, line, strlen(line));
        assert_false(verified_find(directory, &one, hash, NULL));
    }
    char zeros[5000] = {0};
    write_file(list, zeros, sizeof zeros);
    assert_false(verified_find(directory, &one, hash, NULL));
    assert_int_equal(verified_add(directory, &two, HASH_A, &err), MOTE_OK);
    assert_true(verified_find(directory, &two, hash, NULL));
    struct stat info;
    assert_int_equal(stat(list, &info), 0);
    assert_true(info.st_size < 200); /* only the valid line is left */
}

static void a_list_that_is_no_file(void **state)
{
    (void)state;
    file_identity one = identity_number(1);
    char hash[HASH_TEXT_BYTES];
    mote_error err;
    unlink(list);
    assert_int_equal(mkdir(list, 0700), 0);
    assert_false(verified_find(directory, &one, hash, NULL));
    assert_int_equal(verified_add(directory, &one, HASH_A, &err), MOTE_E_IO);
    assert_int_equal(rmdir(list), 0);
    assert_int_equal(symlink("content", list), 0);
    char line[200];
    snprintf(line, sizeof line, "%s 7 1 1001 5 9\n", HASH_A);
    write_file(content, line, strlen(line));
    assert_false(verified_find(directory, &one, hash, NULL));
    unlink(list);
}

static void the_oldest_entry_is_dropped(void **state)
{
    (void)state;
    FILE *f = fopen(list, "wb");
    assert_non_null(f);
    for (uint64_t i = 0; i < VERIFIED_MAX; i++)
        fprintf(f, "%s 7 %llu %llu 5 9\n", HASH_A, (unsigned long long)i,
                (unsigned long long)(1000 + i));
    assert_int_equal(fclose(f), 0);
    file_identity first = identity_number(0), second = identity_number(1),
                  new = identity_number(VERIFIED_MAX);
    char hash[HASH_TEXT_BYTES];
    mote_error err;
    assert_true(verified_find(directory, &first, hash, NULL));
    assert_int_equal(verified_add(directory, &new, HASH_B, &err), MOTE_OK);
    assert_false(verified_find(directory, &first, hash, NULL));
    assert_true(verified_find(directory, &second, hash, NULL));
    assert_true(verified_find(directory, &new, hash, NULL));
}

static void processes_add_at_once(void **state)
{
    (void)state;
    enum { PROCESSES = 4, EACH = 4 };
    pid_t children[PROCESSES];
    char hash[HASH_TEXT_BYTES];
    mote_error err;
    unlink(list);
    for (uint64_t p = 0; p < PROCESSES; p++) {
        children[p] = fork();
        assert_true(children[p] >= 0);
        if (children[p] > 0)
            continue;
        for (uint64_t i = 0; i < EACH; i++) {
            file_identity file = identity_number(p * EACH + i);
            if (verified_add(directory, &file, HASH_A, &err) != MOTE_OK)
                _exit(1);
        }
        _exit(0);
    }
    for (int p = 0; p < PROCESSES; p++) {
        int status;
        assert_int_equal(waitpid(children[p], &status, 0), children[p]);
        assert_int_equal(status, 0);
    }
    for (uint64_t i = 0; i < (uint64_t)PROCESSES * EACH; i++) {
        file_identity file = identity_number(i);
        assert_true(verified_find(directory, &file, hash, NULL));
    }
}

static void the_directory_of_the_list(void **state)
{
    (void)state;
    char path[VERIFIED_PATH_BYTES];
    assert_true(verified_directory(path, "/c", "/h"));
    assert_string_equal(path, "/c/mote/store");
    assert_true(verified_directory(path, "", "/h"));
    assert_string_equal(path, "/h/.cache/mote/store");
    assert_true(verified_directory(path, "relative", "/h"));
    assert_string_equal(path, "/h/.cache/mote/store");
    assert_false(verified_directory(path, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_hashes),
        cmocka_unit_test(a_large_file),
        cmocka_unit_test(what_is_no_file),
        cmocka_unit_test(names_that_are_hashes),
        cmocka_unit_test(entries_are_found_replaced_and_removed),
        cmocka_unit_test(invalid_lines_are_ignored),
        cmocka_unit_test(a_list_that_is_no_file),
        cmocka_unit_test(the_oldest_entry_is_dropped),
        cmocka_unit_test(processes_add_at_once),
        cmocka_unit_test(the_directory_of_the_list),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
