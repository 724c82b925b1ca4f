/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_file.c - see runtime_file.h. */
#include "base/runtime_file.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = RUNTIME_FILE_PATH_BYTES };

static mote_status runtime_dir(char out[PATH_BYTES], const char *parent, mote_error *err)
{
    const int n = parent != NULL && parent[0] == '/'
                      ? snprintf(out, PATH_BYTES, "%s/mote", parent)
                      : snprintf(out, PATH_BYTES, "/tmp/mote-%lu", (unsigned long)geteuid());
    if (n < 0 || n >= PATH_BYTES)
        return err_set(err, MOTE_E_ARG, "XDG_RUNTIME_DIR is longer than %d bytes", PATH_BYTES - 6);
    return MOTE_OK;
}

/* Another user can create the directory in /tmp first. */
static mote_status runtime_dir_check(const char *path, mote_error *err)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return err_set(err, MOTE_E_IO, "cannot use %s: %s", path, strerror(errno));
    if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0)
        return err_set(err, MOTE_E_IO,
                       "cannot use %s: it must be a directory of this user with mode 0700", path);
    return MOTE_OK;
}

static mote_status runtime_path(char out[PATH_BYTES], const char *parent, const char *name,
                                bool create, mote_error *err)
{
    char directory[PATH_BYTES];
    TRY(runtime_dir(directory, parent, err));
    if (create && mkdir(directory, 0700) != 0 && errno != EEXIST)
        return err_set(err, MOTE_E_IO, "cannot create %s: %s", directory, strerror(errno));
    TRY(runtime_dir_check(directory, err));
    const int n = snprintf(out, PATH_BYTES, "%s/%s", directory, name);
    if (n < 0 || n >= PATH_BYTES)
        return err_set(err, MOTE_E_ARG, "the path of %s is longer than %d bytes", name,
                       PATH_BYTES - 1);
    return MOTE_OK;
}

mote_status runtime_file_write(const char *parent, const char *name, str text, mote_error *err)
{
    char path[PATH_BYTES];
    TRY(runtime_path(path, parent, name, true, err));
    return os_file_replace(path, text.p, text.n, err);
}

bool runtime_file_read(const char *parent, const char *name, char *out, size_t room)
{
    char path[PATH_BYTES];
    mote_error err;
    if (runtime_path(path, parent, name, false, &err) != MOTE_OK)
        return false;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, out, room);
    close(fd);
    if (n < 0 || (size_t)n >= room)
        return false;
    out[n] = '\0';
    return true;
}

void runtime_file_remove(const char *parent, const char *name)
{
    char path[PATH_BYTES];
    mote_error err;
    if (runtime_path(path, parent, name, false, &err) == MOTE_OK)
        unlink(path);
}

bool runtime_file_path(char out[RUNTIME_FILE_PATH_BYTES], const char *parent, const char *name)
{
    mote_error err;
    return runtime_path(out, parent, name, false, &err) == MOTE_OK;
}

void runtime_file_key_name(char out[RUNTIME_FILE_NAME_BYTES], const char *address)
{
    const char *colon = strrchr(address, ':');
    const bool is_unix = strncmp(address, "unix:", 5) == 0;
    snprintf(out, RUNTIME_FILE_NAME_BYTES, "%.110s.key",
             is_unix || colon == NULL ? address : colon + 1);
    for (char *c = out; *c != '\0'; c++)
        if (*c == '/')
            *c = '%';
}
