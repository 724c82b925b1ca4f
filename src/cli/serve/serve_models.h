/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve_models.h - the models of `mote serve` and `mote batch`: those of the command line, or the
 * installed ones on request.
 *
 * Functions that return int return an exit code and have reported the error unless it is 0.
 */
#ifndef MOTE_CLI_SERVE_SERVE_MODELS_H
#define MOTE_CLI_SERVE_SERVE_MODELS_H

#include "base/ram.h"
#include "cli/load/find_model.h"
#include "cli/load/load.h"
#include "cli/serve/serve_catalog.h"
#include "cli/serve/serve_pull.h"
#include "server/server.h"

/* The models and their vision encoders. */
typedef struct serve_models {
    const char *const *arguments; /* [n], from the command line */
    size_t n;                     /* 0: the installed models, on request */
    const char *name;             /* --name, for a single model; NULL: from the file name */
    const char *mmproj;           /* --mmproj: a file for a single model, or "none"; NULL: search */
    mote_isa isa;

    found_model *found; /* [n] */
    serve_catalog catalog;
    serve_pull pull;
    loaded on[SERVER_MAX_MODELS];
    const flag_list *lora_files;               /* --lora; NULL: none */
    served_lora loras[SERVED_MAX_LORAS];       /* [n_loras], of the first model */
    mote_lora *opened_loras[SERVED_MAX_LORAS]; /* [n_loras] */
    size_t n_loras;
    struct fork_server *fork_server;
    ram ram; /* before the models are opened */
} serve_models;

/* Opens all models and enters them and the decoder process into the options. `memory`: --memory. */
int serve_models_open(serve_models *m, server_options *o, uint64_t memory);
/* Enters the installed models into the options; none is opened. `pull`: --allow-pull. */
int serve_models_open_catalog(serve_models *m, server_options *o, uint64_t memory, bool pull);
/* Also after a failure. */
void serve_models_close(serve_models *m);

#endif
