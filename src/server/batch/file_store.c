/* SPDX-License-Identifier: Apache-2.0 */
/* file_store.c - see file_store.h. */
#include "server/batch/file_store.h"

#include "base/mem.h"
#include "base/os.h"
#include "json/json_writer.h"
#include "server/generation/generation.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

struct file_store {
    char directory[FILE_PATH_BYTES - 256];
    int lock_fd;
    file_store_limits limits;
    pthread_mutex_t lock;
    stored_file *files; /* [n], oldest first */
    uint32_t n, room;
    uint64_t bytes, reserved; /* of all files; of those that are being written */
};

void file_store_path(const file_store *s, const char *id, const char *suffix,
                     char out[FILE_PATH_BYTES])
{
    snprintf(out, FILE_PATH_BYTES, "%s/%s%s", s->directory, id, suffix);
}

static bool name_matches(const char *name, const char *prefix, const char *suffix)
{
    const size_t n = strlen(name), n_suffix = strlen(suffix);
    return strncmp(name, prefix, strlen(prefix)) == 0 && n >= n_suffix &&
           strcmp(name + n - n_suffix, suffix) == 0;
}

void file_store_each(const file_store *s, const char *prefix, const char *suffix,
                     void (*fn)(void *with, const char *name), void *with)
{
    const struct dirent *entry;
    DIR *d = opendir(s->directory);
    while (d != NULL && (entry = readdir(d)) != NULL)
        if (name_matches(entry->d_name, prefix, suffix))
            fn(with, entry->d_name);
    if (d != NULL)
        closedir(d);
}

bool file_store_is_gone(const file_store *s, const char *id)
{
    char path[FILE_PATH_BYTES];
    struct stat info;
    file_store_path(s, id, ".json", path);
    return lstat(path, &info) != 0 && errno == ENOENT;
}

/* ---- the list; under the mutex ---- */

static stored_file *store_find(const file_store *s, str id, uint64_t ns)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->files[i].ns == ns && str_is(id, s->files[i].id))
            return &s->files[i];
    return NULL;
}

/* Behind older ones. */
static bool store_insert(file_store *s, const stored_file *file)
{
    if (!mem_grow(&s->files, s->n, &s->room, sizeof *s->files))
        return false;
    uint32_t at = s->n++;
    for (; at > 0 && s->files[at - 1].created > file->created; at--)
        s->files[at] = s->files[at - 1];
    s->files[at] = *file;
    s->bytes += file->bytes;
    return true;
}

static uint32_t store_count(const file_store *s, uint64_t ns)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->files[i].ns == ns;
    return n;
}

/* ---- metadata ---- */

static mote_status meta_write(const file_store *s, const stored_file *f, mote_error *err)
{
    char path[FILE_PATH_BYTES], ns[24];
    strbuf j = {0};
    snprintf(ns, sizeof ns, "%016llx", (unsigned long long)f->ns);
    jw_open(&j, '{');
    jw_key_text(&j, "id", f->id);
    jw_key_text(&j, "ns", ns);
    jw_key_uint(&j, "bytes", f->bytes);
    jw_key_int(&j, "created", f->created);
    jw_key_text(&j, "purpose", f->purpose);
    jw_key_text(&j, "name", f->name);
    jw_close(&j, '}');
    file_store_path(s, f->id, ".json", path);
    mote_status status = strbuf_check(&j, err);
    if (status == MOTE_OK)
        status = os_file_replace(path, j.p, j.n, err);
    strbuf_fini(&j);
    return status;
}

static void member_copy(char *out, size_t room, const json_node *root, const char *name)
{
    snprintf(out, room, "%s", json_node_text(json_node_get(root, name)).p);
}

