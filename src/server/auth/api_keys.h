/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_keys.h - API keys: parsed from text, looked up by secret, replaced while the server runs.
 *
 * Only SHA-256 digests are kept. A key that stays in the file keeps its usage counts, also after it
 * was missing for a while. A removed key is not found any more, but its slot stays until its
 * requests have ended. Slots never move, so pointers to keys stay valid. Event loop thread only.
 */
#ifndef MOTE_SERVER_AUTH_API_KEYS_H
#define MOTE_SERVER_AUTH_API_KEYS_H

#include "base/err.h"
#include "server/auth/quota.h"
#include "store/digest.h"

enum { API_KEYS_MAX = 64, API_KEY_BYTES = 64, API_KEY_NAME_BYTES = 33, API_KEY_LINE_BYTES = 128 };

typedef struct api_keys api_keys;

typedef struct api_key {
    digest digest;
    unsigned scopes;               /* 1 << privilege */
    char name[API_KEY_NAME_BYTES]; /* "": none */
    quota quota;

    bool live;     /* private to api_keys.c, as the next one */
    uint64_t left; /* api_keys_set() call that removed it; 0: the slot was never used */
} api_key;

typedef struct api_keys_change {
    size_t added, removed, altered; /* altered: scopes, name or limits */
} api_keys_change;

api_keys *api_keys_new(void);
/* NULL is allowed. */
void api_keys_free(api_keys *k);

/* Replaces the keys with the lines "KEY [scope,scope [name]] [rpm=N] [tpm=N] [par=N]" of a text.
 * KEY is clear text or "sha256:HEX"; the default scope is infer. Empty lines and lines with # are
 * skipped. On an error nothing changes. MOTE_E_ARG: a line is malformed, there are too many keys,
 * or `needed` and there is none (without keys every client is allowed). */
mote_status api_keys_set(api_keys *k, str text, bool needed, api_keys_change *change,
                         mote_error *err);

size_t api_keys_count(const api_keys *k);
/* In the order of the lines, i < count. */
api_key *api_keys_at(const api_keys *k, size_t i);
/* Sets *found if there is a key with this secret. Compares with all keys, so the time does not
 * depend on the result. false: out of memory. */
bool api_keys_find(const api_keys *k, str secret, api_key **found);
/* Requests refused by this limit since the start, removed keys included. */
uint64_t api_keys_refused(const api_keys *k, quota_kind kind);

/* ---- the key file ---- */

/* State of the file at the last check. All zero: not checked. */
typedef struct api_keys_file {
    const char *path; /* NULL: none */
    uint64_t device, inode, size;
    int64_t modified_ns;
    bool settled; /* modified at least 2 s before the check: a later write changes the time */
    bool broken;  /* its content could not be used */
} api_keys_file;

/* Replaces the keys if the file has changed. A file that cannot be used changes nothing and is
 * reported once, until it changes again. Only regular files are read. */
mote_status api_keys_reload(api_keys *k, api_keys_file *file, api_keys_change *change,
                            mote_error *err);

/* Generates a key in clear text, and the line of a key file for it: with its digest, the scope
 * infer and `name` unless that is NULL. Both are zero-terminated. */
mote_status api_keys_generate(char key[API_KEY_BYTES], char line[API_KEY_LINE_BYTES],
                              const char *name, mote_error *err);

#endif
