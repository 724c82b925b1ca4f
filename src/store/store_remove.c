/* SPDX-License-Identifier: Apache-2.0 */
/* store_remove.c - implements store_remove.h. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "store/store_remove.h"

#include "base/mem.h"
#include "gguf/gguf.h"
#include "store/hf_cache.h"
#include "store/hub_files.h"
#include "store/store_int.h"
#include "store/text_match.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAX_TARGETS = GGUF_MAX_PARTS + 2, /* parts of the weights, mmproj, MTP file */
    MAX_SNAPSHOTS = 1000,
    MAX_FILES = 10000,
    MAX_DEPTH = 6,
    MAX_OPEN = 8 /* directories at once */
};

/* A file of the snapshot that goes away. */
typedef struct removal_target {
    char *path;
    char hash[HF_HASH_BYTES]; /* of its blob; "": a plain file, or a link to something else */
    int lock;                 /* descriptor; -1: none */
} removal_target;

typedef struct removal {
    const store *s;
    const store_model *m;
    char repo[FILE_PATH_BYTES], snapshots[FILE_PATH_BYTES], snapshot[FILE_PATH_BYTES];
    removal_target targets[MAX_TARGETS];
    uint32_t n;
} removal;

/* ---- what goes away ---- */

static mote_status removal_no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory: files of a model");
}

/* The link must lead to a blob of this repository, or to where it would be. */
static bool target_is_blob(const removal *r, const char *path, char hash[HF_HASH_BYTES])
{
    char target[FILE_PATH_BYTES], directory[FILE_PATH_BYTES], blobs[FILE_PATH_BYTES];
    char real[PATH_MAX], wanted[PATH_MAX];
    const ssize_t n = readlink(path, target, sizeof target - 1);
    const char *slash = strrchr(path, '/');
    if (n <= 0 || slash == NULL || !hf_cache_hash(hash, path))
        return false;
    target[n] = '\0';
    *strrchr(target, '/') = '\0'; /* hf_cache_hash has found one */
    const int length = target[0] == '/' ? snprintf(directory, sizeof directory, "%s", target)
                                        : snprintf(directory, sizeof directory, "%.*s/%s",
                                                   (int)(slash - path), path, target);
    return length > 0 && (size_t)length < sizeof directory && file_join(blobs, r->repo, "blobs") &&
           realpath(directory, real) != NULL && realpath(blobs, wanted) != NULL &&
           strcmp(real, wanted) == 0;
}

static mote_status removal_add(removal *r, const char *path, mote_error *err)
{
    const size_t bytes = strlen(path) + 1;
    if (r->n == MAX_TARGETS)
        return err_set(err, MOTE_E_ARG, "the model has more than %d files", MAX_TARGETS);
    removal_target *t = &r->targets[r->n];
    *t = (removal_target){.path = mem_new(bytes, 1), .lock = -1};
    if (t->path == NULL)
        return removal_no_memory(err);
    memcpy(t->path, path, bytes);
    r->n++;
    if (!target_is_blob(r, path, t->hash))
        t->hash[0] = '\0';
    return MOTE_OK;
}

/* Adds all parts of the weights: those of the snapshot with the same stem and count. */
static mote_status removal_add_weights(removal *r, const file_list *files, mote_error *err)
{
    uint32_t part, parts, other, others;
    size_t stem, other_stem;
    if (!hub_split_name(r->m->file, &part, &parts, &stem))
        return removal_add(r, r->m->weights, err);
    for (uint32_t i = 0; i < files->n; i++) {
        char path[FILE_PATH_BYTES];
        const char *file = files->files[i].path;
        if (hub_split_name(file, &other, &others, &other_stem) && others == parts &&
            other_stem == stem && strncmp(file, r->m->file, stem) == 0 &&
            file_join(path, r->snapshot, file))
            TRY(removal_add(r, path, err));
    }
    return MOTE_OK;
}

static bool removal_has(const removal *r, const char *path)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (strcmp(r->targets[i].path, path) == 0)
            return true;
    return false;
}

/* True if the snapshot has weights that stay. */
static bool removal_leaves_models(const removal *r, const file_list *files)
{
    for (uint32_t i = 0; i < files->n; i++) {
        char path[FILE_PATH_BYTES];
        if (hub_is_weights(files->files[i].path) &&
            file_join(path, r->snapshot, files->files[i].path) && !removal_has(r, path))
            return true;
    }
    return false;
}

