/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache_writer.c - the Hugging Face cache, written so that huggingface_hub and llama.cpp find the
 * files and never see half of one.
 *
 *   blobs/<hash>                      the content; first <hash>.mote-part, renamed when verified
 *   snapshots/<commit>/<path>         a relative symbolic link to the blob
 *   refs/<branch>                     the commit, without a newline
 *
 * The order blob, link, ref is the order of visibility; each step is synced before the next.
 * Temporary files are in blobs/, where other programs ignore unknown names; in refs/ they would
 * count as references. A pull that finds everything in place writes nothing.
 */
#include "pull/pull_int.h"

#include "base/landlock.h"
#include "base/os.h"
#include "store/file_hash.h"
#include "store/hf_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 20 };
/* Space that a pull leaves free. */
#define SPACE_MARGIN ((uint64_t)64 << 20)

/* ---- paths ---- */

bool cache_path(const pull *p, char *out, const char *format, ...)
{
    if (!hf_repo_path(out, p->request.cache, p->request.repo))
        return false;
    const size_t n = strlen(out);
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(out + n, PULL_PATH_BYTES - n, format, args);
    va_end(args);
    return more >= 0 && n + (size_t)more < PULL_PATH_BYTES;
}

bool cache_snapshot_path(const pull *p, const char *path, char *out)
{
    return cache_path(p, out, "/snapshots/%s%s%s", p->commit, path[0] != '\0' ? "/" : "", path);
}

static mote_status path_too_long(pull *p, mote_error *err)
{
    return pull_fail(p, PULL_NOT_WRITABLE, err, "the path of the cache is too long");
}

/* ---- directories ---- */

/* Creates a directory and its parents, with the modes of the umask. */
mote_status cache_make_directories(pull *p, const char *path, mote_error *err)
{
    char part[PULL_PATH_BYTES];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = strchr(part + 1, '/');; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        const int error = mkdir(part, 0777) != 0 ? errno : 0;
        if (error != 0 && error != EEXIST && access(part, F_OK) != 0) {
            errno = error; /* access() has set another one */
            return pull_fail_errno(p, err, "create", part);
        }
        if (slash == NULL)
            return MOTE_OK;
        *slash = '/';
    }
}

static void parent_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        *slash = '\0';
}

static void sync_directory(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    os_sync(fd);
    close(fd);
}

/* Syncs the directory of a file. */
static void sync_parent(const char *path)
{
    char directory[PULL_PATH_BYTES];
    snprintf(directory, sizeof directory, "%s", path);
    parent_of(directory);
    sync_directory(directory);
}

/* Backup programs skip a directory with this file. */
static void write_tag(const pull *p)
{
    static const char tag[] =
        "Signature: 8a477f597d28d172789f06886806bc55\n"
        "# This directory is a cache of model files; backup programs may skip it.\n";
    char path[PULL_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/CACHEDIR.TAG", p->request.cache) >= (int)sizeof path)
        return;
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    if (write(fd, tag, sizeof tag - 1) != (ssize_t)sizeof tag - 1)
        unlink(path);
    close(fd);
}

/* The directory of the locks of the repository. */
static bool lock_directory(const pull *p, char *out)
{
    if (!hf_lock_path(out, p->request.cache, p->request.repo, "x"))
        return false;
    parent_of(out);
    return true;
}

/* Opens the directory of the repository, which exists, and holds it against cache_end of another
 * process. False: that one has removed it. */
static bool hold_repository(pull *p, const char *path)
{
    struct stat st;
    p->repo_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->repo_fd < 0)
        return errno != ENOENT;
    if (!cache_hold(p->repo_fd, false) || fstat(p->repo_fd, &st) != 0 || st.st_nlink > 0)
        return true;
    close(p->repo_fd);
    p->repo_fd = -1;
    return false;
}

