/* SPDX-License-Identifier: Apache-2.0 */
/*
 * os_map.c - implements os_map.h.
 *
 * The handler needs the address ranges of all mappings without a lock, because it can interrupt a
 * thread anywhere. So they are in a fixed array of atomics. Zeros are mapped up to the end of the
 * mapping in one call, because a truncated file of many gigabytes would otherwise cost one signal
 * and one kernel mapping per page.
 */
#define _DEFAULT_SOURCE /* madvise, MAP_ANONYMOUS */
#include "base/os_map.h"

#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_MAPS = 1024, HUGE_PAGE = 2 << 20 };

/* begin 0: free; 1: being filled in. The descriptor stays open to check the size of the file. */
static struct {
    _Atomic uintptr_t begin, end;
    atomic_bool damaged;
    atomic_int fd;
    _Atomic int64_t modified; /* ns since 1970 */
} open_maps[MAX_MAPS];

static uintptr_t page_bytes;
static struct sigaction previous;

/* ---- the list ---- */

static void list_set_file(uint32_t i, int fd, const struct stat *info)
{
    atomic_store(&open_maps[i].damaged, false);
    atomic_store(&open_maps[i].fd, fd);
    atomic_store(&open_maps[i].modified, os_modified_ns(info));
}

/* Returns the slot, from 1; 0: the list is full. */
static uint32_t list_add(const void *data, int fd, const struct stat *info)
{
    for (uint32_t i = 0; i < MAX_MAPS; i++) {
        uintptr_t expected = 0;
        if (!atomic_compare_exchange_strong(&open_maps[i].begin, &expected, 1))
            continue;
        list_set_file(i, fd, info);
        atomic_store(&open_maps[i].end, (uintptr_t)data + (uintptr_t)info->st_size);
        atomic_store(&open_maps[i].begin, (uintptr_t)data);
        return i + 1;
    }
    return 0;
}

static void list_remove(uint32_t slot)
{
    close(atomic_load(&open_maps[slot - 1].fd));
    atomic_store(&open_maps[slot - 1].end, 0);
    atomic_store(&open_maps[slot - 1].begin, 0);
}

/* ---- the handler ---- */

/* Async-signal-safe. False: the address is in no mapped file. */
static bool list_fill(uintptr_t address)
{
    for (uint32_t i = 0; i < MAX_MAPS; i++) {
        const uintptr_t begin = atomic_load(&open_maps[i].begin),
                        end = atomic_load(&open_maps[i].end);
        if (begin <= 1 || address < begin || address >= end)
            continue;
        const uintptr_t from = address / page_bytes * page_bytes;
        atomic_store(&open_maps[i].damaged, true);
        return mmap((void *)from, end - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                    -1, 0) != MAP_FAILED;
    }
    return false;
}

static void map_on_bus_error(int number, siginfo_t *info, void *context)
{
    const int saved = errno;
    if (info->si_code == BUS_ADRERR && list_fill((uintptr_t)info->si_addr)) {
        errno = saved;
        return;
    }
    errno = saved;
    if (previous.sa_flags & SA_SIGINFO)
        previous.sa_sigaction(number, info, context);
    else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
        previous.sa_handler(number);
    else
        sigaction(SIGBUS, &previous, NULL); /* the access is repeated and kills the process */
}

bool os_map_guard(void)
{
    struct sigaction action, now;
    if (sigaction(SIGBUS, NULL, &now) != 0)
        return false;
    if (now.sa_flags & SA_SIGINFO && now.sa_sigaction == map_on_bus_error)
        return true;
    previous = now;
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = map_on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) == 0;
}

/* ---- mappings ---- */

static void map_set_name(os_map *map, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(map->name, sizeof map->name, "%.60s", slash != NULL ? slash + 1 : path);
}

/* Opens a regular file that is not empty. Returns the descriptor, or -1 and the error, which calls
 * the file `name`. */
static int map_open_file(const char *path, const char *name, struct stat *info, mote_error *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        err_set(err, MOTE_E_IO, "cannot open %s: %s", name, strerror(errno));
        return -1;
    }
    if (fstat(fd, info) != 0 || !S_ISREG(info->st_mode))
        err_set(err, MOTE_E_IO, "%s is not a regular file", name);
    else if (info->st_size == 0)
        err_set(err, MOTE_E_FORMAT, "%s is empty", name);
    else
        return fd;
    close(fd);
    return -1;
}

/* Maps a file at a multiple of 2 MB, if it is larger than that. Where the page cache holds 2 MB
 * pages (file systems with large folios), the kernel then maps them as a whole. Reading weights is
 * a few percent faster, and the first read of a file much faster. */
