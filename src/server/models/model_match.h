/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_match.h - which model the name in a request means.
 *
 * A name is [hf:|hf.co/|huggingface.co/][owner/]name[:tag]. Case, ":latest" and the prefix do not
 * count; ':' and '_' equal '-'. The beginning of a name up to a dash is enough.
 *
 * Two different owners never match. An owner in the request is ignored only if the model has none:
 * "Qwen/Qwen3.5-4B" means a model that is named "qwen3.5-4b".
 */
#ifndef MOTE_SERVER_MODELS_MODEL_MATCH_H
#define MOTE_SERVER_MODELS_MODEL_MATCH_H

#include "base/str.h"

/* Ascending: the best match is the greatest. */
typedef enum model_match {
    MATCH_NONE,
    MATCH_START_ANY_OWNER, /* the beginning, and only one of the two has an owner */
    MATCH_WHOLE_ANY_OWNER,
    MATCH_REPO, /* the repository of the hub, and the quantisation if the request has one */
    MATCH_START,
    MATCH_WHOLE
} model_match;

typedef struct model_names {
    const char *name;
    const char *repo;  /* "owner/name"; NULL: unknown */
    const char *quant; /* "": unknown */
} model_names;

model_match model_match_of(const model_names *model, str wanted);
/* Would requests with one of the names reach both models? */
bool model_names_clash(const char *a, const char *b);

#endif