void cache_begin(pull *p)
{
    enum { TRIES = 100 };
    char path[PULL_PATH_BYTES], locks[PULL_PATH_BYTES];
    mote_error ignored;
    if (!cache_path(p, path, "%s", ""))
        return; /* cache_prepare says so */
    bool held = false;
    for (int i = 0; i < TRIES && !held; i++) {
        p->repo_made = access(path, F_OK) != 0;
        errno = 0;
        if (cache_make_directories(p, path, &ignored) != MOTE_OK) {
            p->repo_error = errno;
            p->repo_made = false;
            return;
        }
        held = hold_repository(p, path);
    }
    write_tag(p);
    if (lock_directory(p, locks))
        cache_make_directories(p, locks, &ignored); /* without it the pull works too */
}

static void remove_part(const pull *p, const char *hash);

void cache_end(pull *p)
{
    char path[PULL_PATH_BYTES];
    for (size_t i = 0; p->own[0] != '\0' && i < p->n_files; i++)
        remove_part(p, p->files[i].hash);
    if (p->repo_made && p->repo_fd >= 0 && cache_hold(p->repo_fd, true)) {
        if (cache_path(p, path, "/blobs"))
            rmdir(path);
        if (cache_path(p, path, "%s", "") && rmdir(path) == 0 && lock_directory(p, path))
            rmdir(path);
    }
    if (p->repo_fd >= 0)
        close(p->repo_fd);
    p->repo_fd = -1;
}

void cache_allow(const pull *p, int ruleset, uint64_t rights)
{
    char path[PULL_PATH_BYTES];
    landlock_allow(ruleset, p->request.cache, LANDLOCK_READ | LANDLOCK_REMOVE_DIR);
    if (cache_path(p, path, "%s", ""))
        landlock_allow(ruleset, path, rights);
    if (lock_directory(p, path))
        landlock_allow(ruleset, path, rights);
}

mote_status cache_prepare(pull *p, mote_error *err)
{
    char path[PULL_PATH_BYTES];
    if (p->cache_ready)
        return MOTE_OK;
    if (!cache_path(p, path, "/blobs"))
        return path_too_long(p, err);
    if (p->repo_error != 0) {
        errno = p->repo_error; /* in the sandbox it would be another one */
        return pull_fail_errno(p, err, "create", path);
    }
    TRY(cache_make_directories(p, path, err));
    if (access(path, W_OK | X_OK) != 0)
        return pull_fail_errno(p, err, "write to", path);
    p->cache_ready = true;
    return MOTE_OK;
}

/* ---- files that are there ---- */

typedef struct verify_context {
    pull *p;
    const pull_file *f;
} verify_context;

static bool verify_progress(void *with, uint64_t done, uint64_t total)
{
    const verify_context *c = with;
    (void)total;
    event_progress(c->p, c->f, "verifying", done, false);
    return pull_signal == 0;
}

static void remember_hash(const pull *p, const char *path, const char *hash)
{
    file_identity identity;
    mote_error ignored;
    if (p->request.state != NULL && p->request.state[0] == '/' && file_identity_of(&identity, path))
        verified_add(p->request.state, &identity, hash, &ignored);
}

/* Is `path` a file with the right content? A hash that was computed before counts. */
static mote_status verify_file(pull *p, const pull_file *f, const char *path, bool *right,
                               mote_error *err)
{
    char hash[HASH_TEXT_BYTES];
    file_identity identity;
    hash_kind kind;
    mote_error why;
    verify_context context = {p, f};
    *right = false;
    if (!hash_kind_of(&kind, str_of(f->hash)) || !file_identity_of(&identity, path) ||
        identity.bytes != f->size)
        return MOTE_OK;
    if (p->request.state != NULL && p->request.state[0] == '/' &&
        verified_find(p->request.state, &identity, hash, NULL) && strcmp(hash, f->hash) == 0) {
        *right = true;
        return MOTE_OK;
    }
    const mote_status status = file_hash(hash, kind, path, NULL, verify_progress, &context, &why);
    TRY(pull_check_signal(p, err));
    *right = status == MOTE_OK && strcmp(hash, f->hash) == 0;
    if (*right)
        remember_hash(p, path, hash);
    else
        event_warning("a file in the cache is damaged; it is downloaded again");
    return MOTE_OK;
}

