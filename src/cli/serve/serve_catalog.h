/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_catalog.h - the installed models for `mote serve` without a model: the store as the catalog
 * of the server.
 */
#ifndef MOTE_CLI_SERVE_SERVE_CATALOG_H
#define MOTE_CLI_SERVE_SERVE_CATALOG_H

#include "server/models/model_registry.h"
#include "store/store.h"

typedef struct serve_catalog {
    store_env env;
    const struct config *config; /* of the start, with its aliases */
    char **directories; /* [n]: the files of installed models and the tables of known models */
    size_t n;
    size_t n_models; /* that can be used, at the start */
} serve_catalog;

/* Finds the directories. Those of mote are created: the sandbox allows only directories that exist,
 * and a model may be pulled later. Returns an exit code; the error is reported unless it is 0. */
int serve_catalog_open(serve_catalog *c);
void serve_catalog_close(serve_catalog *c);
/* For model_catalog.list; `with` is a serve_catalog. */
mote_status serve_catalog_list(void *with, model_catalog_add *add, void *to, mote_error *err);

/* Creates a directory and its parents. false: errno is set. */
bool serve_make_directories(const char *path);

#endif
