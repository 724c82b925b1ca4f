/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - see history.h. */
#include "cli/term/history.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool says(const char *name, const char **value)
{
    *value = getenv(name);
    return *value != NULL && (*value)[0] != '\0';
}

/* All parts in one block; NULL: no memory. */
static char *joined(const char *a, const char *b, const char *c)
{
    size_t n = strlen(a) + strlen(b) + strlen(c) + 1;
    char *text = mem_new(n, 1);
    if (text != NULL)
        snprintf(text, n, "%s%s%s", a, b, c);
    return text;
}

/* Makes every folder of a path that is missing, for the owner only. */
static bool make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made)
            return false;
    }
    return true;
}

char *history_path(void)
{
    const char *value;
    char *path = NULL;
    if (says("MOTE_NOHISTORY", &value) && strcmp(value, "0") != 0)
        return NULL;
    if (says("MOTE_CACHE", &value))
        path = joined(value, "/history", "");
    else if (says("XDG_CACHE_HOME", &value) && value[0] == '/') /* others are to be ignored */
        path = joined(value, "/mote/history", "");
    else if (says("HOME", &value))
        path = joined(value, "/.cache", "/mote/history");
    if (path != NULL && !make_folders(path)) {
        mem_free(path);
        return NULL;
    }
    return path;
}

FILE *history_create(const char *path, char **temporary)
{
    char number[32];
    snprintf(number, sizeof number, ".%ld", (long)getpid());
    *temporary = joined(path, number, "");
    if (*temporary == NULL)
        return NULL;
    unlink(*temporary); /* of a process of that number that was killed */
    int fd = open(*temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file != NULL)
        return file;
    if (fd >= 0)
        close(fd);
    mem_free(*temporary);
    return NULL;
}

void history_commit(FILE *file, char *temporary, const char *path, bool written)
{
    written = fclose(file) == 0 && written;
    if (!written || rename(temporary, path) != 0)
        unlink(temporary);
    mem_free(temporary);
}
