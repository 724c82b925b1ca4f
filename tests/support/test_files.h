/* SPDX-License-Identifier: Apache-2.0 */
/* test_files.h - the files of a directory that a test has made. */
#ifndef MOTE_TESTS_SUPPORT_TEST_FILES_H
#define MOTE_TESTS_SUPPORT_TEST_FILES_H

#include <stddef.h>

typedef void test_file_fn(const char *path, void *with);

/* Calls fn, if not NULL, for each entry of the directory that has a name with this suffix and
 * without a dot at its beginning. Returns their number; 0: there is no such directory. */
size_t test_files(const char *directory, const char *suffix, test_file_fn *fn, void *with);
/* test_file_fn: removes the file. */
void test_file_remove(const char *path, void *unused);

#endif
