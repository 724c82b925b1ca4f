/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keyring.h - the server's keys: read from lines of text, found by what a client sends, and
 * replaced while the server runs.
 *
 * A key is known by its digest. One that stays keeps what it has used of its limits, also if it was
 * away for a while; one that is gone is found no more, but stays in its place as long as something
 * that it asked for is being answered. Places never move, so what was found may be kept. Loop
 * thread.
 */
#ifndef MOTE_SERVER_DOOR_KEYRING_H
#define MOTE_SERVER_DOOR_KEYRING_H

#include "base/err.h"
#include "server/door/digest.h"
#include "server/door/quota.h"
#include "server/server.h"

typedef struct keyring keyring;

typedef struct keyring_key {
    digest digest;
    unsigned scopes;                  /* 1 << privilege */
    char name[SERVER_KEY_NAME_BYTES]; /* "": it has none */
    quota quota;

    bool live;     /* keyring.c's own from here on */
    uint64_t left; /* when it went, in keyrings; 0: the place is free */
} keyring_key;

typedef struct keyring_change {
    size_t added, gone, altered; /* by scopes, name or limits */
} keyring_change;

keyring *keyring_new(void);
/* NULL is allowed. */
void keyring_free(keyring *k);

/* The lines "KEY [scope,scope [name]] [rpm=N] [tpm=N] [par=N]" of a text, KEY in clear or as
 * "sha256:HEX", become its keys; without scopes one may infer. Empty lines and comments do not
 * count. All or none: MOTE_E_ARG: a line is malformed, there are too many, or none where one is
 * needed: without a key everybody is let in. */
mote_status keyring_take(keyring *k, str text, bool needed, keyring_change *change,
                         mote_error *err);

size_t keyring_count(const keyring *k);
/* In the order of the lines, i < count. */
keyring_key *keyring_at(const keyring *k, size_t i);
/* Looks at all keys whatever it finds, so that time says nothing about them; *found stays as it is
 * if there is none. false: there is no memory to find out. */
bool keyring_find(const keyring *k, str secret, keyring_key **found);
/* Requests that were refused for a limit of their key, by all keys that there ever were. */
uint64_t keyring_refused(const keyring *k, quota_kind kind);

/* ---- the file they come from ---- */

/* As it was when it was last looked at. All zero: it has not been. */
typedef struct keyring_file {
    const char *path; /* NULL: there is none */
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* when it was written */
    bool settled;                 /* long enough before, so that it cannot have been since */
    bool broken;
} keyring_file;

/* Takes the keys anew if the file has changed. What cannot be used changes nothing: the error comes
 * once, MOTE_OK until the file changes again. Pipes and their like are never looked at. */
mote_status keyring_look(keyring *k, keyring_file *file, keyring_change *change, mote_error *err);

#endif
