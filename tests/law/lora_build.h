/* SPDX-License-Identifier: Apache-2.0 */
/* lora_build.h - random adapters for tests, as GGUF files. */
#ifndef MOTE_TESTS_LAW_LORA_BUILD_H
#define MOTE_TESTS_LAW_LORA_BUILD_H

#include <mote.h>

/* Matrices of a random adapter. */
typedef enum lora_parts { LORA_ALL, LORA_WITHOUT_MTP, LORA_ONLY_FFN, LORA_ONLY_MIXERS } lora_parts;

typedef struct lora_recipe {
    uint32_t rank;
    float alpha;
    lora_parts parts;
    uint64_t seed;
    uint32_t type; /* of A and B: GGUF type number of F32, F16 or BF16 */
} lora_recipe;

/* Writes an adapter for the model to `path`. */
void lora_build(const char *path, const mote_model *model, const lora_recipe *recipe);
/* Builds and opens one. */
mote_lora *lora_make(const mote_model *model, const lora_recipe *recipe);

#endif
