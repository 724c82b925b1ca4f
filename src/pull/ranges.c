/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ranges.c - which 8 MiB ranges of a part file are complete: in memory, and in a small file next to
 * the part (<hash>.mote-ranges) for the next run.
 *
 * The record is a header of HEADER_BYTES and one byte per range: '1' is complete. A record with
 * another header counts as empty. A wrong byte is harmless too: the hash of the whole file decides
 * at the end. The data of a range is written before its byte, so a killed process loses at most the
 * unfinished range of each connection.
 */
#include "pull/pull_int.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 2048 };

static uint64_t range_end(const ranges *r, size_t k)
{
    const uint64_t end = ((uint64_t)k + 1) * RANGE_BYTES;
    return end < r->size ? end : r->size;
}

/* ---- the record ---- */

static const char record_magic[] = "mote-ranges 1";

static void record_header(char header[HEADER_BYTES], const char *name, const char *hash,
                          uint64_t size)
{
    memset(header, '\n', HEADER_BYTES);
    const int n = snprintf(header, HEADER_BYTES, "%s\n%s\n%" PRIu64 "\n%d\n%s\n", record_magic,
                           hash, size, RANGE_BYTES, name);
    if (n < HEADER_BYTES)
        header[n] = '\n';
}

static bool record_read(ranges *r, const char *expected)
{
    char header[HEADER_BYTES];
    if (pread(r->fd, header, sizeof header, 0) != HEADER_BYTES ||
        memcmp(header, expected, sizeof header) != 0)
        return false;
    return pread(r->fd, r->state, r->n, HEADER_BYTES) == (ssize_t)r->n;
}

static mote_status record_failed(mote_error *err)
{
    return err_set(err, MOTE_E_IO, "cannot write the record of a download: %s", strerror(errno));
}

/* Writes the header last: a record that was not finished has none. */
static mote_status record_create(ranges *r, const char *header, mote_error *err)
{
    if (ftruncate(r->fd, 0) != 0 || ftruncate(r->fd, (off_t)(HEADER_BYTES + r->n)) != 0 ||
        pwrite(r->fd, header, HEADER_BYTES, 0) != HEADER_BYTES)
        return record_failed(err);
    return MOTE_OK;
}

bool ranges_name(const char *path, char *name, size_t room)
{
    char header[HEADER_BYTES + 1] = "";
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, header, HEADER_BYTES) : -1;
    if (fd >= 0)
        close(fd);
    if (n != HEADER_BYTES || strncmp(header, record_magic, strlen(record_magic)) != 0)
        return false;
    const char *line = header;
    for (int i = 0; i < 4 && line != NULL; i++)
        line = (line = strchr(line, '\n')) != NULL ? line + 1 : NULL;
    if (line == NULL)
        return false;
    snprintf(name, room, "%.*s", (int)strcspn(line, "\n"), line);
    return true;
}

/* ---- open and close ---- */

static void ranges_count(ranges *r)
{
    r->n_complete = 0;
    for (size_t k = 0; k < r->n; k++) {
        r->state[k] = r->state[k] == '1' ? RANGE_COMPLETE : RANGE_MISSING;
        r->n_complete += r->state[k] == RANGE_COMPLETE;
    }
    r->first_incomplete = 0;
    while (r->first_incomplete < r->n && r->state[r->first_incomplete] == RANGE_COMPLETE)
        r->first_incomplete++;
}

