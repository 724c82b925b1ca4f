/* SPDX-License-Identifier: Apache-2.0 */
/* local_key.c - see local_key.h. */
#include "server/auth/local_key.h"

#include "base/runtime_file.h"
#include "server/auth/api_keys.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert(sizeof((local_key *)NULL)->names[0] == RUNTIME_FILE_NAME_BYTES, "file names");

static mote_status local_key_write(local_key *k, const listen_set *set, str secret, mote_error *err)
{
    for (size_t i = 0; i < set->n; i++) {
        runtime_file_key_name(k->names[k->n_names], set->sockets[i].name);
        TRY(runtime_file_write(getenv("XDG_RUNTIME_DIR"), k->names[k->n_names], secret, err));
        k->n_names++;
    }
    return MOTE_OK;
}

mote_status local_key_create(local_key *k, const listen_set *set, mote_error *err)
{
    char secret[API_KEY_BYTES], line[API_KEY_LINE_BYTES];
    *k = (local_key){0};
    TRY(api_keys_generate(secret, line, NULL, err));
    if (!digest_of(&k->digest, str_of(secret)))
        return err_set(err, MOTE_E_MEMORY, "out of memory: digest of the local key");
    const mote_status status = local_key_write(k, set, str_of(secret), err);
    if (status != MOTE_OK) {
        local_key_remove(k);
        return status;
    }
    k->exists = true;
    return MOTE_OK;
}

bool local_key_path(const local_key *k, char *out, size_t room)
{
    char path[RUNTIME_FILE_PATH_BYTES];
    if (!k->exists || !runtime_file_path(path, getenv("XDG_RUNTIME_DIR"), k->names[0]))
        return false;
    return (size_t)snprintf(out, room, "%s", path) < room;
}

void local_key_remove(local_key *k)
{
    const char *parent = getenv("XDG_RUNTIME_DIR");
    for (size_t i = 0; i < k->n_names; i++) {
        char secret[API_KEY_BYTES];
        digest d;
        if (runtime_file_read(parent, k->names[i], secret, sizeof secret) &&
            digest_of(&d, str_of(secret)) && digest_equal(&d, &k->digest))
            runtime_file_remove(parent, k->names[i]);
    }
    k->n_names = 0;
    k->exists = false;
}
