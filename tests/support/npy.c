/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npy.c - see npy.h.
 *
 * The header is a Python dict padded to 64 bytes. Only the spelling of NumPy is accepted:
 * {'descr': '<f4', 'fortran_order': False, 'shape': (5, 256), }
 */
#include "support/npy.h"
#include "support/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 10 }; /* magic, version 1.0, 16-bit header length */

static bool read_shape(test_npy *a, const char *header)
{
    const char *p = strstr(header, "'shape': (");
    if (p == NULL || strstr(header, "'fortran_order': False") == NULL)
        return false;
    a->count = 1;
    for (int i = 0; i < NPY_MAX_DIMS; i++)
        a->dims[i] = 1;
    for (p += strlen("'shape': ("); *p != ')'; p += strspn(p, ", ")) {
        char *end;
        const unsigned long long dim = strtoull(p, &end, 10);
        if (end == p || a->n_dims == NPY_MAX_DIMS || (dim != 0 && a->count > (1u << 30) / dim))
            return false;
        a->dims[a->n_dims++] = (size_t)dim;
        a->count *= (size_t)dim;
        p = end;
    }
    return true;
}

/* Sets the typed view. Returns the bytes per element; 0: unsupported type. */
static size_t set_view(test_npy *a, const char *header, const unsigned char *values)
{
    if (strstr(header, "'<f4'") != NULL) {
        a->f32 = (const float *)(const void *)values;
        return sizeof *a->f32;
    }
    if (strstr(header, "'<i4'") != NULL) {
        a->i32 = (const int32_t *)(const void *)values;
        return sizeof *a->i32;
    }
    if (strstr(header, "'|u1'") != NULL) {
        a->u8 = values;
        return sizeof *a->u8;
    }
    return 0;
}

bool test_npy_load(test_npy *out, const char *path)
{
    *out = (test_npy){0};
    size_t bytes;
    unsigned char *file = test_file_read(path, &bytes);
    char header[512];
    if (file == NULL)
        return false;
    const size_t length = bytes >= PREFIX ? file[8] + 256u * file[9] : 0;
    const bool valid = bytes >= PREFIX && memcmp(file, "\x93NUMPY\1", 7) == 0 &&
                       length < sizeof header && PREFIX + length <= bytes;
    if (valid) {
        memcpy(header, file + PREFIX, length);
        header[length] = 0;
    }
    if (!valid || !read_shape(out, header) ||
        out->count * set_view(out, header, file + PREFIX + length) != bytes - PREFIX - length) {
        free(file);
        *out = (test_npy){0};
        return false;
    }
    out->memory = file;
    return true;
}

test_npy test_npy_data(const char *name)
{
    char path[TEST_PATH];
    test_npy a;
    if (!test_data_path(path, name) || !test_npy_load(&a, path)) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    return a;
}

void test_npy_free(test_npy *a)
{
    free(a->memory);
    *a = (test_npy){0};
}