mote_status cache_find(pull *p, pull_file *f, mote_error *err)
{
    char path[PULL_PATH_BYTES];
    struct stat st;
    if (f->hash[0] == '\0')
        return MOTE_OK;
    if (!cache_path(p, path, "/blobs/%s", f->hash))
        return path_too_long(p, err);
    TRY(verify_file(p, f, path, &f->installed, err));
    if (f->installed || !cache_snapshot_path(p, f->path, path) || lstat(path, &st) != 0 ||
        !S_ISREG(st.st_mode))
        return MOTE_OK;
    TRY(verify_file(p, f, path, &f->installed, err));
    f->in_snapshot = f->installed;
    return MOTE_OK;
}

/* Bytes on the disk of the part file, which need not be downloaded. */
static uint64_t part_bytes(const pull *p, const pull_file *f)
{
    char path[PULL_PATH_BYTES];
    struct stat st;
    if (f->hash[0] == '\0' || !cache_path(p, path, "/blobs/%s.mote-part", f->hash) ||
        stat(path, &st) != 0)
        return 0;
    const uint64_t bytes = (uint64_t)st.st_blocks * 512;
    return bytes < f->size ? bytes : f->size;
}

/* Of the file system that holds the cache, or will hold it. */
static bool free_space(const pull *p, uint64_t *bytes)
{
    char path[PULL_PATH_BYTES];
    struct statvfs fs;
    snprintf(path, sizeof path, "%s", p->request.cache);
    while (statvfs(path, &fs) != 0) {
        if (errno != ENOENT || strlen(path) <= 1)
            return false;
        parent_of(path);
        if (path[0] == '\0')
            snprintf(path, sizeof path, "/");
    }
    *bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    return true;
}

mote_status cache_check_space(pull *p, uint64_t *free_bytes, mote_error *err)
{
    uint64_t needed = 0;
    *free_bytes = 0;
    for (size_t i = 0; i < p->n_files; i++)
        if (!p->files[i].installed)
            needed += p->files[i].size - part_bytes(p, &p->files[i]);
    if (!free_space(p, free_bytes) || needed == 0 || p->request.dry_run)
        return MOTE_OK;
    if (needed > *free_bytes || *free_bytes - needed < SPACE_MARGIN / 64)
        return pull_fail(p, PULL_DISK_FULL, err,
                         "the download needs %.1f MB, %.1f MB are free in %s", (double)needed / 1e6,
                         (double)*free_bytes / 1e6, p->request.cache);
    return MOTE_OK;
}

/* Removes a part file and its record, if there are any. */
static void remove_part(const pull *p, const char *hash)
{
    char path[PULL_PATH_BYTES];
    if (cache_path(p, path, "/blobs/%s%s.mote-part", hash, p->own))
        unlink(path);
    if (cache_path(p, path, "/blobs/%s%s.mote-ranges", hash, p->own))
        unlink(path);
}

void cache_remove_part(pull *p, const pull_file *f)
{
    static const char *const suffixes[] = {"part", "ranges"};
    char path[PULL_PATH_BYTES];
    bool left = false;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        left = left || (cache_path(p, path, "/blobs/%s.mote-%s", f->hash, suffixes[i]) &&
                        access(path, F_OK) == 0);
    const int lock = left ? cache_lock_try(p, f->hash) : -1;
    if (lock >= 0)
        remove_part(p, f->hash);
    cache_unlock(lock);
}