static mote_status removal_add_files(removal *r, mote_error *err)
{
    file_list files;
    TRY(file_list_read(&files, r->snapshot, MAX_DEPTH, MAX_FILES, err));
    mote_status status = file_list_check(&files, r->snapshot, err);
    if (status == MOTE_OK)
        status = removal_add_weights(r, &files, err);
    if (status == MOTE_OK && !removal_leaves_models(r, &files)) {
        if (r->m->mmproj != NULL)
            status = removal_add(r, r->m->mmproj, err);
        if (status == MOTE_OK && r->m->mtp != NULL)
            status = removal_add(r, r->m->mtp, err);
    }
    file_list_fini(&files);
    return status;
}

static mote_status removal_refuse(const store_model *m, mote_error *err)
{
    switch (m->origin) {
    case STORE_OLLAMA:
        return err_set(err, MOTE_E_ARG,
                       "%.200s belongs to Ollama; remove it with: ollama rm %.200s", m->name,
                       m->name);
    case STORE_LM_STUDIO:
        return err_set(err, MOTE_E_ARG, "%.200s belongs to LM Studio; remove it there", m->name);
    default:
        return err_set(err, MOTE_E_ARG,
                       "%.200s is not in the Hugging Face cache; mote does not delete other files "
                       "(%.300s)",
                       m->name, m->weights);
    }
}

static void removal_end(removal *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        mem_free(r->targets[i].path);
        if (r->targets[i].lock >= 0)
            close(r->targets[i].lock);
    }
    mem_free(r);
}

static mote_status removal_begin(removal **out, const store *s, const store_model *m,
                                 mote_error *err)
{
    *out = NULL;
    if (m->origin != STORE_HF_CACHE)
        return removal_refuse(m, err);
    removal *r = mem_new(1, sizeof *r);
    if (r == NULL)
        return removal_no_memory(err);
    r->s = s;
    r->m = m;
    mote_status status = MOTE_OK;
    if (!hf_repo_path(r->repo, s->cache_root, m->repo) ||
        !file_join(r->snapshots, r->repo, "snapshots") ||
        !file_join(r->snapshot, r->snapshots, m->commit))
        status = err_set(err, MOTE_E_ARG, "the path of %.200s is too long", m->name);
    if (status == MOTE_OK)
        status = removal_add_files(r, err);
    if (status != MOTE_OK) {
        removal_end(r);
        return status;
    }
    *out = r;
    return MOTE_OK;
}

/* ---- other users ---- */

/* Calls visit(ctx, commit, files) for each snapshot of the repository. */
typedef void snapshot_visit(void *ctx, const char *commit, const file_list *files,
                            const char *directory);

static mote_status removal_each_snapshot(const removal *r, snapshot_visit *visit, void *ctx,
                                         mote_error *err)
{
    file_list commits;
    TRY(file_list_read(&commits, r->snapshots, 0, MAX_SNAPSHOTS, err));
    mote_status status = commits.cut ? err_set(err, MOTE_E_IO, "%.300s has more than %d snapshots",
                                               r->repo, MAX_SNAPSHOTS)
                                     : file_list_check(&commits, r->snapshots, err);
    for (uint32_t i = 0; i < commits.n && status == MOTE_OK; i++) {
        char directory[FILE_PATH_BYTES];
        file_list files;
        if (!commits.files[i].directory ||
            !file_join(directory, r->snapshots, commits.files[i].path))
            continue;
        status = file_list_read(&files, directory, MAX_DEPTH, MAX_FILES, err);
        if (status == MOTE_OK && files.cut)
            status = err_set(err, MOTE_E_IO, "%.300s has too many files", directory);
        if (status == MOTE_OK)
            status = file_list_check(&files, directory, err);
        if (status == MOTE_OK)
            visit(ctx, commits.files[i].path, &files, directory);
        file_list_fini(&files);
    }
    file_list_fini(&commits);
    return status;
}

typedef struct users_walk {
    const removal *r;
    strbuf *out;
} users_walk;

static bool removal_has_hash(const removal *r, const char *hash)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (strcmp(r->targets[i].hash, hash) == 0)
            return true;
    return false;
}

static void users_visit(void *ctx, const char *commit, const file_list *files,
                        const char *directory)
{
    const users_walk *w = ctx;
    for (uint32_t i = 0; i < files->n && strcmp(commit, w->r->m->commit) != 0; i++) {
        char path[FILE_PATH_BYTES], hash[HF_HASH_BYTES], line[FILE_PATH_BYTES];
        if (!file_join(path, directory, files->files[i].path) || !hf_cache_hash(hash, path) ||
            !removal_has_hash(w->r, hash))
            continue;
        snprintf(line, sizeof line, "revision %.12s of %s has the same file %.400s\n", commit,
                 w->r->m->repo, files->files[i].path);
        strbuf_text(w->out, line);
    }
}

