/* SPDX-License-Identifier: Apache-2.0 */
/* fake_root.c - implements fake_root.h. */
#define _GNU_SOURCE
#include "support/fake_root.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

char fake_root[64];

int fake_root_make(void **state)
{
    (void)state;
    snprintf(fake_root, sizeof fake_root, "mote-root-XXXXXX");
    return mkdtemp(fake_root) != NULL ? 0 : -1;
}

int fake_root_remove(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r ./%s", fake_root);
    return system(command);
}

void fake_root_write(const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s/%s", fake_root, path);
    for (char *at = strchr(whole, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(whole, 0700);
        *at = '/';
    }
    FILE *f = fopen(whole, "w");
    if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0) {
        perror(whole);
        abort();
    }
}
