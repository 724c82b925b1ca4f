/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verified_list.c - the list of verified files; see file_hash.h.
 *
 * One line per file, oldest first: HASH DEVICE INODE BYTES MODIFIED_NS WHEN. Lines of any other
 * form are ignored and dropped at the next change. A change holds a lock file, reads the list and
 * replaces it by rename, so a reader needs no lock.
 */
#include "store/file_hash.h"

#include "base/mem.h"
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    LINE_BYTES = 64 + 5 * 21 + 1,           /* a hash and five numbers of at most 20 digits */
    LIST_BYTES = LINE_BYTES * VERIFIED_MAX, /* of a file; what follows is ignored */
    LOCK_TRIES = 3000,                      /* each waits 10 ms */
    PATH_BYTES = VERIFIED_PATH_BYTES + 32
};

typedef struct verified_entry {
    file_identity file;
    int64_t when;
    char hash[HASH_TEXT_BYTES];
} verified_entry;

bool verified_directory(char out[VERIFIED_PATH_BYTES], const char *cache_home, const char *home)
{
    int n = -1;
    if (cache_home != NULL && cache_home[0] == '/')
        n = snprintf(out, VERIFIED_PATH_BYTES, "%s/mote/store", cache_home);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, VERIFIED_PATH_BYTES, "%s/.cache/mote/store", home);
    return n > 0 && n < VERIFIED_PATH_BYTES;
}

/* ---- reading ---- */

static bool list_path(char out[PATH_BYTES], const char *directory, const char *name)
{
    const int n = snprintf(out, PATH_BYTES, "%s/%s", directory, name);
    return n > 0 && n < PATH_BYTES;
}

/* Reads at most LIST_BYTES. An absent list is empty. False: out of memory. */
static bool list_load(const char *directory, strbuf *text)
{
    char path[PATH_BYTES];
    struct stat info;
    if (!list_path(path, directory, "verified"))
        return true;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return true;
    bool ok = true;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
        const size_t room = info.st_size < LIST_BYTES ? (size_t)info.st_size : (size_t)LIST_BYTES;
        ok = strbuf_reserve(text, room);
        while (ok && text->n < room) {
            const ssize_t n = read(fd, text->p + text->n, room - text->n);
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                break;
            text->n += (size_t)n;
        }
    }
    close(fd);
    return ok;
}

/* Reads a decimal number and the byte `end` behind it. */
static bool line_number(str *line, char end, uint64_t *out)
{
    size_t i = 0;
    uint64_t value = 0;
    for (; i < line->n && line->p[i] >= '0' && line->p[i] <= '9'; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(line->p[i] - '0'), &value))
            return false;
    if (i == 0 || i >= line->n || line->p[i] != end)
        return false;
    *out = value;
    *line = (str){line->p + i + 1, line->n - i - 1};
    return true;
}

/* `line` includes its newline. */
static bool line_parse(str line, verified_entry *out)
{
    hash_kind kind;
    uint64_t modified, when;
    const char *space = memchr(line.p, ' ', line.n);
    if (space == NULL || !hash_kind_of(&kind, (str){line.p, (size_t)(space - line.p)}))
        return false;
    const size_t digits = (size_t)(space - line.p);
    str rest = {space + 1, line.n - digits - 1};
    if (!line_number(&rest, ' ', &out->file.device) || !line_number(&rest, ' ', &out->file.inode) ||
        !line_number(&rest, ' ', &out->file.bytes) || !line_number(&rest, ' ', &modified) ||
        !line_number(&rest, '\n', &when) || modified > INT64_MAX || when > INT64_MAX || rest.n > 0)
        return false;
    out->file.modified_ns = (int64_t)modified;
    out->when = (int64_t)when;
    memcpy(out->hash, line.p, digits);
    out->hash[digits] = '\0';
    return true;
}

/* Cuts the next line off *text, with its newline. False: no whole line is left. */
static bool list_next_line(str *text, str *line)
{
    const char *end = text->n > 0 ? memchr(text->p, '\n', text->n) : NULL;
    if (end == NULL)
        return false;
    const size_t n = (size_t)(end - text->p) + 1;
    *line = (str){text->p, n};
    *text = (str){text->p + n, text->n - n};
    return true;
}

static bool entry_is(const verified_entry *entry, const file_identity *file)
{
    return entry->file.device == file->device && entry->file.inode == file->inode &&
           entry->file.bytes == file->bytes && entry->file.modified_ns == file->modified_ns;
}

