/* SPDX-License-Identifier: Apache-2.0 */
/*
 * from_directory.c - `mote pull --from DIR`: copies a model from a directory, without the network.
 *
 * DIR is another Hugging Face cache, which names the commit and the hashes, or a directory with
 * GGUF files. The hashes of the latter are computed, and because their commit is unknown, one is
 * derived from the names and hashes: the same files always give the same one. A ref that exists is
 * not changed (cache_writer.c).
 */
#include "pull/hub_choice.h"

#include "base/os.h"
#include "store/file_hash.h"
#include "store/file_list.h"
#include "store/hf_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH_MAX = 4, FILES_MAX = 10000, COPY_BYTES = 1 << 20 };

/* The directory of the files. True: it is a snapshot of a cache, and p->commit is set. */
static bool find_snapshot(pull *p, char directory[FILE_PATH_BYTES])
{
    static const char *const below[] = {"", "/hub", "/huggingface/hub"};
    char root[FILE_PATH_BYTES];
    const char *why;
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        if (snprintf(root, sizeof root, "%s%s", p->request.from, below[i]) >= (int)sizeof root)
            continue;
        if (hf_cache_commit(p->commit, root, p->request.repo, p->request.revision, &why) &&
            hf_repo_path(directory, root, p->request.repo)) {
            const size_t n = strlen(directory);
            snprintf(directory + n, FILE_PATH_BYTES - n, "/snapshots/%s", p->commit);
            if (access(directory, R_OK | X_OK) == 0)
                return true;
        }
    }
    p->commit[0] = '\0';
    snprintf(directory, FILE_PATH_BYTES, "%s", p->request.from);
    return false;
}

static mote_status list_directory(pull *p, listing *l, const char *directory, bool snapshot,
                                  mote_error *err)
{
    file_list files;
    mote_error unread;
    char path[FILE_PATH_BYTES], hash[HF_HASH_BYTES];
    mote_status status = file_list_read(&files, directory, DEPTH_MAX, FILES_MAX, err);
    if (status != MOTE_OK)
        return status;
    for (uint32_t i = 0; status == MOTE_OK && i < files.n; i++) {
        const listed_file *f = &files.files[i];
        hash[0] = '\0';
        if (f->broken != NULL || f->directory || !file_join(path, directory, f->path))
            continue;
        if (snapshot && !hf_cache_hash(hash, path))
            hash[0] = '\0';
        status = listing_add_file(l, str_of(f->path), f->bytes, hash, err);
    }
    if (status == MOTE_OK && l->n == 0 && file_list_check(&files, directory, &unread) != MOTE_OK)
        status = pull_fail(p, PULL_NOT_FOUND, err, "%s", unread.text);
    file_list_fini(&files);
    if (status == MOTE_OK && l->n == 0)
        status = pull_fail(p, PULL_NOT_FOUND, err, "there are no %s files in %s",
                           p->request.checkpoint ? "Safetensors" : "GGUF", directory);
    return status;
}

typedef struct copy_context {
    pull *p;
    const pull_file *f;
} copy_context;

static bool hash_progress(void *with, uint64_t done, uint64_t total)
{
    const copy_context *c = with;
    (void)total;
    event_progress(c->p, c->f, "verifying", done, false);
    return pull_signal == 0;
}

/* Hashes a file of the directory unless its name is known. */
static mote_status hash_source(pull *p, pull_file *f, const char *directory, mote_error *err)
{
    char path[FILE_PATH_BYTES], hash[HASH_TEXT_BYTES];
    copy_context context = {p, f};
    mote_error why;
    if (f->hash[0] != '\0')
        return MOTE_OK;
    if (!file_join(path, directory, f->path))
        return pull_fail(p, PULL_FAILED, err, "the path of %s is too long", f->path);
    const mote_status status =
        file_hash(hash, HASH_SHA256, path, NULL, hash_progress, &context, &why);
    TRY(pull_check_signal(p, err));
    if (status != MOTE_OK)
        return pull_fail(p, PULL_FAILED, err, "cannot read %s: %s", path, why.text);
    memcpy(f->hash, hash, sizeof f->hash);
    return MOTE_OK;
}

