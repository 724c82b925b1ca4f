/* SPDX-License-Identifier: Apache-2.0 */
/* mtp_file.c - implements mtp_file.h. */
#include "store/mtp_file.h"

#include "store/file_list.h"
#include "store/hub_files.h"

#include <stdio.h>
#include <string.h>

enum { MAX_FILES = 64 };

void mtp_file_find(char *out, const char *weights)
{
    const char *slash = strrchr(weights, '/');
    const int length = slash != NULL ? (int)(slash - weights) + 1 : 0;
    char directory[MTP_PATH_BYTES], names[MAX_FILES][FILE_NAME_BYTES];
    hub_file files[MAX_FILES];
    out[0] = '\0';
    snprintf(directory, sizeof directory, "%.*s", length, weights);
    const size_t n = file_names(names, MAX_FILES, length > 0 ? directory : ".", hub_is_mtp);
    for (size_t i = 0; i < n; i++)
        files[i] = (hub_file){.path = names[i]};
    const int32_t best = hub_choose_mtp(files, n, weights + length);
    if (best != HUB_NO_FILE)
        snprintf(out, MTP_PATH_BYTES, "%.3000s%s", directory, names[best]);
}