/* Calls visit(ctx, name) for each reference that leads to the snapshot of the model. */
static mote_status removal_each_ref(const removal *r, void (*visit)(void *ctx, const char *name),
                                    void *ctx, mote_error *err)
{
    char directory[FILE_PATH_BYTES], commit[HF_COMMIT_BYTES];
    const char *why;
    file_list refs;
    if (!file_join(directory, r->repo, "refs"))
        return MOTE_OK;
    TRY(file_list_read(&refs, directory, MAX_DEPTH, MAX_FILES, err));
    const mote_status status = file_list_check(&refs, directory, err);
    for (uint32_t i = 0; status == MOTE_OK && i < refs.n; i++)
        if (hf_cache_commit(commit, r->s->cache_root, r->m->repo, refs.files[i].path, &why) &&
            strcmp(commit, r->m->commit) == 0)
            visit(ctx, refs.files[i].path);
    file_list_fini(&refs);
    return status;
}

static void users_visit_ref(void *ctx, const char *name)
{
    const users_walk *w = ctx;
    char line[FILE_PATH_BYTES];
    if (strcmp(name, "main") == 0)
        return;
    snprintf(line, sizeof line, "reference %.400s of %s leads to this revision\n", name,
             w->r->m->repo);
    strbuf_text(w->out, line);
}

mote_status store_remove_users(const store *s, const store_model *m, strbuf *out, mote_error *err)
{
    removal *r;
    TRY(removal_begin(&r, s, m, err));
    users_walk w = {r, out};
    mote_status status = removal_each_snapshot(r, users_visit, &w, err);
    if (status == MOTE_OK)
        status = removal_each_ref(r, users_visit_ref, &w, err);
    removal_end(r);
    return status != MOTE_OK ? status : strbuf_check(out, err);
}

/* ---- removing ---- */

/* A download of huggingface_hub or of mote holds the lock of its blob. */
static mote_status removal_lock(removal *r, mote_error *err)
{
    for (uint32_t i = 0; i < r->n; i++) {
        char path[FILE_PATH_BYTES];
        removal_target *t = &r->targets[i];
        if (t->hash[0] == '\0' || !hf_lock_path(path, r->s->cache_root, r->m->repo, t->hash))
            continue;
        t->lock = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (t->lock >= 0 && flock(t->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return err_set(err, MOTE_E_IO, "%.300s is being downloaded by another process",
                           t->path);
    }
    return MOTE_OK;
}

static mote_status remove_file(const char *path, mote_error *err)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return MOTE_OK;
    return err_set(err, MOTE_E_IO, "cannot remove %.300s: %s", path, strerror(errno));
}

/* Removes what the snapshot has: a link, or the file itself in a cache without links. */
static mote_status removal_unlink_targets(const removal *r, store_removed *out, mote_error *err)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct stat info;
        const char *path = r->targets[i].path;
        if (lstat(path, &info) != 0)
            continue;
        TRY(remove_file(path, err));
        out->files++;
        if (S_ISREG(info.st_mode) && info.st_nlink == 1)
            out->freed += (uint64_t)info.st_size;
        else if (S_ISREG(info.st_mode))
            out->shared += (uint64_t)info.st_size;
    }
    return MOTE_OK;
}

typedef struct blob_walk {
    const removal *r;
    bool used[MAX_TARGETS];
} blob_walk;

static void blob_visit(void *ctx, const char *commit, const file_list *files, const char *directory)
{
    blob_walk *w = ctx;
    (void)commit;
    for (uint32_t i = 0; i < files->n; i++) {
        char path[FILE_PATH_BYTES], hash[HF_HASH_BYTES];
        if (!file_join(path, directory, files->files[i].path) || !hf_cache_hash(hash, path))
            continue;
        for (uint32_t k = 0; k < w->r->n; k++)
            w->used[k] |= strcmp(w->r->targets[k].hash, hash) == 0;
    }
}

