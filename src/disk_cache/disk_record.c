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
enum { PIECE_BYTES = DISK_PIECE_BYTES, FILE_BLOCK = 4096 };

static const char record_magic[8] = {'M', 'O', 'T', 'E', 'K', 'V', 'R', '\n'};
static const char sealed_magic[8] = {'M', 'O', 'T', 'E', 'K', 'V', 'X', '\n'};
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

uint64_t disk_record_file_bytes(uint64_t payload, bool sealed)
{
    if (!sealed)
        return payload + DISK_HEAD_BYTES;
    return payload + DISK_SEALED_HEAD_BYTES +
           (payload + PIECE_BYTES - 1) / PIECE_BYTES * DISK_TAG_BYTES;
}

uint64_t disk_whole_blocks(uint64_t bytes)
{
    return (bytes + FILE_BLOCK - 1) / FILE_BLOCK * FILE_BLOCK;
}

uint64_t disk_record_bytes(uint64_t payload, bool sealed)
{
    return disk_whole_blocks(disk_record_file_bytes(payload, sealed));
}

static uint64_t head_check(const disk_head *head)
{
    return XXH3_64bits(head, offsetof(disk_head, head_check));
}

/* Bytes of the piece that begins at `at`. */
static size_t piece_bytes(const disk_head *head, uint64_t at)
{
    const uint64_t left = head->payload_bytes - at;
    return left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
}

/* The head is piece 0. */
static uint64_t piece_number(uint64_t at)
{
    return at / PIECE_BYTES + 1;
}

static mote_status no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory for a buffer of the disk cache");
}

/* ---- writing ---- */

static mote_status write_failed(mote_error *err)
{
    return err_set(err, MOTE_E_IO, "cannot write: %s", strerror(errno));
}

/* A record that is being written. */
typedef struct record_writer {
    int fd;
    const disk_cipher *cipher; /* NULL: not sealed */
    void *sealing;             /* of the cipher */
    unsigned char *piece;      /* [PIECE_BYTES + DISK_TAG_BYTES] */
    XXH3_state_t hash;         /* of the payload, if it is not sealed */
} record_writer;

static mote_status write_piece(record_writer *w, uint64_t at, size_t n, mote_error *err)
{
    if (w->cipher == NULL) {
        XXH3_64bits_update(&w->hash, w->piece, n);
        return os_write_all(w->fd, w->piece, n) ? MOTE_OK : write_failed(err);
    }
    const disk_piece p = {.number = piece_number(at),
                          .in = w->piece,
                          .out = w->piece,
                          .bytes = n,
                          .tag = w->piece + n};
    if (!w->cipher->piece(w->sealing, &p))
        return err_set(err, MOTE_E_IO, "cannot encrypt");
    return os_write_all(w->fd, w->piece, n + DISK_TAG_BYTES) ? MOTE_OK : write_failed(err);
}

static mote_status write_payload(record_writer *w, const disk_head *head, disk_source_fn *source,
                                 void *with, mote_error *err)
{
    const off_t from = w->cipher != NULL ? DISK_SEALED_HEAD_BYTES : DISK_HEAD_BYTES;
    XXH3_64bits_reset(&w->hash);
    if (lseek(w->fd, from, SEEK_SET) < 0)
        return write_failed(err);
    for (uint64_t at = 0; at < head->payload_bytes; at += PIECE_BYTES) {
        const size_t n = piece_bytes(head, at);
        if (!source(with, w->piece, at, n))
            return err_set(err, MOTE_E_CANCELED, "the session is needed elsewhere");
        TRY(write_piece(w, at, n, err));
    }
    return MOTE_OK;
}

static mote_status write_head(const record_writer *w, disk_sealed_head *sealed, disk_head *head,
                              mote_error *err)
{
    memcpy(head->magic, record_magic, sizeof record_magic);
    head->format = DISK_FORMAT;
    head->payload_check = w->cipher == NULL ? XXH3_64bits_digest(&w->hash) : 0;
    head->head_check = head_check(head);
    const void *bytes = head;
    size_t n = sizeof *head;
    if (w->cipher != NULL) {
        memcpy(sealed->magic, sealed_magic, sizeof sealed_magic);
        sealed->format = DISK_SEALED_FORMAT;
        sealed->kind = head->kind;
        sealed->key_id = w->cipher->key_id;
        sealed->payload_bytes = head->payload_bytes;
        sealed->created = head->created;
        const disk_piece p = {.with = sealed,
                              .with_bytes = offsetof(disk_sealed_head, tag),
                              .in = head,
                              .out = &sealed->head,
                              .bytes = sizeof *head,
                              .tag = sealed->tag};
        if (!w->cipher->piece(w->sealing, &p))
            return err_set(err, MOTE_E_IO, "cannot encrypt");
        bytes = sealed;
        n = sizeof *sealed;
    }
    if (lseek(w->fd, 0, SEEK_SET) < 0 || !os_write_all(w->fd, bytes, n) || !os_sync(w->fd))
        return write_failed(err);
    return MOTE_OK;
}

