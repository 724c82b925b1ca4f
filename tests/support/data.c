/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - see data.h. */
#include "support/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static bool path_join(char out[TEST_PATH], const char *directory, const char *name)
{
    const int n = snprintf(out, TEST_PATH, "%s/%s", directory, name);
    return n > 0 && n < TEST_PATH && access(out, R_OK) == 0;
}

bool test_data_path(char out[TEST_PATH], const char *name)
{
    return path_join(out, MOTE_TEST_DATA, name);
}

bool test_shared_path(char out[TEST_PATH], const char *name)
{
    const char *shared = getenv("MOTE_SHARED");
    return path_join(out, shared != NULL ? shared : MOTE_TEST_SOURCE "/../../shared", name);
}

unsigned char *test_file_read(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    unsigned char *data = NULL;
    if (fseek(f, 0, SEEK_END) == 0) {
        const long size = ftell(f);
        if (size >= 0 && fseek(f, 0, SEEK_SET) == 0)
            data = malloc((size_t)size + 1);
        if (data != NULL && fread(data, 1, (size_t)size, f) == (size_t)size) {
            data[size] = 0;
            *bytes = (size_t)size;
        } else {
            free(data);
            data = NULL;
        }
    }
    fclose(f);
    return data;
}
