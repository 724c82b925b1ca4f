/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_models.h - the files of `mote serve`: what they are called, their picture towers, opened.
 *
 * Both functions return an exit code or nothing; what is wrong has been said unless it is 0.
 */
#ifndef MOTE_CLI_SERVE_SERVE_MODELS_H
#define MOTE_CLI_SERVE_SERVE_MODELS_H

#include "cli/load/load.h"
#include "server/server.h"

typedef struct serve_models {
    const char *const *paths; /* [n], as on the command line */
    size_t n;
    const char *name;   /* of the only one; NULL: the file's */
    const char *mmproj; /* of the only one, or "none"; NULL: what lies beside each */
    mote_isa isa;

    loaded on[SERVER_MAX_MODELS]; /* its own from here on */
    struct fork_server *fork_server;
} serve_models;

/* Opens all of them and enters them and the nursery into the options. */
int serve_models_open(serve_models *m, server_options *o);
void serve_models_close(serve_models *m);

#endif
