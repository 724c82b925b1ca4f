/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shape_file.h - GGUF files with the tensors of a known model, in memory, for plans and
 * measurements.
 *
 * A file has the tensors, the formats and the metadata of a published one, but no vocabulary and no
 * trained weights. mote_model_open opens it by its path. So `mote fit` gets the memory of a model
 * that is not on this machine from mote_engine_plan itself, and its speed from the real kernels.
 *
 * A hollow file takes no memory except for its tensor table, whatever its size is. A filled one has
 * random weights and takes its size.
 */
#ifndef MOTE_FIT_SHAPE_FILE_H
#define MOTE_FIT_SHAPE_FILE_H

#include "base/err.h"
#include "base/os.h"
#include "quant/quant.h"
#include "store/known_models.h"

#include <mote.h>

/* Layers in which the most sensitive matrices have a better format. */
typedef enum mix_rule {
    MIX_PLAIN, /* none */
    MIX_FIRST, /* value projections of layers 0 to 3, ffn_down of the first eighth */
    MIX_SPREAD /* both: in the first and the last eighth, and in every third layer between */
} mix_rule;

/* A quantisation of llama-quantize: which tensors have which format. */
typedef struct fit_mix {
    const char *name;
    uint32_t file_type;        /* general.file_type */
    quant_format most;         /* of the matrices */
    quant_format head, better; /* output matrix; matrices that the rule selects */
    mix_rule rule;
} fit_mix;

/* By name in any case, such as "Q4_K_M". NULL: unknown, for example "UD-Q4_K_XL", which has another
 * choice of formats for every model. */
const fit_mix *fit_mix_find(const char *name);

typedef struct shape_file {
    int fd;
    char path[OS_MEMORY_PATH_BYTES]; /* valid while the file is open */
    uint64_t bytes;
} shape_file;

typedef enum shape_content { SHAPE_HOLLOW, SHAPE_FILLED } shape_content;

mote_status shape_file_create(shape_file *out, const model_shape *shape, const fit_mix *mix,
                              shape_content content, mote_error *err);
void shape_file_close(shape_file *file);

/* Memory of the tokenizer of a published model that mote_engine_plan does not count for a shape
 * file, which has one token per byte. */
extern const uint64_t shape_vocabulary_bytes;

#endif
