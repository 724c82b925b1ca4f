/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api_keys.h - the server's keys: read from lines of text, found by what a client sends, and
 * replaced while the server runs.
 *
 * A key is known by its digest. One that stays keeps what it has used of its limits, also if it was
 * away for a while; one that is gone is found no more, but stays in its place as long as something
 * that it asked for is being answered. Places never move, so what was found may be kept. Loop
 * thread.
 */
#ifndef MOTE_SERVER_AUTH_API_KEYS_H
#define MOTE_SERVER_AUTH_API_KEYS_H

#include "base/err.h"
#include "server/auth/quota.h"
#include "server/core/digest.h"

enum { API_KEYS_MAX = 64, API_KEY_BYTES = 64, API_KEY_NAME_BYTES = 33, API_KEY_LINE_BYTES = 128 };

typedef struct api_keys api_keys;

typedef struct api_key {
    digest digest;
    unsigned scopes;               /* 1 << privilege */
    char name[API_KEY_NAME_BYTES]; /* "": it has none */
    quota quota;

    bool live;     /* api_keys.c's own from here on */
    uint64_t left; /* when it went, in keyrings; 0: the place is free */
} api_key;

typedef struct api_keys_change {
    size_t added, gone, altered; /* by scopes, name or limits */
} api_keys_change;

api_keys *api_keys_new(void);
/* NULL is allowed. */
void api_keys_free(api_keys *k);

/* The lines "KEY [scope,scope [name]] [rpm=N] [tpm=N] [par=N]" of a text, KEY in clear or as
 * "sha256:HEX", become its keys; without scopes one may infer. Empty lines and comments do not
 * count. All or none: MOTE_E_ARG: a line is malformed, there are too many, or none where one is
 * needed: without a key everybody is let in. */
mote_status api_keys_take(api_keys *k, str text, bool needed, api_keys_change *change,
                          mote_error *err);

size_t api_keys_count(const api_keys *k);
/* In the order of the lines, i < count. */
api_key *api_keys_at(const api_keys *k, size_t i);
/* Looks at all keys whatever it finds, so that time says nothing about them; *found stays as it is
 * if there is none. false: there is no memory to find out. */
bool api_keys_find(const api_keys *k, str secret, api_key **found);
/* Requests that were refused for a limit of their key, by all keys that there ever were. */
uint64_t api_keys_refused(const api_keys *k, quota_kind kind);

/* ---- the file they come from ---- */

/* As it was when it was last looked at. All zero: it has not been. */
typedef struct api_keys_file {
    const char *path; /* NULL: there is none */
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* when it was written */
    bool settled;                 /* long enough before, so that it cannot have been since */
    bool broken;
} api_keys_file;

/* Takes the keys anew if the file has changed. What cannot be used changes nothing: the error comes
 * once, MOTE_OK until the file changes again. Pipes and their like are never looked at. */
mote_status api_keys_reload(api_keys *k, api_keys_file *file, api_keys_change *change,
                            mote_error *err);

/* Generates a key in clear text, and the line of a key file for it: with its digest, the scope
 * infer and `name` unless that is NULL. Both are zero-terminated. */
mote_status api_keys_generate(char key[API_KEY_BYTES], char line[API_KEY_LINE_BYTES],
                              const char *name, mote_error *err);

#endif
