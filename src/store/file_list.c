/* SPDX-License-Identifier: Apache-2.0 */
/* file_list.c - implements file_list.h. */
#define _XOPEN_SOURCE 700
#include "store/file_list.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_join(char out[FILE_PATH_BYTES], const char *directory, const char *name)
{
    const size_t n = strlen(directory);
    const bool slash = n > 0 && directory[n - 1] != '/';
    return snprintf(out, FILE_PATH_BYTES, "%s%s%s", directory, slash ? "/" : "", name) <
           FILE_PATH_BYTES;
}

/* ---- listing ---- */

/* A walk through the directories below a root. */
typedef struct file_walk {
    file_list *list;
    const char *root;
    uint32_t limit;
    unsigned depth;
} file_walk;

static bool plain_name(const char *name)
{
    for (const char *p = name; *p != '\0'; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7F)
            return false;
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strlen(name) <= 255;
}

static mote_status walk_no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory: list of files");
}

static char *walk_copy(const char *path)
{
    char *copy = mem_new(strlen(path) + 1, 1);
    if (copy != NULL)
        memcpy(copy, path, strlen(path));
    return copy;
}

static mote_status walk_add(file_walk *w, const char *path, const struct stat *info,
                            const char *broken, mote_error *err)
{
    file_list *l = w->list;
    char *copy = walk_copy(path);
    if (copy == NULL || !mem_grow(&l->files, l->n, &l->room, sizeof *l->files)) {
        mem_free(copy);
        return walk_no_memory(err);
    }
    l->files[l->n++] = (listed_file){
        .path = copy,
        .bytes = broken == NULL && S_ISREG(info->st_mode) ? (uint64_t)info->st_size : 0,
        .modified = broken == NULL ? (int64_t)info->st_mtime : 0,
        .directory = broken == NULL && S_ISDIR(info->st_mode),
        .broken = broken,
    };
    return MOTE_OK;
}

/* A directory that vanished is not unreadable. */
static mote_status walk_add_unread(file_walk *w, const char *path, int reason, mote_error *err)
{
    file_list *l = w->list;
    if (reason == 0 || reason == ENOENT || reason == ENOTDIR || l->n_unread >= w->limit)
        return MOTE_OK;
    char *copy = walk_copy(path);
    if (copy == NULL || !mem_grow(&l->unread, l->n_unread, &l->unread_room, sizeof *l->unread)) {
        mem_free(copy);
        return walk_no_memory(err);
    }
    l->unread[l->n_unread++] =
        (listed_file){.path = copy, .directory = true, .broken = strerror(reason)};
    return MOTE_OK;
}

static mote_status walk_directory(file_walk *w, const char *relative, unsigned depth,
                                  mote_error *err);

/* *reason: why the directory cannot be used, as errno; else unchanged. */
static mote_status walk_entry(file_walk *w, const char *relative, unsigned depth, const char *name,
                              int *reason, mote_error *err)
{
    char path[FILE_PATH_BYTES], whole[FILE_PATH_BYTES];
    struct stat info, target;
    if (!plain_name(name) || !file_join(path, relative, name) || !file_join(whole, w->root, path))
        return MOTE_OK;
    if (lstat(whole, &info) != 0) {
        if (errno != ENOENT && errno != ENOTDIR)
            *reason = errno;
        return MOTE_OK;
    }
    if (w->list->n >= w->limit) {
        w->list->cut = true;
        return MOTE_OK;
    }
    if (S_ISDIR(info.st_mode) && w->depth > 0) {
        if (depth < w->depth)
            return walk_directory(w, path, depth + 1, err);
        w->list->cut = true;
        return MOTE_OK;
    }
    if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode))
        return walk_add(w, path, &info, NULL, err);
    if (!S_ISLNK(info.st_mode))
        return MOTE_OK;
    if (stat(whole, &target) != 0)
        return walk_add(w, path, &info,
                        errno == ELOOP    ? "the link is a loop"
                        : errno == ENOENT ? "the target of the link does not exist"
                                          : strerror(errno),
                        err);
    return S_ISREG(target.st_mode) ? walk_add(w, path, &target, NULL, err) : MOTE_OK;
}

