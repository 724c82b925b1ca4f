/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_record.h - one block of a session as a file: the format, writing and reading.
 *
 *   head      disk_head, 512 bytes; written last
 *   payload   the block, head.payload_bytes
 *
 * With a cipher (disk_cipher.h):
 *
 *   head      disk_sealed_head, 640 bytes, with the sealed disk_head; written last
 *   payload   pieces of 256 KiB, each followed by its tag of 16 bytes
 *
 * Little-endian. The head has a checksum of itself and one of the payload, so a torn write or a
 * flipped bit anywhere is found. Of a sealed record the tags do that, also against attackers: they
 * cover the sealed head too, and it has the key. So a record of another name or of another key is
 * never taken for this one. A reader also compares everything that identifies the record,
 * tokens included: no hash is trusted. A record is written once under a temporary name, synced and
 * renamed; it never changes afterwards.
 *
 * Kinds:
 *   page    64 positions of the KV cache
 *   half    the first 32 positions of a page; the rest is zero
 *   state   recurrent state after `position` tokens
 *   end     end of a prompt of `position` tokens, after its last state: rows and logits
 *
 * The parent of a page or half page is the page before it, the parent of a state the page or half
 * page that ends at its position, the parent of an end the state. The first page has the parent 0.
 */
#ifndef MOTE_DISK_CACHE_DISK_RECORD_H
#define MOTE_DISK_CACHE_DISK_RECORD_H

#include "base/err.h"
#include "disk_cache/disk_cipher.h"

#include <stdatomic.h>

/* A 128-bit hash. Keys of records differ by kind. */
typedef struct disk_key {
    uint64_t word[2];
} disk_key;

static inline bool disk_key_equal(disk_key a, disk_key b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

static inline bool disk_key_is_zero(disk_key a)
{
    return (a.word[0] | a.word[1]) == 0;
}

typedef enum disk_kind { DISK_PAGE = 1, DISK_HALF, DISK_STATE, DISK_END } disk_kind;

enum {
    DISK_FORMAT = 1,
    DISK_SEALED_FORMAT = 1,
    DISK_TOKENS = 72,
    DISK_LABEL = 48,
    DISK_HEAD_BYTES = 512
};

typedef struct disk_head {
    char magic[8];
    uint32_t format, kind;
    disk_key key, parent;
    disk_key binding;  /* mote_engine_identity, combined with the adapter */
    uint64_t ns;       /* cache namespace: of an API key */
    uint64_t position; /* tokens up to the end of the block */
    uint64_t payload_bytes;
    uint64_t created;       /* seconds since 1970 */
    char label[DISK_LABEL]; /* name of the model; for lists only */
    uint32_t n_tokens, unused[15];
    int32_t tokens[DISK_TOKENS]; /* of the block, and the one after it if it depends on that */
    uint64_t payload_check;      /* XXH3-64 */
    uint64_t head_check;         /* XXH3-64 of everything before */
} disk_head;
_Static_assert(sizeof(disk_head) == DISK_HEAD_BYTES, "written as it is in memory");

enum { DISK_SEALED_HEAD_BYTES = 640, DISK_PIECE_BYTES = 256 << 10 };

/* What comes before the tag is readable without the key and authenticated by the tag. */
typedef struct disk_sealed_head {
    char magic[8];
    uint32_t format, kind;
    uint64_t key_id; /* of the cipher */
    uint64_t payload_bytes, created;
    unsigned char salt[DISK_SALT_BYTES];
    uint64_t unused[5];
    unsigned char tag[DISK_TAG_BYTES];
    disk_head head; /* sealed: piece 0; the payload follows from piece 1 on */
} disk_sealed_head;
_Static_assert(sizeof(disk_sealed_head) == DISK_SEALED_HEAD_BYTES, "written as it is in memory");

/* "0123...cdef.p": 32 digits of the key and a letter of the kind. */
enum { DISK_NAME_BYTES = 40 };
void disk_record_name(char out[DISK_NAME_BYTES], disk_key key, disk_kind kind);
/* Is this the name of a record? */
bool disk_record_parse_name(const char *name, disk_key *key, disk_kind *kind);

/* Size of the file of a record with this payload. */
uint64_t disk_record_file_bytes(uint64_t payload, bool sealed);
/* What it takes in whole blocks of the file system. */
uint64_t disk_record_bytes(uint64_t payload, bool sealed);
/* A size in whole blocks. */
uint64_t disk_whole_blocks(uint64_t bytes);

/* Copies `bytes` bytes of the payload from `offset` on. False: give up. */
typedef bool disk_source_fn(void *with, void *to, uint64_t offset, size_t bytes);

/* Writes payload and head to an empty file and syncs it, sealed if there is a cipher.
 * head->payload_bytes, created and what identifies the record are set; the checks are filled in.
 * MOTE_E_CANCELED: the source gave up. */
mote_status disk_record_write(int fd, const disk_cipher *cipher, disk_head *head,
                              disk_source_fn *source, void *with, mote_error *err);

/* A record after its head was read. */
typedef struct disk_record {
    disk_head head; /* sealed with another key: only kind, payload_bytes and created */
    bool is_sealed;
    bool is_foreign; /* sealed with another key, or not sealed although there is a cipher: not to be
                        used */
    unsigned char salt[DISK_SALT_BYTES];
} disk_record;

/* Reads the head. MOTE_E_FORMAT: it is not valid, or the file has another size. */
mote_status disk_record_read_head(int fd, const disk_cipher *cipher, disk_record *out,
                                  mote_error *err);
/* Reads the payload of a valid head and compares its checksum or its tags. `to` has payload_bytes
 * bytes, which are undefined after an error; NULL: only verify. *cancel, if not NULL, ends it with
 * MOTE_E_CANCELED. MOTE_E_FORMAT: it is damaged, or the disk cannot read it. MOTE_E_MISMATCH: it is
 * sealed with another key. */
mote_status disk_record_read_payload(int fd, const disk_cipher *cipher, const disk_record *record,
                                     void *to, const atomic_bool *cancel, mote_error *err);
/* Do both describe the same record, with equal tokens? A state has several parents if pages depend
 * on the token after them, so its parent is not compared. */
bool disk_head_same(const disk_head *a, const disk_head *b);

#endif