void cache_remove_stale(pull *p, const pull_file *f)
{
    static const char suffix[] = ".mote-ranges";
    char path[PULL_PATH_BYTES], name[HUB_NAME_BYTES], hash[HUB_HASH_BYTES];
    if (!cache_path(p, path, "/blobs"))
        return;
    DIR *d = opendir(path);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        const size_t n = strlen(e->d_name);
        const size_t n_hash = n > strlen(suffix) ? n - strlen(suffix) : 0;
        if (!hub_blob_name_valid((str){e->d_name, n_hash}) ||
            strcmp(e->d_name + n_hash, suffix) != 0)
            continue;
        memcpy(hash, e->d_name, n_hash);
        hash[n_hash] = '\0';
        if (strcmp(hash, f->hash) == 0 || !cache_path(p, path, "/blobs/%s", e->d_name) ||
            !ranges_name(path, name, sizeof name) || strcmp(name, f->path) != 0)
            continue;
        const int lock = cache_lock_try(p, hash);
        if (lock >= 0)
            remove_part(p, hash);
        cache_unlock(lock);
    }
    if (d != NULL)
        closedir(d);
}

/* ---- publishing ---- */

static mote_status check_magic(pull *p, const pull_file *f, int fd, mote_error *err)
{
    char magic[4];
    const size_t n = strlen(f->path);
    if (n < 5 || strcmp(f->path + n - 5, ".gguf") != 0) /* of a checkpoint */
        return MOTE_OK;
    if (pread(fd, magic, sizeof magic, 0) == sizeof magic && memcmp(magic, "GGUF", 4) == 0)
        return MOTE_OK;
    remove_part(p, f->hash);
    return pull_fail(p, PULL_NOT_GGUF, err, "%s is not a GGUF file; it is not installed", f->path);
}

mote_status cache_publish(pull *p, pull_file *f, int fd, mote_error *err)
{
    char part[PULL_PATH_BYTES], blob[PULL_PATH_BYTES], record[PULL_PATH_BYTES];
    struct stat st;
    if (!cache_path(p, part, "/blobs/%s%s.mote-part", f->hash, p->own) ||
        !cache_path(p, blob, "/blobs/%s", f->hash) ||
        !cache_path(p, record, "/blobs/%s%s.mote-ranges", f->hash, p->own))
        return path_too_long(p, err);
    TRY(check_magic(p, f, fd, err));
    if (!os_sync(fd) || fchmod(fd, 0666 & ~(mode_t)p->umask) != 0)
        return pull_fail_errno(p, err, "write", part);
    if (fstat(fd, &st) != 0 || st.st_nlink == 0)
        return pull_fail(p, PULL_NOT_WRITABLE, err,
                         "another program removed the part file of %s from the cache; run the "
                         "command again",
                         f->path);
    if (rename(part, blob) != 0)
        return pull_fail_errno(p, err, "rename", part);
    sync_parent(blob);
    unlink(record);
    f->installed = f->fresh = true;
    remember_hash(p, blob, f->hash);
    return MOTE_OK;
}

/* ---- snapshot and ref ---- */

/* The target of the link of `path`: one "../" per directory. */
static void link_target(const pull_file *f, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "../../");
    for (const char *c = f->path; *c != '\0' && n < room; c++)
        if (*c == '/')
            n += (size_t)snprintf(out + n, room - n, "../");
    if (n < room)
        snprintf(out + n, room - n, "blobs/%s", f->hash);
}

static bool no_symlinks_here(int error)
{
    return error == EPERM || error == ENOTSUP || error == EOPNOTSUPP || error == ENOSYS;
}

static bool copy_bytes(int from, int to)
{
    static char buffer[COPY_BYTES];
    for (;;) {
        const ssize_t n = read(from, buffer, sizeof buffer);
        if (n <= 0)
            return n == 0;
        if (!os_write_all(to, buffer, (size_t)n))
            return false;
    }
}

