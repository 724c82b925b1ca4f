/* SPDX-License-Identifier: Apache-2.0 */
/* ram.c - implements ram.h. A source that is missing sets no limit. */
#include "base/os.h"
#include "base/ram.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PATH_ROOM = 1024, RESERVE_SHARE = 16 };

/* Version 1 reports "no limit" as the largest multiple of the page size. */
static const uint64_t no_limit = (uint64_t)1 << 60;

/* Sums the values of the lines "name value" or "name: value" with one of the names. */
static bool ram_sum_lines(const char *path, const char *const names[], uint64_t *sum)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    char name[64];
    unsigned long long value;
    bool found = false;
    *sum = 0;
    while (fscanf(f, " %63s %llu%*[^\n]", name, &value) == 2)
        for (size_t i = 0; names[i] != NULL; i++)
            if (strcmp(name, names[i]) == 0) {
                *sum += value;
                found = true;
            }
    fclose(f);
    return found;
}

/* Reads a file with one number. False: no file, or a word such as "max". */
static bool ram_read_number(const char *directory, const char *file, uint64_t *out)
{
    char path[3 * PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", directory, file);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    unsigned long long value;
    const bool found = fscanf(f, "%llu", &value) == 1;
    fclose(f);
    *out = value;
    return found;
}

static void ram_lower(ram *out, uint64_t bytes, const char *kind, const char *name)
{
    if (bytes >= out->bytes)
        return;
    out->bytes = bytes;
    snprintf(out->source, sizeof out->source, "%s%.200s", kind, name);
}

/* ---- the machine ---- */

/* A systemd unit with ProcSubset=pid has no /proc/meminfo: then the size of the machine counts. */
static void ram_add_machine(ram *out, const char *root)
{
    static const char *const names[] = {"MemAvailable:", NULL};
    char path[PATH_ROOM];
    uint64_t kb;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    if (ram_sum_lines(path, names, &kb)) {
        ram_lower(out, kb * 1024, "RAM", "");
        return;
    }
    const uint64_t bytes = os_memory_available();
    if (bytes > 0)
        ram_lower(out, bytes, "RAM", "");
}

/* ---- cgroups ---- */

/* The files of one version of the memory controller. */
typedef struct cgroup_files {
    const char *mount; /* below /sys/fs/cgroup */
    const char *limits[2];
    const char *usage;
    const char *evictable[3]; /* names in memory.stat */
} cgroup_files;

static const cgroup_files cgroup_v1 = {
    .mount = "/memory",
    .limits = {"memory.limit_in_bytes", NULL},
    .usage = "memory.usage_in_bytes",
    .evictable = {"total_active_file", "total_inactive_file", NULL}};
static const cgroup_files cgroup_v2 = {.mount = "",
                                       .limits = {"memory.max", "memory.high"},
                                       .usage = "memory.current",
                                       .evictable = {"active_file", "inactive_file", NULL}};

/* Takes the free part of one cgroup into account. */
static void ram_add_cgroup(ram *out, const char *directory, const cgroup_files *files,
                           const char *name)
{
    uint64_t limit = UINT64_MAX, value, used, cached = 0;
    char stat[3 * PATH_ROOM];
    for (size_t i = 0; i < 2 && files->limits[i] != NULL; i++)
        if (ram_read_number(directory, files->limits[i], &value) && value < limit)
            limit = value;
    if (limit >= no_limit || !ram_read_number(directory, files->usage, &used))
        return;
    snprintf(stat, sizeof stat, "%s/memory.stat", directory);
    ram_sum_lines(stat, files->evictable, &cached);
    used -= cached < used ? cached : used;
    ram_lower(out, limit > used ? limit - used : 0, "cgroup ", name[0] != '\0' ? name : "/");
}

/* Visits the cgroup `name` and all its parents. In a container `name` may be a path of the host
 * that is not visible here; the root, which is the container's own cgroup, always is. */
static void ram_add_cgroups(ram *out, const char *root, const cgroup_files *files, char *name)
{
    char directory[2 * PATH_ROOM];
    for (size_t n = strlen(name); n > 0 && name[n - 1] == '/'; n--)
        name[n - 1] = '\0';
    for (;;) {
        snprintf(directory, sizeof directory, "%s/sys/fs/cgroup%s%s", root, files->mount, name);
        if (strstr(name, "..") == NULL)
            ram_add_cgroup(out, directory, files, name);
        char *slash = strrchr(name, '/');
        if (slash == NULL)
            return;
        *slash = '\0';
    }
}

/* True if the comma-separated list has the word "memory". */
static bool cgroup_has_memory(const char *controllers)
{
    const char *at = strstr(controllers, "memory");
    return at != NULL && (at == controllers || at[-1] == ',') && (at[6] == '\0' || at[6] == ',');
}

/* Lines of /proc/self/cgroup are "ID:CONTROLLERS:PATH". Version 2 is "0::PATH". */
static void ram_add_own_cgroups(ram *out, const char *root)
{
    char path[PATH_ROOM], line[PATH_ROOM];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return;
    while (fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *name = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (name == NULL)
            continue;
        *controllers++ = *name++ = '\0';
        if (controllers[0] == '\0')
            ram_add_cgroups(out, root, &cgroup_v2, name);
        else if (cgroup_has_memory(controllers))
            ram_add_cgroups(out, root, &cgroup_v1, name);
    }
    fclose(f);
}

/* ---- the process ---- */

static void ram_add_process(ram *out, const char *root)
{
    struct rlimit limit;
    uint64_t pages;
    char directory[PATH_ROOM];
    snprintf(directory, sizeof directory, "%s/proc/self", root);
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        !ram_read_number(directory, "statm", &pages))
        return;
    const uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    out->address_space = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

void ram_find_in(ram *out, const char *root)
{
    *out = (ram){.bytes = UINT64_MAX, .address_space = UINT64_MAX};
    ram_add_machine(out, root);
    ram_add_own_cgroups(out, root);
    ram_add_process(out, root);
}

void ram_find(ram *out)
{
    ram_find_in(out, "");
}

uint64_t ram_budget(const ram *r, uint64_t mapped, const char **source)
{
    uint64_t bytes = r->bytes;
    const char *name = r->source;
    if (r->address_space < UINT64_MAX - mapped && r->address_space + mapped < bytes) {
        bytes = r->address_space + mapped; /* mapped files are part of the used address space */
        name = "ulimit -v";
    }
    if (source != NULL)
        *source = name;
    return bytes == UINT64_MAX ? bytes : bytes - bytes / RESERVE_SHARE;
}
