/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_details.h - what lists and descriptions say about a model, loaded or not.
 *
 * A model that is not loaded is described from the metadata of its file, without opening it as a
 * model: that takes milliseconds, so call it on a worker thread.
 */
#ifndef MOTE_SERVER_MODELS_MODEL_DETAILS_H
#define MOTE_SERVER_MODELS_MODEL_DETAILS_H

#include "gguf/gguf_files.h"
#include "server/models/model_registry.h"

typedef struct model_details {
    char name[MODEL_NAME_BYTES];
    mote_model_info info; /* not loaded: what the metadata say; isa and private_bytes are 0 */
    char family[32];      /* "qwen35" */
    char format[16];      /* "Q4_K_M"; "unknown" if the file does not say */
    char parameters[16];  /* "4.2B" */
    char digest[72];      /* 64 hex digits: SHA-256 of the file if the store knows it, otherwise of
                           * name, size and date */
    int64_t modified;     /* of the file, in seconds since 1970 */
    char date[48];        /* the same, RFC 3339 with nanoseconds */
    bool insert;          /* has fill-in-the-middle tokens */
    bool vision;          /* accepts images */
    bool loaded;
    uint64_t context; /* of a request; not loaded: an upper bound, or that of the last load */
    double leaves_in; /* seconds until it is unloaded; INFINITY: never, or not loaded */
    chat_size size;   /* which sampler presets it uses */
    bool thinks;      /* by default */
    gguf_files files;
    const gguf *file; /* NULL: the file is not readable */
    model_set held;   /* the loaded model: `info` points into it */
} model_details;

/* Never fails; unknown values are empty or "unknown". */
void model_details_read(model_details *out, model_entry *e);
void model_details_fini(model_details *d);

#endif
