/* SPDX-License-Identifier: Apache-2.0 */
/* batch_journal.c - see batch_journal.h. */
#include "server/batch/batch_journal.h"

#include "base/mem.h"
#include "base/os.h"
#include "server/batch/json_span.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>

enum { STATUS_DONE = 200 };

static mote_status journal_failed(const batch_journal *j, mote_error *err)
{
    return err_set(err, MOTE_E_IO, "cannot write %s: %s", j->path, strerror(errno));
}

static bool result_has_failed(str result)
{
    str response;
    return !json_span_member(result, "response", &response) ||
           json_span_count(response, "status_code") != STATUS_DONE;
}

static void journal_enter(batch_journal *j, batch_line *line, uint64_t at, uint64_t bytes,
                          bool failed)
{
    j->entries[line - j->lines->lines] = (journal_entry){at, bytes, failed};
    line->done = true;
    j->n_done++;
    j->n_failed += failed;
}

/* ---- opening ---- */

static mote_status journal_read_line(batch_journal *j, str text, uint64_t at, mote_error *err)
{
    str id;
    batch_line *line = NULL;
    if (json_span_is_object(text) && json_span_member(text, "id", &id) && id.n > 2)
        line = batch_lines_find_id(j->lines, (str){id.p + 1, id.n - 2});
    if (line == NULL)
        return err_set(err, MOTE_E_MISMATCH, "%s has a line that is not a result of this input",
                       j->path);
    if (!line->done)
        journal_enter(j, line, at, text.n + 1, result_has_failed(text));
    return MOTE_OK;
}

/* Zeros: the file system had the size of the file on the disk, but not yet its contents. */
static bool line_is_torn(str line)
{
    return memchr(line.p, '\0', line.n) != NULL;
}

/* Sets j->bytes to the bytes of whole lines. */
static mote_status journal_read(batch_journal *j, bool own, mote_error *err)
{
    os_map map;
    TRY(os_map_open(&map, j->path, err));
    const char *text = (const char *)map.data;
    mote_status status = MOTE_OK;
    while (status == MOTE_OK && j->bytes < map.bytes) {
        const char *at = text + j->bytes;
        const char *end = memchr(at, '\n', (size_t)(map.bytes - j->bytes));
        if (end == NULL)
            break; /* the process was killed while it wrote this */
        const str line = {at, (size_t)(end - at)};
        status = journal_read_line(j, line, j->bytes, err);
        if (status == MOTE_E_MISMATCH && (own || (j->bytes > 0 && line_is_torn(line)))) {
            status = MOTE_OK;
            break;
        }
        j->bytes += line.n + 1;
    }
    /* Opening would remove what the file has. */
    static const char start[] = "{\"id\":\"batch_req_";
    const size_t n = map.bytes < sizeof start - 1 ? (size_t)map.bytes : sizeof start - 1;
    if (status == MOTE_OK && !own && j->bytes == 0 && memcmp(text, start, n) != 0)
        status = err_set(err, MOTE_E_MISMATCH, "%s exists and has no results", j->path);
    os_map_close(&map);
    return status;
}

