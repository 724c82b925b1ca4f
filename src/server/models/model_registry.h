/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_registry.h - the models of a server: lookup by name, division of memory, file details.
 *
 * The registry creates every served_model at startup and keeps it until shutdown; the list never
 * changes in between, so pointers stay valid and lookups need no lock.
 *
 * Memory: `sched.memory` is one limit for all models. Each model gets its minimum (weights,
 * scratch, states, vision encoder). The remainder is split evenly; what a model does not use is
 * available to the models created after it.
 */
#ifndef MOTE_SERVER_MODELS_MODEL_REGISTRY_H
#define MOTE_SERVER_MODELS_MODEL_REGISTRY_H

#include "base/os.h"
#include "gguf/gguf.h"
#include "server/models/served_model.h"

enum { SERVER_MAX_MODELS = 16 };

typedef struct model_to_serve {
    const mote_model *model;
    const char *path; /* for file name and modification time; replies never contain it */
    const char *name; /* NULL: derived from the file name */
} model_to_serve;

typedef struct model_registry_options {
    const model_to_serve *models; /* [n_models]; the first one also serves unknown names */
    size_t n_models;
    sched_options sched; /* of each model; `model` and `core_lock` are set by the registry */
    struct fork_server *fork_server; /* image decoder; NULL: no images */
    uint32_t image_tokens;           /* default maximum per image; 0: 1,280 */
    const struct limits *limits;
    double keep_alive; /* seconds; negative: models stay loaded */
} model_registry_options;

typedef struct model_registry model_registry;

mote_status model_registry_new(model_registry **out, const model_registry_options *options,
                               mote_error *err);
/* All jobs must have ended. NULL is allowed. */
void model_registry_free(model_registry *r);
/* Number of models with a vision encoder. */
uint32_t model_registry_n_vision(const model_registry_options *options);

/* At least 1. */
size_t model_registry_count(const model_registry *r);
served_model *model_registry_at(const model_registry *r, size_t i);
/* The model that `name` means: an exact match first, then a match of the name up to a dash. See
 * model_name_is(). NULL: no model matches. */
served_model *model_registry_find(const model_registry *r, str name);

/* ---- details of a model file ---- */

typedef struct model_details {
    mote_model_info info;
    char family[32];     /* "qwen35" */
    char format[16];     /* "Q4_K_M"; "unknown" if the file does not say */
    char parameters[16]; /* "4.2B" */
    char digest[72];     /* 64 hex digits: SHA-256 of name, size and date; not of the contents */
    char date[48];       /* modification time of the file, RFC 3339 with nanoseconds */
    bool insert;         /* has fill-in-the-middle tokens */
    os_map map;
    gguf *file; /* NULL: the file is no longer readable */
} model_details;

/* Reads the metadata of the file again, which takes milliseconds: call it on a worker thread. Never
 * fails; unknown values are empty or "unknown". */
void model_details_read(model_details *out, const served_model *m);
void model_details_fini(model_details *d);

#endif
