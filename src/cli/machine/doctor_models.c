/* SPDX-License-Identifier: Apache-2.0 */
/* doctor_models.c - checks of `mote doctor`: the store, its models, speed and space of the disk. */
#define _XOPEN_SOURCE 700 /* S_ISVTX */
#include "base/mem.h"
#include "base/os.h"
#include "cli/machine/doctor.h"
#include "cli/term/text.h"
#include "store/file_hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* A model of the family with its vision encoder needs about this much. */
static const uint64_t little_space = 6000000000;

/* Opens the store; false: a finding says why not. */
static bool store_begin(doctor *d, store **out)
{
    mote_error err;
    if (store_open(out, &d->machine->store, &err) == MOTE_OK)
        return true;
    doctor_add(d, DOCTOR_PROBLEM, "correct the file", "%s", err.text);
    return false;
}

/* The nearest directory above `path` that exists. */
static void existing_parent(char out[DOCTOR_PATH_BYTES], const char *path)
{
    struct stat info;
    snprintf(out, DOCTOR_PATH_BYTES, "%s", path);
    while (stat(out, &info) != 0) {
        char *slash = strrchr(out, '/');
        if (slash == NULL || slash == out) {
            snprintf(out, DOCTOR_PATH_BYTES, slash == NULL ? "." : "/");
            return;
        }
        *slash = '\0';
    }
}

/* ---- directory and space ---- */

void doctor_store_directory(doctor *d)
{
    store *s;
    if (!store_begin(d, &s))
        return;
    const char *root = store_cache_root(s);
    char there[DOCTOR_PATH_BYTES], a[TEXT_NUMBER_BYTES];
    struct statvfs space;
    if (root[0] == '\0') {
        doctor_add(d, DOCTOR_PROBLEM, "set HOME or HF_HUB_CACHE",
                   "no directory for models: neither HOME nor HF_HUB_CACHE is set");
        store_close(s);
        return;
    }
    existing_parent(there, root);
    const bool exists = strcmp(there, root) == 0;
    if (access(there, W_OK | X_OK) != 0)
        doctor_add(d, DOCTOR_PROBLEM,
                   "change its owner or mode, or choose another directory with HF_HUB_CACHE",
                   "mote pull cannot write to %s: %s", there, strerror(errno));
    else
        doctor_add(d, DOCTOR_OK, NULL, "%s%s", root,
                   exists ? "" : ", which does not exist yet; mote pull creates it");
    if (statvfs(there, &space) == 0) {
        const uint64_t bytes = d->machine->free_space > 0
                                   ? d->machine->free_space
                                   : (uint64_t)space.f_bavail * space.f_frsize;
        if (bytes < little_space)
            doctor_add(d, DOCTOR_NOTE,
                       "free space, or choose another disk with HF_HUB_CACHE; mote list shows the "
                       "sizes of models, mote rm removes one",
                       "%s free", text_bytes(a, bytes));
        else
            doctor_add(d, DOCTOR_OK, NULL, "%s free", text_bytes(a, bytes));
    }
    store_close(s);
}

/* ---- permissions ---- */

/* A directory that others may write to lets them replace a model. */
static bool access_check(doctor *d, const char *path)
{
    struct stat info;
    if (path == NULL || path[0] == '\0' || stat(path, &info) != 0)
        return true;
    if ((info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0) {
        doctor_add(d, DOCTOR_PROBLEM, "chmod o-w on the directory",
                   "every user can replace files in %s (mode %03o)", path, info.st_mode & 07777u);
        return false;
    }
    if (info.st_uid != d->machine->user && info.st_uid != 0) {
        doctor_add(d, DOCTOR_NOTE, "trust that user, or use another directory",
                   "%s belongs to another user, who can replace models", path);
        return false;
    }
    return true;
}

void doctor_store_access(doctor *d)
{
    store *s;
    const store_model *list;
    size_t n, n_roots = 0;
    mote_error err;
    bool good = true;
    if (store_open(&s, &d->machine->store, &err) != MOTE_OK)
        return; /* doctor_store_directory has said why */
    if (store_list(s, &list, &n, &err) == MOTE_OK) {
        const char *const *roots = store_roots(s, &n_roots);
        for (size_t i = 0; i < n_roots; i++)
            good = access_check(d, roots[i]) && good;
    }
    if (good && n_roots > 0)
        doctor_add(d, DOCTOR_OK, NULL, "only you or the administrator can change models");
    store_close(s);
}

/* ---- models ---- */

enum { MODELS_SHOWN = 8 };

/* Its hash was never computed, although the store knows what it must be. */
static bool model_is_unverified(const doctor *d, const store_model *model)
{
    char directory[VERIFIED_PATH_BYTES], hash[HASH_TEXT_BYTES];
    file_identity identity;
    return model->sha256 != NULL && file_identity_of(&identity, model->weights) &&
           verified_directory(directory, d->machine->store.xdg_cache_home,
                              d->machine->store.home) &&
           !verified_find(directory, &identity, hash, NULL);
}

/* The hash that was computed last is not the one that the store expects. */
static bool model_is_damaged(const doctor *d, const store_model *model)
{
    char directory[VERIFIED_PATH_BYTES], hash[HASH_TEXT_BYTES];
    file_identity identity;
    return model->sha256 != NULL && file_identity_of(&identity, model->weights) &&
           verified_directory(directory, d->machine->store.xdg_cache_home,
                              d->machine->store.home) &&
           verified_find(directory, &identity, hash, NULL) && strcmp(hash, model->sha256) != 0;
}

static void models_report(doctor *d, const store_model *list, size_t n)
{
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    size_t unverified = 0, bad = 0, used = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        if (list[i].foreign)
            continue;
        const bool damaged = model_is_damaged(d, &list[i]);
        used++;
        bytes += list[i].bytes;
        unverified += model_is_unverified(d, &list[i]);
        if ((list[i].broken == NULL && !damaged) || bad++ >= MODELS_SHOWN)
            continue;
        doctor_add(d, DOCTOR_PROBLEM, "mote pull downloads it again, mote rm removes it",
                   "%s cannot be used: %s", list[i].name,
                   damaged ? "its SHA-256 is not the one of the repository" : list[i].broken);
    }
    if (used > 0)
        doctor_add(d, DOCTOR_OK, NULL, "%s installed, %s", text_counted(a, used, "model"),
                   text_bytes(b, bytes));
    else
        doctor_add(d, DOCTOR_OK, NULL, "none installed; mote fit lists what runs here");
    if (n > used)
        doctor_add(d, DOCTOR_OK, NULL,
                   "%s of other programs, which mote does not use: not Qwen 3.5",
                   text_counted(a, n - used, "model"));
    if (unverified > 0)
        doctor_add(d, DOCTOR_NOTE, "mote verify", "%s never compared with the SHA-256 of the file",
                   text_counted(a, unverified, "model"));
}