mote_status ranges_open(ranges *r, const char *path, const char *name, const char *hash,
                        uint64_t size, bool fresh, mote_error *err)
{
    char header[HEADER_BYTES];
    struct stat st;
    *r = (ranges){.fd = -1, .size = size, .n = (size_t)((size + RANGE_BYTES - 1) / RANGE_BYTES)};
    r->state = mem_new(r->n, sizeof *r->state);
    r->have = mem_new(r->n, sizeof *r->have);
    if (r->state == NULL || r->have == NULL) {
        ranges_close(r);
        return err_set(err, MOTE_E_MEMORY, "out of memory for a download");
    }
    record_header(header, name, hash, size);
    r->fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (r->fd < 0 || fstat(r->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        ranges_close(r);
        return record_failed(err);
    }
    mote_status status = MOTE_OK;
    if (fresh || !record_read(r, header)) {
        memset(r->state, 0, r->n);
        status = record_create(r, header, err);
    }
    ranges_count(r);
    if (status != MOTE_OK)
        ranges_close(r);
    return status;
}

void ranges_close(ranges *r)
{
    if (r->fd >= 0)
        close(r->fd);
    mem_free(r->state);
    mem_free(r->have);
    *r = (ranges){.fd = -1};
}

mote_status ranges_reset(ranges *r, mote_error *err)
{
    if (ftruncate(r->fd, HEADER_BYTES) != 0 || ftruncate(r->fd, (off_t)(HEADER_BYTES + r->n)) != 0)
        return record_failed(err);
    memset(r->state, RANGE_MISSING, r->n);
    memset(r->have, 0, r->n * sizeof *r->have);
    r->n_complete = r->first_incomplete = 0;
    return MOTE_OK;
}

/* ---- work ---- */

bool ranges_take(ranges *r, size_t most, uint64_t *from, uint64_t *end)
{
    size_t first = r->first_incomplete;
    while (first < r->n && r->state[first] != RANGE_MISSING)
        first++;
    if (first == r->n)
        return false;
    size_t after = first;
    while (after < r->n && after - first < most && r->state[after] == RANGE_MISSING &&
           (after == first || r->have[after] == 0))
        r->state[after++] = RANGE_TAKEN;
    *from = (uint64_t)first * RANGE_BYTES + r->have[first];
    *end = range_end(r, after - 1);
    return true;
}

bool ranges_take_all(ranges *r, uint64_t *from, uint64_t *end)
{
    bool taken = false;
    for (size_t k = 0; k < r->n; k++) {
        if (r->state[k] != RANGE_MISSING)
            continue;
        r->state[k] = RANGE_TAKEN;
        r->have[k] = 0;
        taken = true;
    }
    *from = 0;
    *end = r->size;
    return taken;
}

mote_status ranges_complete_to(ranges *r, uint64_t from, uint64_t to, mote_error *err)
{
    for (size_t k = (size_t)(from / RANGE_BYTES); k < r->n && range_end(r, k) <= to; k++) {
        if (r->state[k] != RANGE_TAKEN)
            continue;
        if (pwrite(r->fd, "1", 1, (off_t)(HEADER_BYTES + k)) != 1)
            return record_failed(err);
        r->state[k] = RANGE_COMPLETE;
        r->n_complete++;
    }
    while (r->first_incomplete < r->n && r->state[r->first_incomplete] == RANGE_COMPLETE)
        r->first_incomplete++;
    return MOTE_OK;
}

void ranges_release(ranges *r, uint64_t at, uint64_t end)
{
    for (size_t k = (size_t)(at / RANGE_BYTES); k < r->n && (uint64_t)k * RANGE_BYTES < end; k++) {
        if (r->state[k] != RANGE_TAKEN)
            continue;
        const uint64_t begin = (uint64_t)k * RANGE_BYTES;
        r->state[k] = RANGE_MISSING;
        r->have[k] = at > begin ? (uint32_t)(at - begin) : 0;
    }
}

uint64_t ranges_bytes(const ranges *r)
{
    uint64_t bytes = 0;
    for (size_t k = 0; k < r->n; k++)
        bytes += r->state[k] == RANGE_COMPLETE ? range_end(r, k) - (uint64_t)k * RANGE_BYTES : 0;
    return bytes;
}

uint64_t ranges_prefix(const ranges *r)
{
    return r->first_incomplete > 0 ? range_end(r, r->first_incomplete - 1) : 0;
}
