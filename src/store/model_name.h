/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_name.h - what a model argument means, before anything is looked up on disk.
 *
 *     qwen3.5                      a family: the caller chooses size and quantisation
 *     qwen3.5:4b                   a known model with its default quantisation
 *     qwen3.5:4b-q5_k_m            a known model with a quantisation
 *     qwen3.5:4b-small             ... or a grade: small, balanced, best
 *     hf:owner/repo[:QUANT|FILE]   a repository of the hub; hf:owner/repo@REVISION for a revision
 *     dir/model.gguf, ./dir        a path: contains "/", ends in .gguf, or exists
 *     anything else                a name from `mote list`, such as that of an Ollama model
 *
 * A suffix sets thinking: qwen3.5:4b:nothink, :think, :low, :medium ...
 */
#ifndef MOTE_STORE_MODEL_NAME_H
#define MOTE_STORE_MODEL_NAME_H

#include "base/err.h"
#include "store/known_models.h"

enum { MODEL_ARGUMENT_BYTES = 4096 };

typedef enum model_name_kind {
    MODEL_NAME_PATH,
    MODEL_NAME_FAMILY, /* `text` is the family */
    MODEL_NAME_KNOWN,  /* `known` and `quant` are set */
    MODEL_NAME_HUB,    /* `repo`, `revision` and `selector` are set */
    MODEL_NAME_OTHER   /* `text` is a name that only a list of installed models can resolve */
} model_name_kind;

typedef struct model_name {
    model_name_kind kind;
    char text[MODEL_ARGUMENT_BYTES]; /* the argument without the suffix for thinking */
    const char *think;               /* value of --think: "on", "off", "low" ...; NULL: no suffix */

    const known_model *known; /* KNOWN; valid as long as the table */
    const char *quant;        /* KNOWN: the row's spelling */

    char repo[KNOWN_REPO_BYTES];     /* HUB: "owner/name" */
    char revision[KNOWN_REPO_BYTES]; /* HUB: "" if not given */
    char selector[KNOWN_PATH_BYTES]; /* HUB: quantisation or file; "" if not given */
} model_name;

/* MOTE_E_ARG: no such model, with what there is: an unknown size (qwen3.5:3b) is answered with the
 * sizes that exist. */
mote_status model_name_parse(model_name *out, const known_models *known, const char *argument,
                             mote_error *err);

/* The rows of a family, such as "qwen3.5", in the order of the table: calls of this function with
 * the last result (NULL at first) return the next one; NULL at the end. */
const known_model *model_family_next(const known_models *known, const char *family,
                                     const known_model *last);

/* ---- names of files ---- */

enum { MODEL_NAME_BYTES = 128 };

/* "Qwen3.5-4B-Q4_K_M.gguf" becomes "qwen3.5-4b-q4_k_m"; a part number is dropped. */
void model_name_of_file(char out[MODEL_NAME_BYTES], const char *path);

#endif