/* Copies a link or a file to a new path and syncs the file. */
static bool copy_entry(const char *from, const char *to)
{
    char target[PULL_PATH_BYTES];
    const ssize_t n = readlink(from, target, sizeof target - 1);
    unlink(to);
    if (n > 0) {
        target[n] = '\0';
        return symlink(target, to) == 0;
    }
    const int in = open(from, O_RDONLY | O_CLOEXEC);
    const int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const bool copied = in >= 0 && out >= 0 && copy_bytes(in, out) && os_sync(out);
    const int error = errno;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    errno = error;
    return copied;
}

/* Copies `from` to a temporary name next to `path`, then renames it. Such a name is visible to other
 * programs, so it is used only where blobs/ does not do. */
static mote_status copy_into_place(pull *p, const char *from, const char *path, mote_error *err)
{
    char local[PULL_PATH_BYTES];
    if (snprintf(local, sizeof local, "%s%s.mote-new", path, p->own) >= (int)sizeof local)
        return path_too_long(p, err);
    if (copy_entry(from, local) && rename(local, path) == 0)
        return MOTE_OK;
    const mote_status status = pull_fail_errno(p, err, "create", path);
    unlink(local);
    return status;
}

/* Moves `temporary` to `path`. Landlock before Linux 5.19 refuses a rename into another directory,
 * and so does a file system that is mounted on one of them. */
static mote_status move_into_place(pull *p, const char *temporary, const char *path,
                                   mote_error *err)
{
    if (rename(temporary, path) == 0)
        return MOTE_OK;
    if (errno != EXDEV)
        return pull_fail_errno(p, err, "create", path);
    TRY(copy_into_place(p, temporary, path, err));
    unlink(temporary);
    return MOTE_OK;
}

/* Without symbolic links the file is in snapshots/. A new blob is moved there, an old one is
 * copied: other snapshots may use it. */
static mote_status place_in_snapshot(pull *p, pull_file *f, const char *path, mote_error *err)
{
    char blob[PULL_PATH_BYTES];
    if (!cache_path(p, blob, "/blobs/%s", f->hash))
        return path_too_long(p, err);
    if (f->fresh)
        TRY(move_into_place(p, blob, path, err));
    else
        TRY(copy_into_place(p, blob, path, err));
    f->in_snapshot = true;
    remember_hash(p, path, f->hash);
    return MOTE_OK;
}

/* Is the link of the file right? */
static bool is_linked(const pull *p, const pull_file *f)
{
    char path[PULL_PATH_BYTES], target[HUB_NAME_BYTES * 2], current[HUB_NAME_BYTES * 2];
    if (f->in_snapshot)
        return true;
    link_target(f, target, sizeof target);
    if (!cache_snapshot_path(p, f->path, path))
        return false;
    const ssize_t n = readlink(path, current, sizeof current - 1);
    return n > 0 && (size_t)n == strlen(target) && memcmp(current, target, (size_t)n) == 0;
}

static mote_status link_file(pull *p, pull_file *f, mote_error *err)
{
    char path[PULL_PATH_BYTES], temporary[PULL_PATH_BYTES], directory[PULL_PATH_BYTES];
    char target[HUB_NAME_BYTES * 2];
    if (is_linked(p, f))
        return MOTE_OK;
    if (!cache_snapshot_path(p, f->path, path) ||
        !cache_path(p, temporary, "/blobs/%s%s.mote-link", f->hash, p->own))
        return path_too_long(p, err);
    link_target(f, target, sizeof target);
    snprintf(directory, sizeof directory, "%s", path);
    parent_of(directory);
    TRY(cache_make_directories(p, directory, err));
    unlink(temporary);
    if (p->request.no_symlinks || symlink(target, temporary) != 0) {
        if (!p->request.no_symlinks && !no_symlinks_here(errno))
            return pull_fail_errno(p, err, "create", temporary);
        TRY(place_in_snapshot(p, f, path, err));
    } else {
        TRY(move_into_place(p, temporary, path, err));
    }
    for (size_t depth = 0; depth < 3; depth++) { /* the commit's directory is new, too */
        sync_directory(directory);
        parent_of(directory);
    }
    return MOTE_OK;
}