/* MOTE_E_FORMAT: the text is no metadata. */
static mote_status meta_parse(str text, stored_file *f, mote_error *err)
{
    json_doc *doc;
    char ns[24];
    int64_t bytes = 0;
    const mote_status status = json_doc_read(&doc, text, err);
    if (status != MOTE_OK)
        return status == MOTE_E_MEMORY ? status : MOTE_E_FORMAT;
    const json_node *root = json_doc_root(doc);
    const bool valid = json_node_is(json_node_get(root, "id"), JSON_IS_STRING) &&
                       json_node_is(json_node_get(root, "ns"), JSON_IS_STRING) &&
                       json_node_is(json_node_get(root, "purpose"), JSON_IS_STRING) &&
                       json_node_is(json_node_get(root, "name"), JSON_IS_STRING) &&
                       json_node_int64(json_node_get(root, "bytes"), &bytes) &&
                       json_node_int64(json_node_get(root, "created"), &f->created);
    if (valid) {
        member_copy(f->id, sizeof f->id, root, "id");
        member_copy(f->purpose, sizeof f->purpose, root, "purpose");
        member_copy(f->name, sizeof f->name, root, "name");
        member_copy(ns, sizeof ns, root, "ns");
        f->ns = strtoull(ns, NULL, 16);
        f->bytes = (uint64_t)bytes;
    }
    json_doc_free(doc);
    return valid ? MOTE_OK : err_set(err, MOTE_E_FORMAT, "it is no metadata of a file");
}

/* Reads the metadata of a file and checks its contents. MOTE_E_FORMAT: the metadata are damaged. Every
 * other error may pass, and the error names the path. */
static mote_status meta_read(const file_store *s, const char *id, stored_file *f, mote_error *err)
{
    enum { META_BYTES = 4096 };
    char path[FILE_PATH_BYTES], text[META_BYTES];
    struct stat info;
    file_store_path(s, id, ".json", path);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : -1;
    const int why = errno;
    if (fd >= 0)
        close(fd);
    if (n < 0)
        return err_set(err, MOTE_E_IO, "%s: %s", path, strerror(why));
    const mote_status status = meta_parse((str){text, (size_t)n}, f, err);
    if (status == MOTE_E_MEMORY)
        return err_set(err, status, "%s: out of memory", path);
    TRY(status);
    if (strcmp(f->id, id) != 0)
        return err_set(err, MOTE_E_FORMAT, "it is metadata of the file %s", f->id);
    file_store_path(s, id, ".data", path);
    if (stat(path, &info) != 0)
        return err_set(err, MOTE_E_IO, "%s: %s", path, strerror(errno));
    if ((uint64_t)info.st_size != f->bytes)
        return err_set(err, MOTE_E_IO, "%s: it has %llu bytes instead of %llu", path,
                       (unsigned long long)info.st_size, (unsigned long long)f->bytes);
    return MOTE_OK;
}

/* Removes contents and metadata. */
static void file_unlink(const file_store *s, const char *id)
{
    char path[FILE_PATH_BYTES];
    file_store_path(s, id, ".json", path);
    unlink(path);
    file_store_path(s, id, ".data", path);
    unlink(path);
}

/* ---- opening ---- */

typedef struct store_scan {
    file_store *store;
    uint32_t n_unread; /* files that are left alone, because they could not be read */
    mote_error first;  /* why, of the first one */
} store_scan;

enum { ENTRY_BYTES = 255 - 5 + 1 };

/* The name of an entry of the directory without its ending of five characters. */
static void entry_id(const char *name, char out[ENTRY_BYTES])
{
    snprintf(out, ENTRY_BYTES, "%.*s", (int)(strlen(name) - strlen(".json")), name);
}

/* Lists a file. Nothing is removed that may be read at another time: another user may have written it,
 * or the process has too many open files. */
static void scan_metadata(void *with, const char *name)
{
    store_scan *scan = with;
    stored_file f = {0};
    char id[ENTRY_BYTES];
    mote_error err;
    entry_id(name, id);
    mote_status status = meta_read(scan->store, id, &f, &err);
    if (status == MOTE_OK && !store_insert(scan->store, &f))
        status = err_set(&err, MOTE_E_MEMORY, "%s: out of memory for the list of files", name);
    if (status == MOTE_E_FORMAT)
        file_unlink(scan->store, id);
    else if (status != MOTE_OK && scan->n_unread++ == 0)
        scan->first = err;
}

