/* SPDX-License-Identifier: Apache-2.0 */
/* hf_cache.c - implements hf_cache.h. */
#include "store/hf_cache.h"

#include "base/mem.h"
#include "store/store_int.h"
#include "store/text_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MAX_REF_BYTES = 4096,
    MAX_REPOS = 10000,
    MAX_SNAPSHOTS = 1000, /* of one repository */
    MAX_FILES = 10000,    /* of one snapshot */
    MAX_DEPTH = 6         /* inside each other */
};

/* ---- paths ---- */

/* DIRECTORY/NAME. "~/" is the home directory, as in Python: files with settings for services keep
 * it as it is. */
static bool join_home(char out[FILE_PATH_BYTES], const store_env *env, const char *directory,
                      const char *name)
{
    char whole[FILE_PATH_BYTES];
    if (strncmp(directory, "~/", 2) != 0 || !store_env_set(env->home))
        return file_join(out, directory, name);
    return file_join(whole, env->home, directory + 2) && file_join(out, whole, name);
}

bool hf_cache_root(char out[FILE_PATH_BYTES], const store_env *env)
{
    out[0] = '\0';
    if (store_env_set(env->hf_hub_cache))
        return join_home(out, env, env->hf_hub_cache, "");
    if (store_env_set(env->huggingface_hub_cache))
        return join_home(out, env, env->huggingface_hub_cache, "");
    if (store_env_set(env->hf_home))
        return join_home(out, env, env->hf_home, "hub");
    if (store_env_set(env->xdg_cache_home))
        return file_join(out, env->xdg_cache_home, "huggingface/hub");
    return store_env_set(env->home) && file_join(out, env->home, ".cache/huggingface/hub");
}

/* "models--owner--name" */
static void repo_directory(char out[KNOWN_REPO_BYTES + 16], const char *repo)
{
    const size_t n = strcspn(repo, "/");
    snprintf(out, KNOWN_REPO_BYTES + 16, "models--%.*s--%s", (int)n, repo,
             repo[n] == '/' ? repo + n + 1 : "");
}

bool hf_repo_path(char out[FILE_PATH_BYTES], const char *root, const char *repo)
{
    char directory[KNOWN_REPO_BYTES + 16];
    repo_directory(directory, repo);
    return file_join(out, root, directory);
}

/* ROOT/models--owner--name/KIND/NAME */
static bool repo_part(char out[FILE_PATH_BYTES], const char *root, const char *repo,
                      const char *kind, const char *name)
{
    char directory[FILE_PATH_BYTES], part[FILE_PATH_BYTES];
    return hf_repo_path(directory, root, repo) && file_join(part, directory, kind) &&
           file_join(out, part, name);
}

bool hf_blob_path(char out[FILE_PATH_BYTES], const char *root, const char *repo, const char *hash)
{
    return repo_part(out, root, repo, "blobs", hash);
}

bool hf_ref_path(char out[FILE_PATH_BYTES], const char *root, const char *repo,
                 const char *revision)
{
    return repo_part(out, root, repo, "refs", revision);
}

bool hf_snapshot_path(char out[FILE_PATH_BYTES], const char *root, const char *repo,
                      const char *commit, const char *path)
{
    char snapshot[FILE_PATH_BYTES];
    return repo_part(snapshot, root, repo, "snapshots", commit) && file_join(out, snapshot, path);
}

bool hf_lock_path(char out[FILE_PATH_BYTES], const char *root, const char *repo, const char *hash)
{
    char directory[KNOWN_REPO_BYTES + 16], locks[FILE_PATH_BYTES];
    repo_directory(directory, repo);
    return file_join(locks, root, ".locks") && snprintf(out, FILE_PATH_BYTES, "%s/%s/%s.lock",
                                                        locks, directory, hash) < FILE_PATH_BYTES;
}

/* ---- references and blobs ---- */

bool hf_cache_commit(char out[HF_COMMIT_BYTES], const char *root, const char *repo,
                     const char *revision, const char **why)
{
    char path[FILE_PATH_BYTES];
    strbuf text = {0};
    *why = NULL;
    if (hub_hash_valid(str_of(revision), HF_COMMIT_BYTES - 1)) {
        memcpy(out, revision, HF_COMMIT_BYTES);
        return true;
    }
    if (!hub_revision_valid(str_of(revision)) || !hf_ref_path(path, root, repo, revision))
        return false;
    bool found = file_read_small(&text, path, MAX_REF_BYTES, why);
    str commit = strbuf_view(&text);
    while (commit.n > 0 && strchr(" \t\r\n", commit.p[commit.n - 1]) != NULL)
        commit.n--;
    if (found && !hub_hash_valid(commit, HF_COMMIT_BYTES - 1)) {
        *why = "the text is not a commit, 40 digits 0-9 and a-f";
        found = false;
    }
    if (found)
        snprintf(out, HF_COMMIT_BYTES, "%.*s", (int)commit.n, commit.p);
    strbuf_fini(&text);
    return found;
}