static mote_status walk_directory(file_walk *w, const char *relative, unsigned depth,
                                  mote_error *err)
{
    char whole[FILE_PATH_BYTES];
    mote_status status = MOTE_OK;
    int reason = 0;
    if (!file_join(whole, w->root, relative))
        return MOTE_OK;
    DIR *d = opendir(whole);
    if (d == NULL)
        return walk_add_unread(w, relative, errno, err);
    for (;;) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (e == NULL) {
            reason = errno != 0 ? errno : reason;
            break;
        }
        status = walk_entry(w, relative, depth, e->d_name, &reason, err);
        if (status != MOTE_OK)
            break;
    }
    closedir(d);
    return status != MOTE_OK ? status : walk_add_unread(w, relative, reason, err);
}

static int by_path(const void *a, const void *b)
{
    const listed_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

mote_status file_list_read(file_list *out, const char *root, unsigned depth, uint32_t limit,
                           mote_error *err)
{
    file_walk w = {.list = out, .root = root, .limit = limit, .depth = depth};
    *out = (file_list){0};
    const mote_status status = walk_directory(&w, "", 0, err);
    if (status != MOTE_OK)
        file_list_fini(out);
    else if (out->n > 0)
        qsort(out->files, out->n, sizeof *out->files, by_path);
    return status;
}

mote_status file_list_check(const file_list *l, const char *root, mote_error *err)
{
    if (l->n_unread == 0)
        return MOTE_OK;
    const char *path = l->unread[0].path;
    return err_set(err, MOTE_E_IO, "cannot read the directory %.400s%s%.400s: %s", root,
                   path[0] != '\0' ? "/" : "", path, l->unread[0].broken);
}

void file_list_fini(file_list *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        mem_free(l->files[i].path);
    for (uint32_t i = 0; i < l->n_unread; i++)
        mem_free(l->unread[i].path);
    mem_free(l->files);
    mem_free(l->unread);
    *l = (file_list){0};
}

/* Inserts a name in byte order; the last one is dropped if there is no room. */
static size_t names_insert(char (*names)[FILE_NAME_BYTES], size_t n, size_t room, const char *name)
{
    size_t at = n;
    while (at > 0 && strcmp(names[at - 1], name) > 0)
        at--;
    if (at == room)
        return n;
    const size_t kept = n < room ? n : room - 1;
    memmove(names + at + 1, names + at, (kept - at) * sizeof *names);
    snprintf(names[at], sizeof *names, "%s", name);
    return kept + 1;
}

size_t file_names(char (*out)[FILE_NAME_BYTES], size_t room, const char *directory,
                  bool (*wanted)(const char *name))
{
    size_t n = 0;
    DIR *d = opendir(directory);
    for (const struct dirent *e = d != NULL ? readdir(d) : NULL; e != NULL; e = readdir(d))
        if (wanted(e->d_name) && strlen(e->d_name) < FILE_NAME_BYTES)
            n = names_insert(out, n, room, e->d_name);
    if (d != NULL)
        closedir(d);
    return n;
}

/* ---- small files and links ---- */

bool file_read_small(strbuf *out, const char *path, size_t limit, const char **why)
{
    struct stat info;
    char part[4096];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *why = NULL;
    if (fd < 0) {
        *why = errno == ENOENT || errno == ENOTDIR ? NULL : strerror(errno);
        return false;
    }
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        *why = "not a file";
    else if ((uint64_t)info.st_size > limit)
        *why = "too large";
    while (*why == NULL) {
        const ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || out->n + (size_t)n > limit)
            *why = n < 0 ? strerror(errno) : "too large";
        if (n <= 0)
            break;
        strbuf_put(out, (str){part, (size_t)n});
    }
    close(fd);
    if (*why == NULL && out->failed)
        *why = "out of memory";
    return *why == NULL;
}

bool file_inside(const char *path, const char *root, const char **why)
{
    char real[PATH_MAX], top[PATH_MAX];
    *why = NULL;
    if (realpath(path, real) == NULL) {
        *why = errno == ELOOP ? "the link is a loop" : strerror(errno);
        return false;
    }
    const size_t n = realpath(root, top) != NULL ? strlen(top) : 0;
    if (n == 0 || strncmp(real, top, n) != 0 || (n > 1 && real[n] != '/'))
        *why = "the link leaves the directory of the models";
    return *why == NULL;
}
