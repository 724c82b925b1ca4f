/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk_session.h - which records a session consists of: keys, the longest prefix on disk, the parts
 * to save and to restore.
 *
 * The key of a record is a hash over the binding, the cache namespace and all tokens up to the end
 * of its block. With drafts the last row of a page depends on the token after the page, so that
 * token is part of the page's key. If that token is not known, because the session ends with the
 * page, the page is saved as a half page with all rows. A session is restored at a position that
 * has a state record and records of all pages before it.
 */
#ifndef MOTE_DISK_CACHE_DISK_SESSION_H
#define MOTE_DISK_CACHE_DISK_SESSION_H

#include "disk_cache/disk_cache.h"

/* What separates chains of records. */
typedef struct disk_scope {
    disk_key binding; /* weights, numerics, KV format, YaRN, drafts; and the adapter */
    uint64_t ns;      /* cache namespace: of an API key */
    uint32_t ahead;   /* tokens after a page that its bytes depend on: 0, or 1 with drafts */
    char label[DISK_LABEL];
} disk_scope;

/* Identifies adapters by contents and scale, in order; 0: none. */
uint64_t disk_adapters(const mote_lora_use *loras, size_t n);
/* `drafts`: of the engine's options. `adapter`: of disk_adapters. */
void disk_scope_init(disk_scope *scope, const mote_engine *engine, bool drafts, uint64_t ns,
                     uint64_t adapter);

/* The most tokens that can be restored of the first `most`; 0: none. tokens [n], n > most. */
size_t disk_session_find(disk_cache *c, const disk_scope *scope, const mote_token *tokens, size_t n,
                         size_t most);
/* The same; 0 also if a restore is not worth its time: it must give at least DISK_MIN_GAIN tokens
 * and 1/DISK_MIN_GAIN of its tokens more than the `have` that the caller holds. */
enum { DISK_MIN_GAIN = 64 };
size_t disk_session_find_more(disk_cache *c, const disk_scope *scope, const mote_token *tokens,
                              size_t n, size_t most, size_t have);

/* The first difference between a prompt and the prefix on disk that shares most tokens with it. */
enum { DISK_SHOWN_TOKENS = 80 };
typedef struct disk_difference {
    size_t at;                         /* the first token that differs */
    size_t length;                     /* tokens of the prefix, about */
    size_t n;                          /* 0: there is no such prefix */
    mote_token had[DISK_SHOWN_TOKENS]; /* [n]: its tokens from `at` on */
} disk_difference;
/* Only of prefixes that share at least `least` tokens. Reads a few heads of records. */
void disk_session_differs(disk_cache *c, const disk_scope *scope, const mote_token *tokens,
                          size_t n, size_t least, disk_difference *out);

/* Removes the records of the tokens after position `from`, except those that records of other
 * chains need. Returns how many. */
size_t disk_session_drop(disk_cache *c, const disk_scope *scope, const mote_token *tokens, size_t n,
                         size_t from);

/* A record, and the block of the session it comes from or goes to. */
typedef struct disk_part {
    disk_head head;
    void *data;
    size_t rows; /* of a page that are used; 0: all, or a state */
} disk_part;

typedef struct disk_parts {
    disk_part *parts; /* [n], pages first */
    size_t n;
} disk_parts;

void disk_parts_fini(disk_parts *p);

/* Which states of a session are saved: up to position `most`, each at least `apart` tokens after
 * the one before; between the positions `head` and `tail`, DISK_MIDDLE_APART tokens. In addition
 * the one at position `also`, which the end of a prompt needs; 0: none. */
typedef struct disk_states {
    uint64_t apart, most, also, head, tail;
} disk_states;
enum { DISK_MIDDLE_APART = 1024 };

/* The records that are not on disk yet and that a restore needs. Of the kept states of the session,
 * and the one at its last multiple of 32 tokens, `which` selects those to restore. p->n 0: there is
 * nothing to write. Existing records are kept for the chain. */
mote_status disk_session_save_parts(disk_parts *p, disk_cache *c, const disk_scope *scope,
                                    const mote_session *session, const disk_states *which,
                                    uint64_t chain, mote_error *err);
/* The record of the end of a prompt of n tokens (mote_session_read_end) with so many bytes. False:
 * it has none, because n is a multiple of 32 or the end has tokens of an image. */
bool disk_session_end_head(disk_head *out, const disk_scope *scope, const mote_token *tokens,
                           size_t n, size_t bytes);
/* The position of the state before the end. */
uint64_t disk_end_state(const disk_head *end);
/* All records of a prepared session. tokens [n]: of the prompt, longer than the session. */
mote_status disk_session_restore_parts(disk_parts *p, disk_cache *c, const disk_scope *scope,
                                       const mote_session *session, const mote_token *tokens,
                                       size_t n, mote_error *err);

#endif
