/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_pull.h - `mote serve --allow-pull`: what the server needs to download models.
 *
 * Settings and token are read at the start and given to the process that starts mote-pull, before
 * the server enters its sandbox. The server keeps neither.
 */
#ifndef MOTE_CLI_SERVE_SERVE_PULL_H
#define MOTE_CLI_SERVE_SERVE_PULL_H

#include "pull/pull_client.h"
#include "server/models/model_pulls.h"
#include "store/store.h"

typedef struct serve_pull {
    pull_settings settings; /* cleared when the process has them */
    store_env env;
    pull_spawner spawner;
} serve_pull;

/* Also creates the directory of the cache: the sandbox allows only directories that exist. Returns
 * an exit code; the error is reported unless it is 0. */
int serve_pull_open(serve_pull *p, model_pull_source *out);
void serve_pull_close(serve_pull *p);

#endif
