/* SPDX-License-Identifier: Apache-2.0 */
/*
 * data.h - where the tests find their files.
 *
 * Two places: the build's data directory, unpacked from tests/data and always
 * there, and a directory "shared" with more of the same kind, which most machines
 * do not have. A test that needs the second skips (exit code 77) without it.
 */
#ifndef MOTE_TESTS_SUPPORT_DATA_H
#define MOTE_TESTS_SUPPORT_DATA_H

#include <stdbool.h>
#include <stddef.h>

enum { TEST_PATH = 1024, TEST_SKIPPED = 77 };

/* The path of a file of the data directory, e.g. "mote-tiny-BF16.gguf" or
 * "golden/forward/len5.ids.npy". False: it is not there. */
bool test_data_path(char out[TEST_PATH], const char *name);

/* The same in the directory named by MOTE_SHARED, or ../shared beside the repository. */
bool test_shared_path(char out[TEST_PATH], const char *name);

/* Reads a whole file; the bytes are followed by a zero that is not counted.
 * Free with free(). NULL: it cannot be read. */
unsigned char *test_file_read(const char *path, size_t *bytes);

#endif
