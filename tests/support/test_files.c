/* SPDX-License-Identifier: Apache-2.0 */
/* test_files.c - implements test_files.h. */
#include "support/test_files.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

size_t test_files(const char *directory, const char *suffix, test_file_fn *fn, void *with)
{
    const size_t end = strlen(suffix);
    size_t n = 0;
    DIR *dir = opendir(directory);
    for (struct dirent *e = dir != NULL ? readdir(dir) : NULL; e != NULL; e = readdir(dir)) {
        char path[400];
        const size_t length = strlen(e->d_name);
        if (e->d_name[0] == '.' || length < end || strcmp(e->d_name + length - end, suffix) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        n++;
        if (fn != NULL)
            fn(path, with);
    }
    if (dir != NULL)
        closedir(dir);
    return n;
}

void test_file_remove(const char *path, void *unused)
{
    (void)unused;
    unlink(path);
}
