/* SPDX-License-Identifier: Apache-2.0 */
/*
 * local_key.h - the key of a server without API keys, for the user who started it.
 *
 * Such a server lets every client infer. Routes that show or change its state need a key with all
 * scopes, which the server generates at start and writes to a private file for each address
 * (base/runtime_file.h). `mote ps`, `top`, `stop` and `why` read it. An address, a Host or a
 * loopback connection proves nothing: a proxy has them, too.
 */
#ifndef MOTE_SERVER_AUTH_LOCAL_KEY_H
#define MOTE_SERVER_AUTH_LOCAL_KEY_H

#include "store/digest.h"
#include "server/http/listen.h"

typedef struct local_key {
    digest digest;
    bool exists; /* there is a key, and `digest` is set */
    char names[LISTEN_MAX][128];
    size_t n_names;
} local_key;

/* Generates the key and writes its files. On an error there is no key. */
mote_status local_key_create(local_key *k, const listen_set *set, mote_error *err);
/* The path of one of the files. false: there is no key. */
bool local_key_path(const local_key *k, char *out, size_t room);
/* Removes the files, unless another server has replaced them. */
void local_key_remove(local_key *k);

#endif
