/* SPDX-License-Identifier: Apache-2.0 */
/* mtp_file.c - implements mtp_file.h. */
#include "store/mtp_file.h"

#include "store/hub_files.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { MAX_FILES = 64, NAME_BYTES = 256 };

static size_t mtp_file_list(const char *directory, char names[MAX_FILES][NAME_BYTES])
{
    size_t n = 0;
    DIR *d = opendir(directory);
    for (struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL && n < MAX_FILES;
         e = readdir(d))
        if (hub_is_mtp(e->d_name))
            snprintf(names[n++], NAME_BYTES, "%s", e->d_name);
    if (d != NULL)
        closedir(d);
    return n;
}

void mtp_file_find(char *out, const char *weights)
{
    const char *slash = strrchr(weights, '/');
    const int length = slash != NULL ? (int)(slash - weights) + 1 : 0;
    char directory[MTP_PATH_BYTES], names[MAX_FILES][NAME_BYTES];
    hub_file files[MAX_FILES];
    out[0] = '\0';
    snprintf(directory, sizeof directory, "%.*s", length, weights);
    const size_t n = mtp_file_list(length > 0 ? directory : ".", names);
    for (size_t i = 0; i < n; i++)
        files[i] = (hub_file){.path = names[i]};
    const int32_t best = hub_choose_mtp(files, n, weights + length);
    if (best != HUB_NO_FILE)
        snprintf(out, MTP_PATH_BYTES, "%.3000s%s", directory, names[best]);
}