/* A blob may be a link into the store that repositories share: only the link goes away. */
static mote_status removal_remove_blob(const removal *r, const char *hash, bool used,
                                       store_removed *out, mote_error *err)
{
    char path[FILE_PATH_BYTES];
    struct stat info, payload;
    if (!hf_blob_path(path, r->s->cache_root, r->m->repo, hash) || lstat(path, &info) != 0)
        return MOTE_OK;
    if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode))
        return err_set(err, MOTE_E_IO, "%.300s is not a file", path);
    const uint64_t bytes = stat(path, &payload) == 0 ? (uint64_t)payload.st_size : 0;
    if (used) {
        out->shared += bytes;
        return MOTE_OK;
    }
    TRY(remove_file(path, err));
    if (S_ISREG(info.st_mode) && info.st_nlink == 1)
        out->freed += bytes;
    else
        out->shared += bytes;
    return MOTE_OK;
}

static mote_status removal_remove_blobs(const removal *r, store_removed *out, mote_error *err)
{
    blob_walk w = {.r = r};
    TRY(removal_each_snapshot(r, blob_visit, &w, err));
    for (uint32_t i = 0; i < r->n; i++)
        if (r->targets[i].hash[0] != '\0')
            TRY(removal_remove_blob(r, r->targets[i].hash, w.used[i], out, err));
    return MOTE_OK;
}

/* Removes the directories above a file that are empty, up to the snapshot. */
static void removal_remove_parents(const removal *r, const char *file)
{
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s", file);
    for (;;) {
        char *slash = strrchr(path, '/');
        if (slash == NULL || (size_t)(slash - path) <= strlen(r->snapshot))
            return;
        *slash = '\0';
        if (rmdir(path) != 0)
            return;
    }
}

static bool directory_is_empty(const char *path)
{
    file_list files;
    if (file_list_read(&files, path, 0, 1, NULL) != MOTE_OK)
        return false;
    const bool empty = files.n == 0 && files.n_unread == 0 && !files.cut;
    file_list_fini(&files);
    return empty;
}

static void ref_visit_remove(void *ctx, const char *name)
{
    const removal *r = ctx;
    char path[FILE_PATH_BYTES];
    if (hf_ref_path(path, r->s->cache_root, r->m->repo, name))
        unlink(path);
}

/* References first: one without a snapshot makes huggingface_hub call the repository corrupt. */
static mote_status removal_remove_snapshot(removal *r, mote_error *err)
{
    for (uint32_t i = 0; i < r->n; i++)
        removal_remove_parents(r, r->targets[i].path);
    if (!directory_is_empty(r->snapshot))
        return MOTE_OK;
    TRY(removal_each_ref(r, ref_visit_remove, r, err));
    rmdir(r->snapshot);
    return MOTE_OK;
}

static int tree_remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    remove(path);
    return 0;
}

static bool repo_has_refs(const removal *r)
{
    char directory[FILE_PATH_BYTES];
    file_list refs;
    if (!file_join(directory, r->repo, "refs") ||
        file_list_read(&refs, directory, MAX_DEPTH, MAX_FILES, NULL) != MOTE_OK)
        return true;
    const bool any = refs.n > 0 || refs.n_unread > 0 || refs.cut;
    file_list_fini(&refs);
    return any;
}

/* What is left of a repository without files has no use: empty directories and lists of what the
 * hub had. It moves to .locks first, in one step: huggingface_hub warns about a repository without
 * `snapshots`, and does not look there. */
static void removal_remove_repo(const removal *r)
{
    char blobs[FILE_PATH_BYTES], locks[FILE_PATH_BYTES], away[FILE_PATH_BYTES + 64];
    if (!file_join(blobs, r->repo, "blobs") || !directory_is_empty(blobs) ||
        !directory_is_empty(r->snapshots) || repo_has_refs(r) ||
        !file_join(locks, r->s->cache_root, ".locks"))
        return;
    if (mkdir(locks, 0777) != 0 && errno != EEXIST)
        return;
    snprintf(away, sizeof away, "%s/%s.removed-%ld", locks, strrchr(r->repo, '/') + 1,
             (long)getpid());
    if (rename(r->repo, away) == 0)
        nftw(away, tree_remove_entry, MAX_OPEN, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

mote_status store_remove(const store *s, const store_model *m, store_removed *out, mote_error *err)
{
    removal *r;
    *out = (store_removed){0};
    TRY(removal_begin(&r, s, m, err));
    mote_status status = removal_lock(r, err);
    if (status == MOTE_OK)
        status = removal_unlink_targets(r, out, err);
    if (status == MOTE_OK)
        status = removal_remove_blobs(r, out, err);
    if (status == MOTE_OK)
        status = removal_remove_snapshot(r, err);
    if (status == MOTE_OK)
        removal_remove_repo(r);
    removal_end(r);
    return status;
}