mote_status disk_record_write(int fd, const disk_cipher *cipher, disk_head *head,
                              disk_source_fn *source, void *with, mote_error *err)
{
    record_writer w = {.fd = fd, .cipher = cipher};
    disk_sealed_head sealed = {0};
    if (cipher != NULL && !os_random(sealed.salt, sizeof sealed.salt))
        return err_set(err, MOTE_E_IO, "no random bytes from the system");
    w.piece = mem_new(1, PIECE_BYTES + DISK_TAG_BYTES);
    if (w.piece == NULL)
        return no_memory(err);
    mote_status status = MOTE_OK;
    if (cipher != NULL) {
        w.sealing = cipher->begin(cipher->with, sealed.salt, true);
        status = w.sealing != NULL ? MOTE_OK : no_memory(err);
    }
    if (status == MOTE_OK)
        status = write_payload(&w, head, source, with, err);
    if (status == MOTE_OK)
        status = write_head(&w, &sealed, head, err);
    if (cipher != NULL)
        cipher->end(w.sealing);
    mem_free(w.piece);
    return status;
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

static mote_status other_format(mote_error *err, uint32_t format, int supported)
{
    return err_set(err, MOTE_E_MISMATCH, "record has format %u; supported: %d", format, supported);
}

/* Of both kinds of heads. */
static mote_status head_check_fields(disk_head *head, mote_error *err)
{
    if (head->kind < DISK_PAGE || head->kind > DISK_END || head->n_tokens > DISK_TOKENS)
        return record_damaged(err, "size or kind");
    head->label[DISK_LABEL - 1] = '\0';
    return MOTE_OK;
}

static mote_status read_plain_head(uint64_t size, disk_head *head, mote_error *err)
{
    if (head->format != DISK_FORMAT)
        return other_format(err, head->format, DISK_FORMAT);
    if (head->head_check != head_check(head))
        return record_damaged(err, "checksum of its head");
    if (size != disk_record_file_bytes(head->payload_bytes, false))
        return record_damaged(err, "size or kind");
    return head_check_fields(head, err);
}

/* Decrypts the head of a record of this key. */
static mote_status open_head(const disk_cipher *cipher, const disk_sealed_head *sealed,
                             disk_head *out, mote_error *err)
{
    unsigned char tag[DISK_TAG_BYTES];
    memcpy(tag, sealed->tag, sizeof tag);
    void *opening = cipher->begin(cipher->with, sealed->salt, false);
    if (opening == NULL)
        return no_memory(err);
    const disk_piece p = {.with = sealed,
                          .with_bytes = offsetof(disk_sealed_head, tag),
                          .in = &sealed->head,
                          .out = out,
                          .bytes = sizeof *out,
                          .tag = tag};
    const bool ok = cipher->piece(opening, &p);
    cipher->end(opening);
    if (!ok || out->kind != sealed->kind || out->payload_bytes != sealed->payload_bytes)
        return record_damaged(err, "tag of its head");
    return head_check_fields(out, err);
}

static mote_status read_sealed_head(int fd, uint64_t size, const disk_cipher *cipher,
                                    disk_record *out, mote_error *err)
{
    disk_sealed_head sealed;
    if (!read_all(fd, &sealed, sizeof sealed, 0))
        return record_damaged(err, "truncated");
    if (sealed.format != DISK_SEALED_FORMAT)
        return other_format(err, sealed.format, DISK_SEALED_FORMAT);
    if (sealed.payload_bytes > size || size != disk_record_file_bytes(sealed.payload_bytes, true))
        return record_damaged(err, "size or kind");
    out->is_sealed = true;
    out->is_foreign = cipher == NULL || cipher->key_id != sealed.key_id;
    memcpy(out->salt, sealed.salt, sizeof out->salt);
    if (!out->is_foreign)
        return open_head(cipher, &sealed, &out->head, err);
    out->head = (disk_head){
        .kind = sealed.kind, .payload_bytes = sealed.payload_bytes, .created = sealed.created};
    return head_check_fields(&out->head, err);
}

mote_status disk_record_read_head(int fd, const disk_cipher *cipher, disk_record *out,
                                  mote_error *err)
{
    struct stat info;
    *out = (disk_record){.is_foreign = cipher != NULL};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return err_set(err, MOTE_E_IO, "not a regular file");
    if (!read_all(fd, &out->head, sizeof out->head, 0))
        return record_damaged(err, "truncated");
    if (memcmp(out->head.magic, record_magic, sizeof record_magic) == 0)
        return read_plain_head((uint64_t)info.st_size, &out->head, err);
    if (memcmp(out->head.magic, sealed_magic, sizeof sealed_magic) == 0)
        return read_sealed_head(fd, (uint64_t)info.st_size, cipher, out, err);
    return record_damaged(err, "not a record of the disk cache");
}

/* Where the payload of a record is read to. */
typedef struct record_reader {
    int fd;
    const disk_cipher *cipher;
    void *opening; /* of the cipher; NULL: not sealed */
    XXH3_state_t hash;
} record_reader;

static mote_status read_piece(record_reader *r, unsigned char *into, uint64_t at, size_t n,
                              mote_error *err)
{
    unsigned char tag[DISK_TAG_BYTES];
    const uint64_t tags = (piece_number(at) - 1) * DISK_TAG_BYTES;
    const uint64_t from =
        at + (r->opening != NULL ? DISK_SEALED_HEAD_BYTES + tags : DISK_HEAD_BYTES);
    if (!read_all(r->fd, into, n, from))
        return record_damaged(err, "its block cannot be read");
    if (r->opening == NULL) {
        XXH3_64bits_update(&r->hash, into, n);
        return MOTE_OK;
    }
    if (!read_all(r->fd, tag, sizeof tag, from + n))
        return record_damaged(err, "its block cannot be read");
    const disk_piece p = {
        .number = piece_number(at), .in = into, .out = into, .bytes = n, .tag = tag};
    return r->cipher->piece(r->opening, &p) ? MOTE_OK : record_damaged(err, "tag of its block");
}

static mote_status read_pieces(record_reader *r, const disk_head *head, unsigned char *to,
                               unsigned char *piece, const atomic_bool *cancel, mote_error *err)
{
    XXH3_64bits_reset(&r->hash);
    for (uint64_t at = 0; at < head->payload_bytes; at += PIECE_BYTES) {
        if (cancel != NULL && atomic_load_explicit(cancel, memory_order_relaxed))
            return err_set(err, MOTE_E_CANCELED, "canceled");
        TRY(read_piece(r, to != NULL ? to + at : piece, at, piece_bytes(head, at), err));
    }
    if (r->opening == NULL && XXH3_64bits_digest(&r->hash) != head->payload_check)
        return record_damaged(err, "checksum of its block");
    return MOTE_OK;
}

mote_status disk_record_read_payload(int fd, const disk_cipher *cipher, const disk_record *record,
                                     void *to, const atomic_bool *cancel, mote_error *err)
{
    record_reader r = {.fd = fd, .cipher = cipher};
    if (record->is_sealed && record->is_foreign)
        return err_set(err, MOTE_E_MISMATCH, "the record is encrypted with another key");
    if (record->is_sealed) {
        r.opening = cipher->begin(cipher->with, record->salt, false);
        if (r.opening == NULL)
            return no_memory(err);
    }
    unsigned char *piece = to == NULL ? mem_new(1, PIECE_BYTES) : NULL;
    const mote_status status = to == NULL && piece == NULL
                                   ? no_memory(err)
                                   : read_pieces(&r, &record->head, to, piece, cancel, err);
    mem_free(piece);
    if (record->is_sealed)
        cipher->end(r.opening);
    return status;
}

bool disk_head_same(const disk_head *a, const disk_head *b)
{
    return a->kind == b->kind && disk_key_equal(a->key, b->key) &&
           (a->kind == DISK_STATE || disk_key_equal(a->parent, b->parent)) &&
           disk_key_equal(a->binding, b->binding) && a->ns == b->ns && a->position == b->position &&
           a->payload_bytes == b->payload_bytes && a->n_tokens == b->n_tokens &&
           memcmp(a->tokens, b->tokens, a->n_tokens * sizeof *a->tokens) == 0;
}