static void derive_commit(pull *p)
{
    strbuf text = {0};
    digest d;
    char hex[HASH_TEXT_BYTES];
    for (size_t i = 0; i < p->n_files; i++) {
        strbuf_text(&text, p->files[i].path);
        strbuf_byte(&text, '\n');
        strbuf_text(&text, p->files[i].hash);
        strbuf_byte(&text, '\n');
    }
    if (digest_of(&d, strbuf_view(&text)))
        digest_print(&d, hex);
    else
        memset(hex, '0', sizeof hex);
    memcpy(p->commit, hex, HUB_COMMIT_BYTES - 1);
    p->commit[HUB_COMMIT_BYTES - 1] = '\0';
    strbuf_fini(&text);
}

mote_status from_directory_list(pull *p, char directory[PULL_PATH_BYTES], mote_error *err)
{
    listing files = {.checkpoint = p->request.checkpoint};
    const bool snapshot = find_snapshot(p, directory);
    mote_status status = list_directory(p, &files, directory, snapshot, err);
    if (status == MOTE_OK)
        status = hub_choose(p, &files, err);
    listing_fini(&files);
    for (size_t i = 0; status == MOTE_OK && i < p->n_files; i++) {
        p->total += p->files[i].size;
        status = hash_source(p, &p->files[i], directory, err);
    }
    if (status == MOTE_OK && !snapshot)
        derive_commit(p);
    return status;
}

static mote_status copy_content(pull *p, const pull_file *f, int from, int to, mote_error *err)
{
    static char buffer[COPY_BYTES];
    uint64_t done = 0;
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0) {
        TRY(pull_check_signal(p, err));
        if (!os_write_all(to, buffer, (size_t)n))
            return pull_fail_errno(p, err, "write", f->path);
        done += (uint64_t)n;
        event_progress(p, f, "copying", done < f->size ? done : f->size, false);
    }
    return n == 0 ? MOTE_OK : pull_fail_errno(p, err, "read", f->path);
}

/* Copies to the part file and checks the hash of the copy. */
static mote_status copy_to_part(pull *p, const pull_file *f, const char *source, const char *part,
                                int to, mote_error *err)
{
    char hash[HASH_TEXT_BYTES];
    hash_kind kind;
    mote_error why;
    copy_context context = {p, f};
    const int from = open(source, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return pull_fail_errno(p, err, "read", source);
    const mote_status copied = copy_content(p, f, from, to, err);
    close(from);
    TRY(copied);
    if (!hash_kind_of(&kind, str_of(f->hash)) ||
        file_hash(hash, kind, part, NULL, hash_progress, &context, &why) != MOTE_OK ||
        strcmp(hash, f->hash) != 0) {
        TRY(pull_check_signal(p, err));
        unlink(part);
        return pull_fail(p, PULL_HASH, err, "%s is damaged: its hash is not %s", source, f->hash);
    }
    return MOTE_OK;
}

static mote_status copy_locked(pull *p, pull_file *f, const char *source, mote_error *err)
{
    char part[PULL_PATH_BYTES];
    TRY(cache_find(p, f, err));
    if (f->installed)
        return MOTE_OK;
    if (!cache_path(p, part, "/blobs/%s%s.mote-part", f->hash, p->own))
        return pull_fail(p, PULL_NOT_WRITABLE, err, "the path of the cache is too long");
    unlink(part);
    const int fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return pull_fail_errno(p, err, "create", part);
    mote_status status = copy_to_part(p, f, source, part, fd, err);
    if (status == MOTE_OK)
        status = cache_publish(p, f, fd, err);
    close(fd);
    return status;
}

mote_status from_directory_copy(pull *p, pull_file *f, const char *directory, mote_error *err)
{
    char source[FILE_PATH_BYTES];
    int lock;
    if (!file_join(source, directory, f->path))
        return pull_fail(p, PULL_FAILED, err, "the path of %s is too long", f->path);
    TRY(cache_prepare(p, err));
    TRY(cache_lock(p, f->hash, &lock, err));
    const mote_status status = copy_locked(p, f, source, err);
    cache_unlock(lock);
    return status;
}
