/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.h - paths of test data.
 *
 * The data directory of the build is unpacked from tests/data and always exists. A second, optional
 * directory has larger golden sets and models (MOTE_SHARED). A test that needs it is skipped
 * without it (exit code 77).
 */
#ifndef MOTE_TESTS_SUPPORT_DATA_H
#define MOTE_TESTS_SUPPORT_DATA_H

#include <stdbool.h>
#include <stddef.h>

enum { TEST_PATH = 1024, TEST_SKIPPED = 77 };

/* Path of a file in the data directory, for example "mote-tiny-BF16.gguf" or
 * "golden/forward/len5.ids.npy". False: no such file. */
bool test_data_path(char out[TEST_PATH], const char *name);

/* The same in the optional directory. */
bool test_shared_path(char out[TEST_PATH], const char *name);

/* Reads a whole file and appends a NUL that is not counted. Free with free(). NULL: read error. */
unsigned char *test_file_read(const char *path, size_t *bytes);

#endif
