/* SPDX-License-Identifier: Apache-2.0 */
/* disk_record.c - see disk_record.h. */
#include "disk_cache/disk_record.h"

#include "base/mem.h"
#include "base/os.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A piece stays in the second-level cache between the copy and the checksum. */
enum { PIECE_BYTES = 256 << 10, FILE_BLOCK = 4096 };

static const char record_magic[8] = {'M', 'O', 'T', 'E', 'K', 'V', 'R', '\n'};
static const char kind_letters[] = "?phse";

void disk_record_name(char out[DISK_NAME_BYTES], disk_key key, disk_kind kind)
{
    snprintf(out, DISK_NAME_BYTES, "%016llx%016llx.%c", (unsigned long long)key.word[0],
             (unsigned long long)key.word[1], kind_letters[kind]);
}

/* Value of a lower-case hexadecimal digit; -1: none. */
static int hex_value(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool disk_record_parse_name(const char *name, disk_key *key, disk_kind *kind)
{
    *key = (disk_key){{0, 0}};
    if (strlen(name) != 34 || name[32] != '.')
        return false;
    for (size_t i = 0; i < 32; i++) {
        const int digit = hex_value(name[i]);
        if (digit < 0)
            return false;
        key->word[i / 16] = key->word[i / 16] << 4 | (uint64_t)digit;
    }
    const char *letter = name[33] != '?' ? strchr(kind_letters, name[33]) : NULL;
    if (letter == NULL)
        return false;
    *kind = (disk_kind)(letter - kind_letters);
    return true;
}

uint64_t disk_record_bytes(uint64_t payload)
{
    return (payload + DISK_HEAD_BYTES + FILE_BLOCK - 1) / FILE_BLOCK * FILE_BLOCK;
}

static uint64_t head_check(const disk_head *head)
{
    return XXH3_64bits(head, offsetof(disk_head, head_check));
}

/* ---- writing ---- */

static mote_status write_failed(mote_error *err)
{
    return err_set(err, MOTE_E_IO, "cannot write: %s", strerror(errno));
}

mote_status disk_record_write(int fd, disk_head *head, disk_source_fn *source, void *with,
                              mote_error *err)
{
    unsigned char *piece = mem_new(1, PIECE_BYTES);
    if (piece == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a buffer of the disk cache");
    mote_status status = MOTE_OK;
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    if (lseek(fd, DISK_HEAD_BYTES, SEEK_SET) < 0)
        status = write_failed(err);
    for (uint64_t at = 0; at < head->payload_bytes && status == MOTE_OK;) {
        const uint64_t left = head->payload_bytes - at;
        const size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        if (!source(with, piece, at, n))
            status = err_set(err, MOTE_E_CANCELED, "the session is needed elsewhere");
        else if (!os_write_all(fd, piece, n))
            status = write_failed(err);
        XXH3_64bits_update(&hash, piece, n);
        at += n;
    }
    mem_free(piece);
    TRY(status);
    memcpy(head->magic, record_magic, sizeof record_magic);
    head->format = DISK_FORMAT;
    head->payload_check = XXH3_64bits_digest(&hash);
    head->head_check = head_check(head);
    if (lseek(fd, 0, SEEK_SET) < 0 || !os_write_all(fd, head, sizeof *head) || !os_sync(fd))
        return write_failed(err);
    return MOTE_OK;
}

/* ---- reading ---- */

/* False: an error, or the file ends before. */
static bool read_all(int fd, void *to, size_t bytes, uint64_t offset)
{
    unsigned char *at = to;
    while (bytes > 0) {
        const ssize_t n = pread(fd, at, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

static mote_status record_damaged(mote_error *err, const char *what)
{
    return err_set(err, MOTE_E_FORMAT, "invalid record: %s", what);
}

mote_status disk_record_read_head(int fd, disk_head *head, mote_error *err)
{
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return err_set(err, MOTE_E_IO, "not a regular file");
    if (!read_all(fd, head, sizeof *head, 0))
        return record_damaged(err, "truncated");
    if (memcmp(head->magic, record_magic, sizeof record_magic) != 0)
        return record_damaged(err, "not a record of the disk cache");
    if (head->format != DISK_FORMAT)
        return err_set(err, MOTE_E_MISMATCH, "record has format %u; supported: %d", head->format,
                       DISK_FORMAT);
    if (head->head_check != head_check(head))
        return record_damaged(err, "checksum of its head");
    if (head->kind < DISK_PAGE || head->kind > DISK_END || head->n_tokens > DISK_TOKENS ||
        (uint64_t)info.st_size != head->payload_bytes + DISK_HEAD_BYTES)
        return record_damaged(err, "size or kind");
    head->label[DISK_LABEL - 1] = '\0';
    return MOTE_OK;
}

mote_status disk_record_read_payload(int fd, const disk_head *head, void *to,
                                     const atomic_bool *cancel, mote_error *err)
{
    unsigned char *piece = to == NULL ? mem_new(1, PIECE_BYTES) : NULL;
    if (to == NULL && piece == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a buffer of the disk cache");
    mote_status status = MOTE_OK;
    XXH3_state_t hash;
    XXH3_64bits_reset(&hash);
    for (uint64_t at = 0; at < head->payload_bytes && status == MOTE_OK;) {
        const uint64_t left = head->payload_bytes - at;
        const size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        unsigned char *into = to != NULL ? (unsigned char *)to + at : piece;
        if (cancel != NULL && atomic_load_explicit(cancel, memory_order_relaxed))
            status = err_set(err, MOTE_E_CANCELED, "canceled");
        else if (!read_all(fd, into, n, DISK_HEAD_BYTES + at))
            status = record_damaged(err, "its block cannot be read");
        else
            XXH3_64bits_update(&hash, into, n);
        at += n;
    }
    mem_free(piece);
    TRY(status);
    if (XXH3_64bits_digest(&hash) != head->payload_check)
        return record_damaged(err, "checksum of its block");
    return MOTE_OK;
}

bool disk_head_same(const disk_head *a, const disk_head *b)
{
    return a->kind == b->kind && disk_key_equal(a->key, b->key) &&
           (a->kind == DISK_STATE || disk_key_equal(a->parent, b->parent)) &&
           disk_key_equal(a->binding, b->binding) && a->ns == b->ns && a->position == b->position &&
           a->payload_bytes == b->payload_bytes && a->n_tokens == b->n_tokens &&
           memcmp(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens) == 0;
}