static mote_status journal_prepare(batch_journal *j, journal_opening how, mote_error *err)
{
    struct stat info;
    if (flock(j->fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(err, MOTE_E_IO, "%s is in use by another process", j->path);
    if (fstat(j->fd, &info) != 0)
        return journal_failed(j, err);
    if (!S_ISREG(info.st_mode))
        return err_set(err, MOTE_E_ARG, "%s must be a regular file", j->path);
    for (uint32_t i = 0; i < j->lines->n; i++)
        j->lines->lines[i].done = false;
    if (info.st_size > 0 && how != JOURNAL_RESTART)
        TRY(journal_read(j, how == JOURNAL_OWN, err));
    return ftruncate(j->fd, (off_t)j->bytes) == 0 ? MOTE_OK : journal_failed(j, err);
}

mote_status batch_journal_open(batch_journal *j, const char *path, batch_lines *lines,
                               journal_opening how, unsigned mode, mote_error *err)
{
    *j = (batch_journal){.fd = -1, .lines = lines};
    if ((size_t)snprintf(j->path, sizeof j->path, "%s", path) >= sizeof j->path)
        return err_set(err, MOTE_E_ARG, "path is longer than %zu bytes: %.60s...",
                       sizeof j->path - 1, path);
    j->entries = mem_new(lines->n + 1, sizeof *j->entries);
    if (j->entries == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the results of %u lines",
                       (unsigned)lines->n);
    j->is_open = true;
    j->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
    const mote_status status =
        j->fd >= 0 ? journal_prepare(j, how, err)
                   : err_set(err, MOTE_E_IO, "cannot open %s: %s", path, strerror(errno));
    if (status != MOTE_OK)
        batch_journal_close(j);
    return status;
}

void batch_journal_close(batch_journal *j)
{
    if (!j->is_open)
        return;
    if (j->fd >= 0)
        close(j->fd);
    mem_free(j->entries);
    *j = (batch_journal){.fd = -1};
}

/* ---- results ---- */

mote_status batch_journal_add(batch_journal *j, batch_line *line, str result, bool failed,
                              mote_error *err)
{
    if (lseek(j->fd, (off_t)j->bytes, SEEK_SET) < 0 || !os_write_all(j->fd, result.p, result.n)) {
        const mote_status status = journal_failed(j, err);
        if (ftruncate(j->fd, (off_t)j->bytes) != 0) {
        } /* then the next result overwrites it */
        return status;
    }
    journal_enter(j, line, j->bytes, result.n, failed);
    j->bytes += result.n;
    j->dirty = true;
    return MOTE_OK;
}

mote_status batch_journal_sync(batch_journal *j, mote_error *err)
{
    if (!j->dirty)
        return MOTE_OK;
    j->dirty = false;
    return os_sync(j->fd) ? MOTE_OK : journal_failed(j, err);
}

bool batch_journal_in_order(const batch_journal *j)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < j->lines->n; i++) {
        const journal_entry *e = &j->entries[i];
        if (e->bytes > 0 && e->at != at)
            return false;
        at += e->bytes;
    }
    return at == j->bytes;
}

static mote_status journal_copy(const batch_journal *j, const journal_entry *e, strbuf *buffer,
                                os_file *to, mote_error *err)
{
    size_t got = 0;
    buffer->n = 0;
    if (!strbuf_reserve(buffer, (size_t)e->bytes))
        return err_set(err, MOTE_E_MEMORY, "out of memory for a result of %llu bytes",
                       (unsigned long long)e->bytes);
    while (got < e->bytes) {
        const ssize_t n =
            pread(j->fd, buffer->p + got, (size_t)e->bytes - got, (off_t)(e->at + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_set(err, MOTE_E_IO, "cannot read %s: %s", j->path,
                           n < 0 ? strerror(errno) : "it became shorter");
        got += (size_t)n;
    }
    return os_file_write(to, buffer->p, got, err);
}

mote_status batch_journal_export(const batch_journal *j, const char *path, journal_part which,
                                 mote_error *err)
{
    os_file file;
    strbuf buffer = {0};
    struct stat info;
    TRY(os_file_create(&file, path, err));
    mote_status status = MOTE_OK;
    if (fstat(j->fd, &info) != 0 || fchmod(file.fd, info.st_mode & 0777) != 0)
        status = journal_failed(j, err);
    for (uint32_t i = 0; i < j->lines->n && status == MOTE_OK; i++) {
        const journal_entry *e = &j->entries[i];
        if (e->bytes > 0 && (which == JOURNAL_ALL || e->failed == (which == JOURNAL_FAILED)))
            status = journal_copy(j, e, &buffer, &file, err);
    }
    if (status == MOTE_OK)
        status = os_file_commit(&file, err);
    os_file_abandon(&file);
    strbuf_fini(&buffer);
    return status;
}
