/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull_model.h - downloads a model: starts mote-pull, shows its progress, reports its error.
 * `mote pull` uses it, and every command with a model that is not installed.
 */
#ifndef MOTE_CLI_LOAD_PULL_MODEL_H
#define MOTE_CLI_LOAD_PULL_MODEL_H

#include "cli/term/output.h"
#include "pull/pull_client.h"
#include "store/file_list.h"
#include "store/model_name.h"

typedef struct pull_options {
    uint64_t jobs;
    uint64_t limit_rate; /* bytes per second; 0: no limit */
    double retry_wait;
    double give_up;   /* seconds for all requests together; 0: no limit */
    const char *from; /* a directory or the URL of a hub; NULL: HF_ENDPOINT */
    const char *token_file;
    bool dry_run;
    bool checkpoint; /* the Safetensors files of the repository, with those that go with them */
} pull_options;

typedef struct pulled_model {
    char path[FILE_PATH_BYTES];     /* of the weights */
    char snapshot[FILE_PATH_BYTES]; /* the directory of the files in the cache */
    uint64_t total;                 /* bytes of all files */
    uint64_t missing;               /* bytes that are not installed */
    uint64_t n_files;
} pulled_model;

/* Sets the repository and the files of a known model or one of a repository. `name` must outlive
 * the request. */
void pull_request_of_name(pull_request *r, const model_name *name);

/* Downloads a known model or one of a repository (MODEL_NAME_KNOWN, MODEL_NAME_HUB). `events`: the
 * events of mote-pull are written there, one JSON object per line; NULL: no. Returns an exit code;
 * the error is reported unless it is 0. */
int pull_model(pulled_model *out, const model_name *name, const pull_options *o, cli_out *events);

/* Asks on the terminal whether to pull the model, with its size. Waits at most 5 seconds for the
 * hub. Returns an exit code; the error is reported unless it is 0. */
int pull_model_confirm(const model_name *name, bool *yes);

#endif
