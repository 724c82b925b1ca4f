/* SPDX-License-Identifier: Apache-2.0 */
/* npy.h - reader for .npy files: little-endian float32, int32 or uint8, C order. */
#ifndef MOTE_TESTS_SUPPORT_NPY_H
#define MOTE_TESTS_SUPPORT_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NPY_MAX_DIMS = 4 };

typedef struct test_npy {
    uint32_t n_dims;
    size_t dims[NPY_MAX_DIMS]; /* as in NumPy; unused ones are 1 */
    size_t count;              /* product of dims */
    /* One of these is set. */
    const float *f32;
    const int32_t *i32;
    const uint8_t *u8;
    void *memory;
} test_npy;

bool test_npy_load(test_npy *out, const char *path);
/* Reads a file of the data directory, for example "golden/forward/len5.ids.npy". On failure prints
 * an error and exits. */
test_npy test_npy_data(const char *name);
void test_npy_free(test_npy *a);

#endif
