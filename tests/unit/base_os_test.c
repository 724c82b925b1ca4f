/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_os_test.c - mapped files and atomic replacement of files.
 *
 * Each write, sync and rename fails once. After each failure the directory contains the old or the
 * new file and nothing else.
 */
#include "base/os.h"
#include "support/data.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "mote-os-XXXXXX";
static char target[64];

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(target, sizeof target, "%s/file", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    unlink(target);
    return rmdir(directory);
}

static int count_entries(void)
{
    DIR *d = opendir(directory);
    assert_non_null(d);
    int n = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void assert_content(const char *expected)
{
    size_t n;
    unsigned char *content = test_file_read(target, &n);
    assert_non_null(content);
    assert_string_equal((char *)content, expected);
    free(content);
}

static mote_status write_file(const char *first, const char *second, mote_error *err)
{
    os_file f;
    TRY(os_file_create(&f, target, err));
    mote_status status = os_file_write(&f, first, strlen(first), err);
    if (status == MOTE_OK)
        status = os_file_write(&f, second, strlen(second), err);
    if (status == MOTE_OK)
        status = os_file_commit(&f, err);
    os_file_abandon(&f);
    return status;
}

static void a_file_appears_when_complete(void **state)
{
    (void)state;
    os_file f;
    mote_error err;
    assert_int_equal(os_file_create(&f, target, &err), MOTE_OK);
    assert_int_equal(os_file_write(&f, "abc", 3, &err), MOTE_OK);
    assert_int_equal(access(target, F_OK), -1);
    assert_int_equal(os_file_commit(&f, &err), MOTE_OK);
    assert_content("abc");
    os_file_abandon(&f); /* no effect after commit */
    assert_content("abc");
    struct stat info;
    assert_int_equal(stat(target, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(count_entries(), 1);
}

static void abandoned_file_leaves_nothing(void **state)
{
    (void)state;
    os_file f;
    mote_error err;
    assert_int_equal(write_file("old", "", &err), MOTE_OK);
    assert_int_equal(os_file_create(&f, target, &err), MOTE_OK);
    assert_int_equal(os_file_write(&f, "new", 3, &err), MOTE_OK);
    assert_int_equal(count_entries(), 2);
    os_file_abandon(&f);
    assert_content("old");
    assert_int_equal(count_entries(), 1);
}

/* Another thread of this process writes the same file, or a killed process with the same id did. */
static void temporary_files_do_not_collide(void **state)
{
    (void)state;
    os_file first, second;
    mote_error err;
    assert_int_equal(os_file_create(&first, target, &err), MOTE_OK);
    assert_int_equal(os_file_write(&first, "first", 5, &err), MOTE_OK);
    assert_int_equal(os_file_create(&second, target, &err), MOTE_OK);
    assert_string_not_equal(first.temporary, second.temporary);
    assert_int_equal(os_file_write(&second, "second", 6, &err), MOTE_OK);
    assert_int_equal(os_file_commit(&second, &err), MOTE_OK);
    assert_content("second");
    assert_int_equal(os_file_commit(&first, &err), MOTE_OK);
    assert_content("first");
    assert_int_equal(count_entries(), 1);
    const size_t n = strlen(first.temporary);
    assert_string_equal(first.temporary + n - 5, ".part"); /* by which file_store.c removes them */
}

static void failure_leaves_old_or_new_file(void **state)
{
    (void)state;
    mote_error err;
    uint64_t n = 1;
    for (;; n++) {
        assert_int_equal(write_file("old", "", &err), MOTE_OK);
        os_fail_at(n);
        const mote_status status = write_file("new ", "content", &err);
        if (!os_failed()) {
            assert_int_equal(status, MOTE_OK);
            assert_content("new content");
            break;
        }
        assert_int_equal(status, MOTE_E_IO);
        assert_int_equal(count_entries(), 1);
        /* Only the sync of the directory comes after the rename. */
        if (n < 5) {
            assert_content("old");
            assert_non_null(strstr(err.text, "No space left"));
        } else {
            assert_content("new content");
        }
    }
    assert_int_equal(n, 6); /* two writes, sync, rename, sync of the directory */
    os_fail_at(0);
}

static void invalid_paths(void **state)
{
    (void)state;
    os_file f;
    mote_error err;
    char path[2000];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    assert_int_equal(os_file_create(&f, path, &err), MOTE_E_ARG);
    os_file_abandon(&f);
    assert_int_equal(os_file_create(&f, "no/such/directory/file", &err), MOTE_E_IO);
    os_file_abandon(&f);
    /* The path becomes a directory between create and commit, so the rename fails. */
    unlink(target);
    assert_int_equal(os_file_create(&f, target, &err), MOTE_OK);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(os_file_commit(&f, &err), MOTE_E_IO);
    assert_int_equal(count_entries(), 1);
    assert_int_equal(rmdir(target), 0);
    /* Only regular files are replaced. */
    assert_int_equal(os_file_create(&f, "/dev/null", &err), MOTE_E_IO);
    assert_int_equal(os_file_create(&f, directory, &err), MOTE_E_IO);
}

static void name_without_directory(void **state)
{
    (void)state;
    char name[32];
    os_file f;
    mote_error err;
    snprintf(name, sizeof name, "%s.file", directory);
    assert_int_equal(os_file_create(&f, name, &err), MOTE_OK);
    assert_int_equal(os_file_commit(&f, &err), MOTE_OK);
    assert_int_equal(unlink(name), 0);
}

static void files_are_mapped_whole(void **state)
{
    (void)state;
    os_map map;
    mote_error err;
    assert_int_equal(write_file("some ", "bytes", &err), MOTE_OK);
    assert_int_equal(os_map_open(&map, target, &err), MOTE_OK);
    assert_int_equal(map.bytes, 10);
    assert_memory_equal(map.data, "some bytes", 10);
    os_map_close(&map);
    assert_null(map.data);
    os_map_close(&map);
    assert_int_equal(os_map_open(&map, directory, &err), MOTE_E_IO);
    assert_int_equal(os_map_open(&map, "no such file", &err), MOTE_E_IO);
    assert_non_null(strstr(err.text, "no such file"));
    assert_int_equal(write_file("", "", &err), MOTE_OK);
    assert_int_equal(os_map_open(&map, target, &err), MOTE_E_FORMAT);
    assert_null(map.data);
}

static void clock_is_monotonic(void **state)
{
    (void)state;
    const double a = os_now();
    const struct timespec pause = {0, 2000000};
    nanosleep(&pause, NULL);
    const double b = os_now();
    assert_true(b - a >= 0.002 && b - a < 600.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_appears_when_complete),
        cmocka_unit_test(abandoned_file_leaves_nothing),
        cmocka_unit_test(temporary_files_do_not_collide),
        cmocka_unit_test(failure_leaves_old_or_new_file),
        cmocka_unit_test(invalid_paths),
        cmocka_unit_test(name_without_directory),
        cmocka_unit_test(files_are_mapped_whole),
        cmocka_unit_test(clock_is_monotonic),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
