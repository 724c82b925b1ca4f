/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model_id.h - the parts of a model's name, such as "Qwen/Qwen3.5-4B-Base": organisation, base
 * name, size, fine-tune and version, by the rules of gguf-py.
 */
#ifndef MOTE_CONVERT_MODEL_ID_H
#define MOTE_CONVERT_MODEL_ID_H

#include "base/str.h"

#include <stdint.h>

enum { MODEL_ID_BYTES = 256 };

/* Empty: the name does not have the part. */
typedef struct model_id {
    char name[MODEL_ID_BYTES];
    char organization[MODEL_ID_BYTES];
    char basename[MODEL_ID_BYTES];
    char finetune[MODEL_ID_BYTES];
    char version[MODEL_ID_BYTES];
    char size_label[MODEL_ID_BYTES];
} model_id;

/* `values` is the number of weights: a size in the name that is far from it is something else, such
 * as a context length. 0: unknown. */
void model_id_parse(model_id *out, str text, uint64_t values);
/* "mote-tiny" to "Mote Tiny"; words with capitals or a leading digit do not change. */
void model_id_title(char out[MODEL_ID_BYTES], const char *name);
/* "4.2B", "13M": the number of weights. */
void model_id_size(char out[MODEL_ID_BYTES], uint64_t values);

#endif