bool verified_find(const char *directory, const file_identity *file, char hash[HASH_TEXT_BYTES],
                   int64_t *when)
{
    strbuf text = {0};
    bool found = false;
    if (list_load(directory, &text)) {
        str rest = strbuf_view(&text), line;
        verified_entry entry;
        while (list_next_line(&rest, &line))
            if (line_parse(line, &entry) && entry_is(&entry, file)) {
                memcpy(hash, entry.hash, sizeof entry.hash);
                if (when != NULL)
                    *when = entry.when;
                found = true;
            }
    }
    strbuf_fini(&text);
    return found;
}

/* ---- writing ---- */

/* Creates a directory and its parents. */
static bool make_directories(const char *directory)
{
    char path[PATH_BYTES];
    const size_t n = strlen(directory);
    if (n >= sizeof path)
        return false;
    memcpy(path, directory, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (i < n && path[i] != '/')
            continue;
        path[i] = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return false;
        path[i] = i < n ? '/' : '\0';
    }
    return true;
}

/* Returns a locked descriptor, or -1. The lock file stays: a removed one would let two processes
 * lock two files of one name. */
static int list_lock(const char *directory)
{
    char path[PATH_BYTES];
    if (!list_path(path, directory, "verified.lock"))
        return -1;
    const int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        if (errno != EWOULDBLOCK && errno != EINTR)
            break;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    close(fd);
    return -1;
}

/* Copies the valid lines to `out` except those of `file`, and at most VERIFIED_MAX - 1 of them. */
static void list_copy_others(strbuf *out, str text, const file_identity *file)
{
    verified_entry entry;
    str rest = text, line;
    size_t valid = 0;
    while (list_next_line(&rest, &line))
        valid += line_parse(line, &entry) && !entry_is(&entry, file);
    rest = text;
    while (list_next_line(&rest, &line))
        if (line_parse(line, &entry) && !entry_is(&entry, file) && valid-- < VERIFIED_MAX)
            strbuf_put(out, line);
}

/* Replaces the list by one without `file`, and with `line` at its end. */
static mote_status list_replace(const char *directory, const file_identity *file, const char *line,
                                mote_error *err)
{
    char path[PATH_BYTES];
    strbuf before = {0}, after = {0};
    mote_status status = MOTE_E_MEMORY;
    if (list_load(directory, &before)) {
        list_copy_others(&after, strbuf_view(&before), file);
        strbuf_text(&after, line);
        status = strbuf_check(&after, err);
    } else {
        err_set(err, MOTE_E_MEMORY, "out of memory: the list of verified files");
    }
    if (status == MOTE_OK && !list_path(path, directory, "verified"))
        status = err_set(err, MOTE_E_ARG, "the path %.60s... is too long", directory);
    if (status == MOTE_OK)
        status = os_file_replace(path, after.p, after.n, err);
    strbuf_fini(&before);
    strbuf_fini(&after);
    return status;
}

static mote_status list_change(const char *directory, const file_identity *file, const char *line,
                               mote_error *err)
{
    if (!make_directories(directory))
        return err_set(err, MOTE_E_IO, "cannot create %s: %s", directory, strerror(errno));
    const int lock = list_lock(directory);
    if (lock < 0)
        return err_set(err, MOTE_E_IO, "cannot lock %s/verified.lock: %s", directory,
                       strerror(errno));
    const mote_status status = list_replace(directory, file, line, err);
    close(lock);
    return status;
}

mote_status verified_add(const char *directory, const file_identity *file, const char *hash,
                         mote_error *err)
{
    char line[LINE_BYTES + 1];
    hash_kind kind;
    const time_t now = time(NULL);
    if (!hash_kind_of(&kind, str_of(hash)))
        return err_set(err, MOTE_E_ARG, "not a hash: %.70s", hash);
    if (file->modified_ns < 0 || now < 0)
        return MOTE_OK; /* before 1970: not worth a format with signs */
    snprintf(line, sizeof line, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 "\n",
             hash, file->device, file->inode, file->bytes, file->modified_ns, (int64_t)now);
    return list_change(directory, file, line, err);
}

mote_status verified_remove(const char *directory, const file_identity *file, mote_error *err)
{
    char hash[HASH_TEXT_BYTES];
    if (!verified_find(directory, file, hash, NULL))
        return MOTE_OK;
    return list_change(directory, file, "", err);
}