static bool ref_is(const char *path, const char *commit)
{
    char text[64];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
    if (fd >= 0)
        close(fd);
    return n == (ssize_t)strlen(commit) && memcmp(text, commit, (size_t)n) == 0;
}

/* Does the ref name a commit that a copy from a directory must not replace? Only the hub knows
 * which commit a branch has: readers of the ref keep the files that they had. */
static bool ref_is_kept(const pull *p, char commit[HF_COMMIT_BYTES])
{
    const char *why;
    return p->request.from != NULL && p->request.from[0] != '\0' &&
           hf_cache_commit(commit, p->request.cache, p->request.repo, p->request.revision, &why);
}

/* Does the ref need no change? A commit has none. */
static bool ref_is_right(const pull *p)
{
    char path[PULL_PATH_BYTES], kept[HF_COMMIT_BYTES];
    return hub_hash_valid(str_of(p->request.revision), 40) || ref_is_kept(p, kept) ||
           (cache_path(p, path, "/refs/%s", p->request.revision) && ref_is(path, p->commit));
}

/* Says that the ref was kept, unless its snapshot has the same files. */
static void report_kept_ref(const pull *p)
{
    char kept[HF_COMMIT_BYTES], text[2 * PULL_PATH_BYTES], path[PULL_PATH_BYTES];
    bool same = true;
    if (!ref_is_kept(p, kept) || strcmp(kept, p->commit) == 0)
        return;
    for (size_t i = 0; same && i < p->n_files; i++) {
        char hash[HF_HASH_BYTES] = "";
        same = hf_snapshot_path(path, p->request.cache, p->request.repo, kept, p->files[i].path) &&
               hf_cache_hash(hash, path) && strcmp(hash, p->files[i].hash) == 0;
    }
    if (same || !cache_snapshot_path(p, "", path))
        return;
    snprintf(text, sizeof text, "%s of %s stays at %s; the copy is in %s", p->request.revision,
             p->request.repo, kept, path);
    event_warning(text);
}

static mote_status write_ref(pull *p, mote_error *err)
{
    char path[PULL_PATH_BYTES], directory[PULL_PATH_BYTES], temporary[PULL_PATH_BYTES];
    if (!cache_path(p, path, "/refs/%s", p->request.revision) ||
        !cache_path(p, temporary, "/blobs/%s%s.mote-ref", p->commit, p->own))
        return path_too_long(p, err);
    if (ref_is_right(p))
        return MOTE_OK;
    snprintf(directory, sizeof directory, "%s", path);
    parent_of(directory);
    TRY(cache_make_directories(p, directory, err));
    const size_t n = strlen(p->commit);
    const int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    const bool written = fd >= 0 && write(fd, p->commit, n) == (ssize_t)n && os_sync(fd);
    const int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    const mote_status status =
        written ? move_into_place(p, temporary, path, err) : pull_fail_errno(p, err, "write", path);
    if (status != MOTE_OK)
        unlink(temporary);
    else
        sync_parent(path);
    return status;
}

static mote_status link_locked(pull *p, mote_error *err)
{
    /* The first file names the model: it becomes visible last. */
    for (size_t i = p->n_files; i-- > 0;)
        TRY(link_file(p, &p->files[i], err));
    return write_ref(p, err);
}

mote_status cache_link_all(pull *p, mote_error *err)
{
    bool right = ref_is_right(p);
    int lock;
    report_kept_ref(p);
    for (size_t i = 0; i < p->n_files; i++)
        right = right && is_linked(p, &p->files[i]);
    if (right)
        return MOTE_OK; /* a cache that cannot be written is fine then */
    /* Two pulls of one commit share the names of temporary files. */
    TRY(cache_prepare(p, err));
    TRY(cache_lock(p, p->commit, &lock, err));
    const mote_status status = link_locked(p, err);
    cache_unlock(lock);
    return status;
}
