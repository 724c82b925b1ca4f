/* SPDX-License-Identifier: Apache-2.0 */
/*
 * convert.h - a model directory of Hugging Face, or GGUF files, to one GGUF file.
 *
 * Text model, MTP, tokenizer, chat template and sampling presets go to one file, the vision encoder
 * to an mmproj file: llama.cpp loads no file that has both. Memory does not depend on the size of
 * the model. An interrupted conversion continues when it is started again (gguf_writer.h).
 */
#ifndef MOTE_CONVERT_CONVERT_H
#define MOTE_CONVERT_CONVERT_H

#include "convert/tensor_plan.h"

enum { CONVERT_PATH_BYTES = 1024 };

typedef struct convert_options {
    const char *out;
    const char *mmproj; /* NULL: mmproj-NAME next to `out` */
    const char *mtp;    /* of a GGUF source: a file with the MTP block; NULL: none */
    const char *name;   /* general.name; NULL: from the model card or the directory */
    bool no_vision, no_mtp;
    /* of a GGUF source: [n_loras], merged into the matrices. Opened for a model of that file. */
    const mote_lora_use *loras;
    size_t n_loras;
    plan_dtype dtype;
    stream_progress_fn *progress; /* may be NULL */
    /* A tensor that is not in the output; `why` is a phrase. May be NULL. */
    void (*unused)(void *ctx, str name, const char *why);
    /* False: MOTE_E_CANCELED, nothing is written. Called for the mmproj file of a directory, if
     * there will be one. May be NULL. */
    bool (*may_write)(void *ctx, const char *path);
    /* An output file is complete. May be NULL. */
    void (*written)(void *ctx, const char *path, uint32_t tensors, uint64_t bytes);
    void *ctx;
} convert_options;

/* The path of the mmproj file. MOTE_E_ARG: it is too long. */
mote_status convert_mmproj_path(char out[CONVERT_PATH_BYTES], const convert_options *o,
                                mote_error *err);

/* Converts a directory. MOTE_E_CANCELED: `progress` returned false; partial files stay. */
mote_status convert_directory(const char *directory, const convert_options *o, mote_error *err);

/* Copies a GGUF file, or all parts of a split one, to one file. MOTE_E_UNSUPPORTED: another
 * architecture, with its name. */
mote_status convert_gguf(const char *path, const convert_options *o, mote_error *err);

#endif