static void *map_file(int fd, size_t bytes)
{
    if (bytes < HUGE_PAGE)
        return mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    const size_t reserved = bytes + HUGE_PAGE;
    char *range =
        mmap(NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return MAP_FAILED;
    const size_t before = (size_t)(-(uintptr_t)range % HUGE_PAGE);
    char *begin = range + before;
    void *data = mmap(begin, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page * page;
    const int saved = errno;
    if (data == MAP_FAILED) {
        munmap(range, reserved);
    } else {
        if (before > 0)
            munmap(range, before);
        if (reserved > before + pages)
            munmap(begin + pages, reserved - before - pages);
        os_prefer_huge_pages(data, bytes);
    }
    errno = saved;
    return data;
}

mote_status os_map_open(os_map *out, const char *path, mote_error *err)
{
    struct stat info;
    mote_error why = {0};
    *out = (os_map){0};
    const int fd = map_open_file(path, path, &info, &why);
    if (fd < 0)
        return err_set(err, why.status, "%s", why.text);
    void *data = map_file(fd, (size_t)info.st_size);
    const int map_errno = errno;
    const uint32_t slot = data != MAP_FAILED ? list_add(data, fd, &info) : 0;
    if (slot == 0) {
        close(fd);
        if (data == MAP_FAILED)
            return err_set(err, MOTE_E_IO, "cannot map %s: %s", path, strerror(map_errno));
        munmap(data, (size_t)info.st_size);
        return err_set(err, MOTE_E_IO, "cannot map %s: %d files are mapped, no more are possible",
                       path, MAX_MAPS);
    }
    *out = (os_map){.data = data, .bytes = (uint64_t)info.st_size, .slot = slot};
    map_set_name(out, path);
    return MOTE_OK;
}

void os_map_close(os_map *map)
{
    if (map->data != NULL) {
        list_remove(map->slot);
        munmap((void *)(uintptr_t)map->data, (size_t)map->bytes);
    }
    *map = (os_map){0};
}

void os_map_drop_pages(const os_map *map)
{
    if (map->data != NULL)
        madvise((void *)(uintptr_t)map->data, (size_t)map->bytes, MADV_DONTNEED);
}

void os_map_will_need(const void *data, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t begin = (uintptr_t)data / page * page;
    madvise((void *)begin, (uintptr_t)data + bytes - begin, MADV_WILLNEED);
}

/* MADV_DONTNEED alone leaves the pages in the page cache, where they count as memory of a cgroup. */
void os_map_release(const void *data, size_t bytes)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)data + page - 1) / page * page;
    const uintptr_t to = ((uintptr_t)data + bytes) / page * page;
    if (to <= from)
        return;
    madvise((void *)from, to - from, MADV_DONTNEED);
    for (uint32_t i = 0; i < MAX_MAPS; i++) {
        const uintptr_t begin = atomic_load(&open_maps[i].begin);
        if (begin > 1 && from >= begin && from < atomic_load(&open_maps[i].end))
            os_drop_cached(atomic_load(&open_maps[i].fd), from - begin, to - from);
    }
}

void os_map_mark_damaged(const os_map *map)
{
    atomic_store(&open_maps[map->slot - 1].damaged, true);
}

bool os_map_intact(const os_map *map)
{
    struct stat info;
    if (map->data == NULL)
        return true;
    if (atomic_load(&open_maps[map->slot - 1].damaged))
        return false;
    if (fstat(atomic_load(&open_maps[map->slot - 1].fd), &info) == 0 &&
        (uint64_t)info.st_size >= map->bytes)
        return true;
    os_map_mark_damaged(map);
    return false;
}

mote_status os_map_check(const os_map *map, mote_error *err)
{
    if (os_map_intact(map))
        return MOTE_OK;
    return err_set(err, MOTE_E_IO,
                   "the file %s was truncated, overwritten or cannot be read any more", map->name);
}

mote_status os_map_reopen(const os_map *map, const char *path, mote_error *err)
{
    struct stat info;
    mote_error why = {0};
    const int fd = map_open_file(path, map->name, &info, &why);
    if (fd < 0)
        return err_set(err, MOTE_E_IO, "%s", why.text);
    if ((uint64_t)info.st_size != map->bytes) {
        close(fd);
        return err_set(err, MOTE_E_MISMATCH, "the file %s has %llu bytes instead of %llu",
                       map->name, (unsigned long long)info.st_size, (unsigned long long)map->bytes);
    }
    if (mmap((void *)(uintptr_t)map->data, (size_t)map->bytes, PROT_READ, MAP_SHARED | MAP_FIXED,
             fd, 0) == MAP_FAILED) {
        close(fd);
        return err_set(err, MOTE_E_IO, "cannot map %s: %s", map->name, strerror(errno));
    }
    os_prefer_huge_pages((void *)(uintptr_t)map->data, (size_t)map->bytes);
    /* The descriptor keeps its number: another thread may be about to use it. */
    const int kept = atomic_load(&open_maps[map->slot - 1].fd);
    if (!os_move_descriptor(fd, kept))
        return err_set(err, MOTE_E_IO, "cannot open %s: %s", map->name, strerror(errno));
    list_set_file(map->slot - 1, kept, &info);
    return MOTE_OK;
}

os_map_state os_map_compare(const os_map *map, const char *path)
{
    struct stat mapped, named;
    const uint32_t i = map->slot - 1;
    if (!os_map_intact(map) || fstat(atomic_load(&open_maps[i].fd), &mapped) != 0)
        return OS_MAP_DAMAGED;
    const int64_t modified = os_modified_ns(&mapped);
    if (atomic_exchange(&open_maps[i].modified, modified) != modified)
        return OS_MAP_MODIFIED;
    const bool same =
        stat(path, &named) == 0 && named.st_dev == mapped.st_dev && named.st_ino == mapped.st_ino;
    return same ? OS_MAP_SAME : OS_MAP_REPLACED;
}
