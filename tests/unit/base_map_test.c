/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_map_test.c - mapped files that are truncated, overwritten, replaced and restored while they
 * are mapped; SIGBUS of other mappings.
 */
#define _GNU_SOURCE
#include "base/os_map.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAGES = 64 };
static size_t page;
static char path[64], other[80];

static void write_pages(const char *name, char letter)
{
    char *bytes = malloc(PAGES * page);
    assert_non_null(bytes);
    memset(bytes, letter, PAGES * page);
    const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, PAGES * page), PAGES * page);
    close(fd);
    free(bytes);
}

static int make_files(void **state)
{
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    snprintf(path, sizeof path, "mote-map-%d", (int)getpid());
    snprintf(other, sizeof other, "%s.other", path);
    write_pages(path, 'a');
    write_pages(other, 'b');
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(path);
    unlink(other);
    return 0;
}

/* Reads through a volatile pointer, so that the access happens here. */
static char at(const os_map *map, size_t i)
{
    return ((const volatile char *)map->data)[i];
}

static void truncated_file_reads_as_zeros_and_is_reported(void **state)
{
    (void)state;
    os_map map, whole;
    mote_error err;
    assert_true(os_map_guard()); /* cmocka has installed a handler of its own */
    assert_int_equal(os_map_open(&map, path, &err), MOTE_OK);
    assert_int_equal(os_map_open(&whole, other, &err), MOTE_OK);
    assert_true(os_map_intact(&map));
    assert_int_equal(truncate(path, (off_t)(2 * page)), 0);
    assert_int_equal(at(&map, 10 * page + 5), 0);
    assert_int_equal(at(&map, PAGES * page - 1), 0);
    assert_int_equal(at(&map, page), 'a');
    assert_false(os_map_intact(&map));
    assert_int_equal(os_map_check(&map, &err), MOTE_E_IO);
    assert_non_null(strstr(err.text, path));
    assert_true(os_map_intact(&whole));
    assert_int_equal(at(&whole, 10 * page), 'b');
    os_map_close(&map);
    os_map_close(&whole);
}

/* The end of the last page turns into zeros without a fault. */
static void truncation_inside_the_last_page(void **state)
{
    (void)state;
    os_map map;
    mote_error err;
    assert_int_equal(os_map_open(&map, path, &err), MOTE_OK);
    assert_int_equal(truncate(path, (off_t)(PAGES * page - 1)), 0);
    assert_int_equal(at(&map, PAGES * page - 1), 0);
    assert_false(os_map_intact(&map));
    os_map_close(&map);
}

static void restored_file_is_mapped_again(void **state)
{
    (void)state;
    os_map map;
    mote_error err;
    assert_true(os_map_guard()); /* cmocka has installed a handler of its own */
    assert_int_equal(os_map_open(&map, path, &err), MOTE_OK);
    const unsigned char *data = map.data;
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(at(&map, 0), 0);
    assert_int_equal(os_map_reopen(&map, path, &err), MOTE_E_IO); /* empty */
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(os_map_reopen(&map, path, &err), MOTE_E_MISMATCH);
    assert_false(os_map_intact(&map));
    write_pages(path, 'c');
    assert_int_equal(os_map_reopen(&map, path, &err), MOTE_OK);
    assert_true(os_map_intact(&map));
    assert_ptr_equal(map.data, data);
    assert_int_equal(at(&map, 0), 'c');
    assert_int_equal(at(&map, PAGES * page - 1), 'c');
    os_map_close(&map);
}

static void changes_are_noticed(void **state)
{
    (void)state;
    os_map map;
    mote_error err;
    assert_int_equal(os_map_open(&map, path, &err), MOTE_OK);
    assert_int_equal(os_map_compare(&map, path), OS_MAP_SAME);
    const struct timespec times[2] = {{1, 0}, {1, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(os_map_compare(&map, path), OS_MAP_MODIFIED);
    assert_int_equal(os_map_compare(&map, path), OS_MAP_SAME); /* reported once */
    assert_int_equal(rename(other, path), 0);
    assert_int_equal(os_map_compare(&map, path), OS_MAP_REPLACED);
    assert_int_equal(at(&map, 9 * page), 'a');
    assert_int_equal(unlink(path), 0);
    assert_int_equal(os_map_compare(&map, path), OS_MAP_REPLACED);
    os_map_close(&map);
}

/* Large files begin at a huge page. The rest of the reserved range is given back: the pages before
 * and after the mapping are free or belong to others, but are not a reservation without access. */
static void large_file_is_aligned(void **state)
{
    (void)state;
    enum { HUGE_PAGE = 2 << 20 };
    os_map map;
    mote_error err;
    const int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0);
    const size_t bytes = HUGE_PAGE + page + 1;
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(pwrite(fd, "z", 1, (off_t)bytes - 1), 1);
    close(fd);
    assert_int_equal(os_map_open(&map, path, &err), MOTE_OK);
    assert_int_equal((uintptr_t)map.data % HUGE_PAGE, 0);
    assert_int_equal(at(&map, bytes - 1), 'z');
    unsigned char resident;
    const uintptr_t end = (uintptr_t)map.data + HUGE_PAGE + 2 * page;
    assert_int_equal(mincore((void *)end, page, &resident), -1);
    os_map_close(&map);
}

static void exit_42(int number)
{
    (void)number;
    _exit(42);
}

/* Runs cause_foreign_fault in a new program, where the guard is not installed yet. */
static int foreign_fault(bool with_handler)
{
    const pid_t child = fork();
    if (child == 0) {
        char *const arguments[] = {"base_map_test", with_handler ? "handler" : "default", NULL};
        execv("/proc/self/exe", arguments);
        _exit(2);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void faults_of_other_mappings_are_passed_on(void **state)
{
    (void)state;
    const int killed = foreign_fault(false);
    assert_true(!WIFEXITED(killed) || WEXITSTATUS(killed) != 0);
    const int handled = foreign_fault(true);
    assert_true(WIFEXITED(handled));
    assert_int_equal(WEXITSTATUS(handled), 42);
}

/* The program that foreign_fault executes. */
static int cause_foreign_fault(bool with_handler)
{
    FILE *f = tmpfile();
    page = (size_t)sysconf(_SC_PAGESIZE);
    if (f == NULL || ftruncate(fileno(f), (off_t)page) != 0)
        return 3;
    if (with_handler)
        signal(SIGBUS, exit_42);
    if (!os_map_guard())
        return 4;
    const volatile char *data = mmap(NULL, page, PROT_READ, MAP_SHARED, fileno(f), 0);
    if (data == MAP_FAILED || ftruncate(fileno(f), 0) != 0)
        return 5;
    return data[0] == 0 ? 0 : 6; /* not reached */
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return cause_foreign_fault(strcmp(argv[1], "handler") == 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(truncated_file_reads_as_zeros_and_is_reported, make_files,
                                        remove_files),
        cmocka_unit_test_setup_teardown(truncation_inside_the_last_page, make_files, remove_files),
        cmocka_unit_test_setup_teardown(restored_file_is_mapped_again, make_files, remove_files),
        cmocka_unit_test_setup_teardown(large_file_is_aligned, make_files, remove_files),
        cmocka_unit_test_setup_teardown(changes_are_noticed, make_files, remove_files),
        cmocka_unit_test_setup_teardown(faults_of_other_mappings_are_passed_on, make_files,
                                        remove_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