bool hf_cache_hash(char out[HF_HASH_BYTES], const char *snapshot_file)
{
    char target[FILE_PATH_BYTES];
    const ssize_t n = readlink(snapshot_file, target, sizeof target - 1);
    if (n <= 0)
        return false;
    const str whole = {target, (size_t)n}, hash = match_base(whole);
    if ((!hub_hash_valid(hash, 40) && !hub_hash_valid(hash, 64)) ||
        !match_end((str){target, whole.n - hash.n}, "/blobs/"))
        return false;
    snprintf(out, HF_HASH_BYTES, "%.*s", (int)hash.n, hash.p);
    return true;
}

/* ---- the scan ---- */

/* One repository of the cache. */
typedef struct hf_repo {
    store *s;
    const char *root;
    const char *name;     /* "owner/name" */
    const char *revision; /* its models go to the revisions of the store; NULL: to the list */
} hf_repo;

/* The quantisation of the row that means this file; NULL: none. */
static const char *row_quant(const known_model *row, const char *file)
{
    uint32_t part, parts;
    size_t stem;
    const bool split = hub_split_name(file, &part, &parts, &stem);
    for (size_t q = 0; q < row->n_quants; q++) {
        char path[KNOWN_PATH_BYTES];
        if (!known_file(row, row->quants[q], path))
            continue;
        if (strcmp(path, file) == 0 ||
            (split && strlen(path) == stem + 5 && strncmp(path, file, stem) == 0))
            return row->quants[q];
    }
    return NULL;
}

/* The row names another revision than main, and it is this commit. */
static bool row_has_commit(const store *s, const known_model *row, const char *commit)
{
    char wanted[HF_COMMIT_BYTES];
    const char *why;
    return hf_cache_commit(wanted, s->cache_root, row->repo, row->revision, &why) &&
           strcmp(wanted, commit) == 0;
}

/* The known row and its quantisation that mean this file; NULL: none. A row with a revision means
 * the files of that revision only, and counts more than one without. */
static const known_model *known_for(const store *s, const char *repo, const char *commit,
                                    const char *file, const char **quant)
{
    const known_model *found = NULL;
    for (uint32_t i = 0; i < s->known.n; i++) {
        const known_model *row = &s->known.rows[i];
        const bool is_main = strcmp(row->revision, "main") == 0;
        const char *of_row = strcasecmp(row->repo, repo) == 0 ? row_quant(row, file) : NULL;
        if (of_row == NULL || (is_main ? found != NULL : !row_has_commit(s, row, commit)))
            continue;
        found = row;
        *quant = of_row;
        if (!is_main)
            break;
    }
    return found;
}

/* Sets the row, the name and the quantisation. */
static void model_identify(const hf_repo *r, store_model *m)
{
    store *s = r->s;
    char text[2 * KNOWN_REPO_BYTES + KNOWN_PATH_BYTES], quant_text[KNOWN_QUANT_BYTES];
    const char *quant = "";
    m->known = known_for(s, m->repo, m->commit, m->file, &quant);
    if (m->known == NULL) {
        hub_quant_of(m->file, quant_text);
        quant = quant_text;
    }
    if (r->revision != NULL)
        snprintf(text, sizeof text, "hf:%s@%s:%s", m->repo, r->revision, m->file);
    else if (m->known != NULL)
        known_full_name(m->known, quant, text);
    else
        snprintf(text, sizeof text, "hf:%s:%s", m->repo, m->file);
    m->name = store_text(s, text);
    m->quant = store_text(s, quant);
}

/* Adds the model with file number i of a snapshot as its weights. */
static mote_status snapshot_add(hf_repo *r, const char *commit, const char *snapshot,
                                const file_list *files, const hub_file *listing, uint32_t i)
{
    store *s = r->s;
    const char *path = files->files[i].path, *why;
    char whole[FILE_PATH_BYTES], hash[HF_HASH_BYTES];
    hub_choice choice;
    mote_error err;
    store_model m = {.origin = STORE_HF_CACHE,
                     .repo = store_text(s, r->name),
                     .commit = store_text(s, commit),
                     .file = store_text(s, path)};
    if (!hub_path_valid(str_of(path)) || !file_join(whole, snapshot, path))
        return MOTE_OK;
    model_identify(r, &m);
    if (r->revision == NULL && store_has_name(s, m.name)) /* a newer snapshot has it */
        return MOTE_OK;
    if (files->files[i].broken == NULL && !file_inside(whole, r->root, &why)) {
        store_add_problem(s, whole, why);
        return MOTE_OK;
    }
    const mote_status status =
        m.known != NULL ? hub_choose_known(&choice, listing, files->n, m.known, m.quant, &err)
                        : hub_choose_files(&choice, listing, files->n, path, &err);
    if (status != MOTE_OK) {
        choice = (hub_choice){{(int32_t)i}, 1, HUB_NO_FILE, HUB_NO_FILE, files->files[i].bytes};
        m.broken = store_text(s, err.text);
    }
    store_set_files(s, &m, files, snapshot, r->root, &choice);
    if (hf_cache_hash(hash, whole) && strlen(hash) == 64)
        m.sha256 = store_text(s, hash);
    if (r->revision != NULL)
        store_add_revision(s, &m);
    else
        store_add(s, &m);
    return MOTE_OK;
}

