/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tensor_plan.h - the tensors of one output file, made from a checkpoint by the rules of
 * tensor_rules.h: names, shapes and formats, and a source for tensor_stream.h.
 *
 * Tensors are in the order of llama.cpp's converter: file by file, in each file sorted by name.
 */
#ifndef MOTE_CONVERT_TENSOR_PLAN_H
#define MOTE_CONVERT_TENSOR_PLAN_H

#include "convert/checkpoint.h"
#include "convert/tensor_rules.h"
#include "convert/tensor_stream.h"

typedef struct plan_tensor {
    const checkpoint_tensor *source;
    const checkpoint_tensor **experts; /* of GROUP_EXPERT: [config->experts], else NULL */
    const tensor_rule *rule;
    char name[GGUF_MAX_KEY];
    quant_format format;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS];
    uint64_t rows, cols; /* how the data are read; cols are contiguous in the source */
    uint32_t frame;      /* of ORDER_FRAMES and ORDER_GATE_UP: which of the two tensors */
} plan_tensor;

typedef struct tensor_plan {
    const checkpoint *checkpoint;
    const model_config *config;
    plan_tensor *tensors;
    uint32_t n, room;
    void *raw;   /* source values of one buffer */
    float *wide; /* the same as float32 */
    size_t raw_bytes, wide_bytes;
} tensor_plan;

/* Types of matrices: as stored, or one type for all. */
typedef enum plan_dtype { PLAN_AS_STORED, PLAN_F32, PLAN_F16, PLAN_BF16 } plan_dtype;

/* Adds all tensors of the text model, or of the vision encoder. Marks them as used. */
mote_status tensor_plan_build(tensor_plan *plan, checkpoint *c, const model_config *m, bool vision,
                              plan_dtype dtype, mote_error *err);
void tensor_plan_fini(tensor_plan *plan);

/* Adds the tensors to a writer. */
mote_status tensor_plan_declare(const tensor_plan *plan, gguf_writer *w, mote_error *err);
/* The format of the first matrix, for general.file_type. */
quant_format tensor_plan_format(const tensor_plan *plan);
/* A source with the plan as ctx. */
stream_source tensor_plan_source(tensor_plan *plan);

/* Writes float32 values as F32, F16 or BF16. Returns the index of the first finite value that F16
 * cannot hold; n: none. */
size_t tensor_narrow(void *out, const float *values, size_t n, quant_format format);

#endif