/* Contents without metadata: an upload that never ended, or half of a removal. */
static void scan_contents(void *with, const char *name)
{
    const store_scan *scan = with;
    char id[ENTRY_BYTES];
    entry_id(name, id);
    if (file_store_is_gone(scan->store, id))
        file_unlink(scan->store, id);
}

static void store_scan_files(file_store *s, const log_options *log)
{
    store_scan scan = {.store = s};
    file_store_each(s, "file-", ".json", scan_metadata, &scan);
    file_store_each(s, "file-", ".data", scan_contents, &scan);
    if (scan.n_unread > 0)
        log_message(log, 0,
                    "%u files of %s cannot be read; they stay on the disk, but clients do not see "
                    "them until a restart finds them readable: %s",
                    (unsigned)scan.n_unread, s->directory, scan.first.text);
}

static void store_drop_partial(void *with, const char *name)
{
    const file_store *s = with;
    char path[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%.200s", s->directory, name);
    unlink(path);
}

static void count_entry(void *with, const char *name)
{
    *(size_t *)with += strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The server removes what it does not know. So a directory with files of others is refused. */
static mote_status store_check_owner(const file_store *s, const char *lock, mote_error *err)
{
    size_t n = 0;
    struct stat info;
    if (lstat(lock, &info) == 0)
        return MOTE_OK;
    file_store_each(s, "", "", count_entry, &n);
    return n == 0 ? MOTE_OK
                  : err_set(err, MOTE_E_ARG,
                            "the directory for files %s has files that mote did not make; use an "
                            "empty or a new directory",
                            s->directory);
}

static mote_status store_init(file_store *s, const char *directory, const log_options *log,
                              mote_error *err)
{
    char path[FILE_PATH_BYTES];
    struct stat info;
    if ((size_t)snprintf(s->directory, sizeof s->directory, "%s", directory) >= sizeof s->directory)
        return err_set(err, MOTE_E_ARG, "the path of the directory for files is too long: %.60s...",
                       directory);
    if (mkdir(directory, 0700) != 0 && errno != EEXIST)
        return err_set(err, MOTE_E_IO, "cannot create the directory for files %s: %s", directory,
                       strerror(errno));
    if (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode))
        return err_set(err, MOTE_E_IO, "%s is not a directory", directory);
    if (info.st_mode & (S_IRWXG | S_IRWXO))
        return err_set(err, MOTE_E_ARG,
                       "other users can reach the directory for files %s (chmod go= %s)", directory,
                       directory);
    file_store_path(s, "lock", "", path);
    TRY(store_check_owner(s, path, err));
    s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock_fd < 0)
        return err_set(err, MOTE_E_IO, "cannot write to the directory for files %s: %s", directory,
                       strerror(errno));
    if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, MOTE_E_IO, "another server uses the directory for files %s", directory);
    file_store_each(s, "", ".part", store_drop_partial, s);
    store_scan_files(s, log);
    return MOTE_OK;
}