/* What the scan could not use. The models of Ollama's service belong to another user. */
static void problems_report(doctor *d, const store *s)
{
    size_t n, files = 0;
    char a[TEXT_NUMBER_BYTES];
    const store_problem *problems = store_problems(s, &n);
    const char *service = d->machine->store.ollama_service;
    for (size_t i = 0; i < n; i++) {
        if (!problems[i].unreadable) {
            files++;
            continue;
        }
        const bool other = service != NULL && strstr(problems[i].path, service) == problems[i].path;
        doctor_add(d, other ? DOCTOR_NOTE : DOCTOR_PROBLEM,
                   "make it readable for this user, or choose other directories (HF_HUB_CACHE, "
                   "OLLAMA_MODELS, MOTE_MODELS)",
                   "the directory %s cannot be read: %s", problems[i].path, problems[i].why);
    }
    if (files > 0)
        doctor_add(d, DOCTOR_NOTE, "mote list -v says why", "%s not used",
                   text_counted(a, files, "file"));
}

void doctor_store_models(doctor *d)
{
    store *s;
    const store_model *list;
    size_t n;
    mote_error err;
    if (store_open(&s, &d->machine->store, &err) != MOTE_OK)
        return;
    if (store_list(s, &list, &n, &err) == MOTE_OK)
        models_report(d, list, n);
    else
        doctor_add(d, DOCTOR_PROBLEM, "correct what the message says", "%s", err.text);
    problems_report(d, s);
    store_close(s);
}

/* ---- disk ---- */

enum { READ_BYTES = 4 << 20, READ_ALIGN = 4096 };
static const double slow_disk = 100e6; /* bytes per second */

/* Reads from the start of a file past the page cache for at most `seconds`. Returns bytes per
 * second; 0: not possible. */
static double disk_measure(const char *path, double seconds)
{
    const int fd = os_open_uncached(path);
    unsigned char *memory = mem_new(READ_BYTES + READ_ALIGN, 1);
    uint64_t bytes = 0;
    const double start = os_now();
    double now = start;
    if (fd >= 0 && memory != NULL) {
        unsigned char *buffer = memory + (READ_ALIGN - (uintptr_t)memory % READ_ALIGN);
        for (ssize_t n; now - start < seconds && (n = read(fd, buffer, READ_BYTES)) > 0;) {
            bytes += (uint64_t)n;
            now = os_now();
        }
    }
    mem_free(memory);
    if (fd >= 0)
        close(fd);
    return bytes >= READ_BYTES && now > start ? (double)bytes / (now - start) : 0;
}

void doctor_disk_speed(doctor *d)
{
    store *s;
    const store_model *list, *largest = NULL;
    size_t n;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES], c[TEXT_NUMBER_BYTES];
    mote_error err;
    if (d->machine->disk_seconds <= 0 || store_open(&s, &d->machine->store, &err) != MOTE_OK)
        return;
    if (store_list(s, &list, &n, &err) == MOTE_OK)
        for (size_t i = 0; i < n; i++)
            if (list[i].broken == NULL && (largest == NULL || list[i].bytes > largest->bytes))
                largest = &list[i];
    const double speed =
        largest != NULL ? disk_measure(largest->weights, d->machine->disk_seconds) : 0;
    if (largest == NULL)
        doctor_add(d, DOCTOR_OK, NULL, "not measured: no model to read");
    else if (speed <= 0)
        doctor_add(d, DOCTOR_OK, NULL, "not measured: the file is too small or not on a disk");
    else
        doctor_add(d, speed < slow_disk ? DOCTOR_NOTE : DOCTOR_OK,
                   speed < slow_disk ? "put the store on a faster disk (HF_HUB_CACHE)" : NULL,
                   "%s/s: %s, %s, loads in %s", text_bytes(a, (uint64_t)speed), largest->name,
                   text_bytes(b, largest->bytes), text_seconds(c, (double)largest->bytes / speed));
    store_close(s);
}
