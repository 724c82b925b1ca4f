/* SPDX-License-Identifier: Apache-2.0 */
/*
 * known_models.h - the table of known models: which repository and which files a name means, and
 * the shape of the model.
 *
 * The built-in table (known_models.conf) is text in the syntax of base/conf_file.h. The user's
 * file, $XDG_CONFIG_HOME/mote/models, and then /etc/mote/models use the same syntax: a section with
 * a new name adds a model, a section with the name of an existing row replaces the keys that it
 * gives.
 *
 *     [qwen3.5:4b]
 *     repo = unsloth/Qwen3.5-4B-GGUF
 *     revision = main                      branch, tag or commit; default main
 *     file = Qwen3.5-4B-{quant}.gguf       path in the repository; {quant} is one of `quants`
 *     quants = Q4_K_M Q8_0
 *     default = Q4_K_M                     quant of the plain name; default: the first of `quants`
 *     small, balanced, best = QUANT        quants of the three grades
 *     mmproj = mmproj-F16.gguf             vision encoder; empty: none
 *     mtp =                                file with an MTP head; empty: none
 *
 * and the shape: parameters, layers, attention-layers, embedding, feed-forward, heads, kv-heads,
 * value-heads, vocabulary, tied, context, vision-parameters, mtp-parameters; of a model with experts
 * also experts, experts-used, shared-feed-forward, and feed-forward is that of an expert.
 */
#ifndef MOTE_STORE_KNOWN_MODELS_H
#define MOTE_STORE_KNOWN_MODELS_H

#include "base/conf_file.h"
#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum {
    KNOWN_NAME_BYTES = 64,
    KNOWN_QUANT_BYTES = 24,
    KNOWN_MAX_QUANTS = 32,
    KNOWN_REPO_BYTES = 200,
    KNOWN_PATH_BYTES = 512,
    KNOWN_MAX_ROWS = 1000
};

typedef enum known_grade { GRADE_SMALL, GRADE_BALANCED, GRADE_BEST, N_GRADES } known_grade;
extern const char *const known_grade_names[N_GRADES]; /* "small", "balanced", "best" */

/* The numbers that determine the tensors of a model. */
typedef struct model_shape {
    uint32_t layers; /* a multiple of 4; every fourth is attention */
    uint32_t embedding, feed_forward;
    uint32_t experts, experts_used; /* 0: a dense model */
    uint32_t shared_feed_forward;   /* of the shared expert */
    uint32_t heads, kv_heads;       /* of attention layers, 256 values each */
    uint32_t value_heads;           /* of DeltaNet layers, 128 values each; 16 key heads */
    uint32_t vocabulary;
    uint32_t context;
    bool tied; /* the output matrix is the embedding matrix */
} model_shape;

typedef struct known_model {
    char name[KNOWN_NAME_BYTES]; /* lower case: "qwen3.5:4b", or without a size: "mote-tiny" */
    char repo[KNOWN_REPO_BYTES]; /* "owner/name" */
    char revision[KNOWN_REPO_BYTES];
    char file[KNOWN_PATH_BYTES];
    char mmproj[KNOWN_PATH_BYTES]; /* path in the repository; "": none */
    char mtp[KNOWN_PATH_BYTES];    /* path in the repository; "": none, or inside the weights */
    char quants[KNOWN_MAX_QUANTS][KNOWN_QUANT_BYTES];
    size_t n_quants;                          /* at least 1 */
    char standard[KNOWN_QUANT_BYTES];         /* quant of the plain name */
    char grades[N_GRADES][KNOWN_QUANT_BYTES]; /* "": no such grade */

    /* 0 if the section does not give it. */
    uint64_t parameters;        /* of the text model, embeddings included */
    uint64_t vision_parameters; /* of the mmproj file */
    uint64_t mtp_parameters;
    uint32_t attention_layers;
    model_shape shape;
} known_model;

/* Rows in the order of the built-in table, then of the files. */
typedef struct known_models {
    known_model *rows;
    uint32_t n, room;
} known_models;

/* The built-in table. */
mote_status known_models_init(known_models *k, mote_error *err);
/* Adds the sections of a file. MOTE_E_FORMAT with "FILE:LINE: ...": a wrong line; the table is then
 * unchanged. */
mote_status known_models_add(known_models *k, const conf_file *file, mote_error *err);
void known_models_fini(known_models *k);

/* The row with this name in any case; NULL: none. */
const known_model *known_models_find(const known_models *k, str name);

/* The row's own spelling of a quant or of a grade in any case; NULL: it has none such. */
const char *known_quant(const known_model *row, str quant);
/* Path of the weights in the repository: `file` with the quant. False: it is too long. */
bool known_file(const known_model *row, const char *quant, char out[KNOWN_PATH_BYTES]);
/* Name of a row with a quant: "qwen3.5:4b", or "qwen3.5:4b-q8_0" if it is not the standard one. */
enum { KNOWN_FULL_NAME_BYTES = KNOWN_NAME_BYTES + KNOWN_QUANT_BYTES + 1 };
void known_full_name(const known_model *row, const char *quant, char out[KNOWN_FULL_NAME_BYTES]);

/* ---- what a hub accepts as names; everything that becomes part of a path passes these ---- */

/* "owner/name": letters, digits, ".", "_", "-"; no "..", no "--", as huggingface_hub demands. */
bool hub_repo_valid(str repo);
/* A branch, tag or commit: as above, with "/"; no segment is empty, "." or "..". */
bool hub_revision_valid(str revision);
/* A relative path of at most 500 bytes: no empty segment, no "." or "..", no backslash, no colon,
 * no control character, no segment with a dot or blank at its end. */
bool hub_path_valid(str path);
/* 40 (git) or 64 (SHA-256) digits, 0-9 and a-f. */
bool hub_hash_valid(str hash, size_t digits);

#endif