mote_status file_store_open(file_store **out, const char *directory,
                            const file_store_limits *limits, const log_options *log,
                            mote_error *err)
{
    *out = NULL;
    file_store *s = mem_new(1, sizeof *s);
    if (s == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the list of files");
    s->limits = *limits;
    s->lock_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    const mote_status status = store_init(s, directory, log, err);
    if (status != MOTE_OK) {
        file_store_close(s);
        return status;
    }
    *out = s;
    return MOTE_OK;
}

void file_store_close(file_store *s)
{
    if (s == NULL)
        return;
    if (s->lock_fd >= 0)
        close(s->lock_fd);
    pthread_mutex_destroy(&s->lock);
    mem_free(s->files);
    mem_free(s);
}

/* ---- files ---- */

static mote_status store_reserve(file_store *s, const stored_file *f, mote_error *err)
{
    mote_status status = MOTE_OK;
    pthread_mutex_lock(&s->lock);
    if (store_count(s, f->ns) >= s->limits.files)
        status = err_set(err, MOTE_E_FULL, "%u files are stored; delete some (--limit files)",
                         (unsigned)s->limits.files);
    else if (s->bytes + s->reserved + f->bytes > s->limits.total_bytes)
        status = err_set(err, MOTE_E_FULL,
                         "the stored files have too many bytes together; delete some (--limit "
                         "total-file-bytes)");
    else
        s->reserved += f->bytes;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Writes the metadata, and lists the file. */
static mote_status store_commit(file_store *s, const stored_file *f, uint64_t reserved,
                                mote_error *err)
{
    mote_status status = meta_write(s, f, err);
    pthread_mutex_lock(&s->lock);
    s->reserved -= reserved;
    if (status == MOTE_OK && !store_insert(s, f))
        status = err_set(err, MOTE_E_MEMORY, "out of memory for the list of files");
    pthread_mutex_unlock(&s->lock);
    if (status != MOTE_OK)
        file_unlink(s, f->id);
    return status;
}

mote_status file_store_add(file_store *s, stored_file *file, str contents, mote_error *err)
{
    char path[FILE_PATH_BYTES];
    generation_random_id(file->id, sizeof file->id, "file-");
    file->bytes = contents.n;
    file->created = (int64_t)time(NULL);
    TRY(store_reserve(s, file, err));
    file_store_path(s, file->id, ".data", path);
    const mote_status status = os_file_replace(path, contents.p, contents.n, err);
    if (status == MOTE_OK)
        return store_commit(s, file, contents.n, err);
    file_unlink(s, file->id); /* it has its name already if the sync of the directory failed */
    pthread_mutex_lock(&s->lock);
    s->reserved -= contents.n;
    pthread_mutex_unlock(&s->lock);
    return status;
}

mote_status file_store_adopt(file_store *s, stored_file *file, mote_error *err)
{
    char path[FILE_PATH_BYTES];
    struct stat info;
    file_store_path(s, file->id, ".data", path);
    if (stat(path, &info) != 0)
        return err_set(err, MOTE_E_IO, "a file of results is missing: %s", strerror(errno));
    file->bytes = (uint64_t)info.st_size;
    file->created = (int64_t)time(NULL);
    return store_commit(s, file, 0, err);
}

bool file_store_find(file_store *s, str id, uint64_t ns, stored_file *out)
{
    pthread_mutex_lock(&s->lock);
    const stored_file *f = store_find(s, id, ns);
    if (f != NULL)
        *out = *f;
    pthread_mutex_unlock(&s->lock);
    return f != NULL;
}

bool file_store_remove(file_store *s, str id, uint64_t ns)
{
    char name[FILE_ID_BYTES] = "";
    pthread_mutex_lock(&s->lock);
    stored_file *f = store_find(s, id, ns);
    if (f != NULL) {
        memcpy(name, f->id, sizeof name);
        s->bytes -= f->bytes;
        s->n--;
        memmove(f, f + 1, (size_t)(s->files + s->n - f) * sizeof *f);
    }
    pthread_mutex_unlock(&s->lock);
    if (name[0] == '\0')
        return false;
    file_unlink(s, name);
    return true;
}

size_t file_store_list(file_store *s, uint64_t ns, str purpose, str after, stored_file *out,
                       size_t room, bool *more)
{
    size_t n = 0;
    bool begun = after.n == 0;
    *more = false;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = s->n; i > 0; i--) {
        const stored_file *f = &s->files[i - 1];
        if (f->ns != ns || (purpose.n > 0 && !str_is(purpose, f->purpose)))
            continue;
        if (begun && n == room) {
            *more = true;
            break;
        }
        if (begun)
            out[n++] = *f;
        begun |= str_is(after, f->id);
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

void file_store_read_stats(file_store *s, file_store_stats *out)
{
    pthread_mutex_lock(&s->lock);
    *out = (file_store_stats){s->n, s->bytes};
    pthread_mutex_unlock(&s->lock);
}