static mote_status snapshot_scan(hf_repo *r, const char *commit, mote_error *err)
{
    char snapshot[FILE_PATH_BYTES];
    file_list files;
    if (!hf_snapshot_path(snapshot, r->root, r->name, commit, ""))
        return MOTE_OK;
    TRY(file_list_read(&files, snapshot, MAX_DEPTH, MAX_FILES, err));
    store_add_unread(r->s, snapshot, &files);
    if (files.cut)
        store_add_problem(r->s, snapshot, "too many files or directories; not all are used");
    hub_file *listing = mem_new(files.n, sizeof *listing);
    mote_status status =
        listing != NULL ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "out of memory: %u files", files.n);
    for (uint32_t i = 0; i < files.n && status == MOTE_OK; i++)
        listing[i] = (hub_file){files.files[i].path, files.files[i].bytes};
    for (uint32_t i = 0; i < files.n && status == MOTE_OK; i++)
        if (hub_is_model(files.files[i].path))
            status = snapshot_add(r, commit, snapshot, &files, listing, i);
    mem_free(listing);
    file_list_fini(&files);
    return status;
}

/* Newest first, then by name. */
static int by_time(const void *a, const void *b)
{
    const listed_file *x = a, *y = b;
    if (x->modified != y->modified)
        return x->modified < y->modified ? 1 : -1;
    return strcmp(x->path, y->path);
}

/* The snapshot of main comes first, then the newest. */
static mote_status repo_scan(hf_repo *r, mote_error *err)
{
    char path[FILE_PATH_BYTES], first[HF_COMMIT_BYTES] = "";
    const char *why;
    file_list snapshots;
    if (!hf_cache_commit(first, r->root, r->name, "main", &why) && why != NULL &&
        hf_ref_path(path, r->root, r->name, "main"))
        store_add_problem(r->s, path, why);
    if (first[0] != '\0')
        TRY(snapshot_scan(r, first, err));
    if (!repo_part(path, r->root, r->name, "snapshots", ""))
        return MOTE_OK;
    TRY(file_list_read(&snapshots, path, 0, MAX_SNAPSHOTS, err));
    store_add_unread(r->s, path, &snapshots);
    if (snapshots.n > 0)
        qsort(snapshots.files, snapshots.n, sizeof *snapshots.files, by_time);
    mote_status status = MOTE_OK;
    for (uint32_t i = 0; i < snapshots.n && status == MOTE_OK; i++) {
        const listed_file *f = &snapshots.files[i];
        if (f->directory && hub_hash_valid(str_of(f->path), 40) && strcmp(f->path, first) != 0)
            status = snapshot_scan(r, f->path, err);
    }
    file_list_fini(&snapshots);
    return status;
}

mote_status hf_cache_scan_revision(store *s, const char *repo, const char *revision,
                                   const char *commit, mote_error *err)
{
    hf_repo r = {s, s->cache_root, repo, revision};
    return snapshot_scan(&r, commit, err);
}

/* "models--owner--name" to "owner/name". */
static bool repo_of_directory(char out[KNOWN_REPO_BYTES], const char *directory)
{
    static const char start[] = "models--";
    if (strncmp(directory, start, sizeof start - 1) != 0 ||
        strlen(directory) >= KNOWN_REPO_BYTES + sizeof start - 1)
        return false;
    snprintf(out, KNOWN_REPO_BYTES, "%s", directory + sizeof start - 1);
    char *dashes = strstr(out, "--");
    if (dashes == NULL)
        return false;
    *dashes = '/';
    memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    return hub_repo_valid(str_of(out));
}

mote_status hf_cache_scan(store *s, mote_error *err)
{
    file_list directories;
    mote_status status = MOTE_OK;
    if (s->cache_root[0] == '\0' || !store_add_root(s, s->cache_root))
        return MOTE_OK;
    TRY(file_list_read(&directories, s->cache_root, 0, MAX_REPOS, err));
    store_add_unread(s, s->cache_root, &directories);
    for (uint32_t i = 0; i < directories.n && status == MOTE_OK; i++) {
        char name[KNOWN_REPO_BYTES];
        hf_repo r = {s, s->cache_root, name, NULL};
        if (directories.files[i].directory && repo_of_directory(name, directories.files[i].path))
            status = repo_scan(&r, err);
    }
    file_list_fini(&directories);
    return status;
}
