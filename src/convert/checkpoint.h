/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint.h - a model directory of Hugging Face: config.json and the tensors of all Safetensors
 * files in it.
 *
 * The files are those that model.safetensors.index.json names, or all model*.safetensors. Tensor
 * data are read with pread into the caller's memory, so a checkpoint needs little memory of its
 * own.
 */
#ifndef MOTE_CONVERT_CHECKPOINT_H
#define MOTE_CONVERT_CHECKPOINT_H

#include "safetensors/safetensors.h"
#include "json/json.h"

enum { CHECKPOINT_PATH_BYTES = 1024, CHECKPOINT_MAX_FILES = 512 };

typedef struct checkpoint_tensor {
    const safetensor *tensor;
    uint32_t file;
    bool used; /* for the caller; false after opening */
} checkpoint_tensor;

typedef struct checkpoint checkpoint;

mote_status checkpoint_open(checkpoint **out, const char *directory, mote_error *err);
/* NULL is allowed. */
void checkpoint_close(checkpoint *c);

const char *checkpoint_directory(const checkpoint *c);
/* The last part of its full path. */
void checkpoint_real_name(const checkpoint *c, char out[CHECKPOINT_PATH_BYTES]);
const json_node *checkpoint_config(const checkpoint *c);
uint32_t checkpoint_count(const checkpoint *c);
/* File by file in the order of their names, in each file sorted by name. */
checkpoint_tensor *checkpoint_at(checkpoint *c, uint32_t i);

/* Reads bytes of a tensor. MOTE_E_IO names the file. */
mote_status checkpoint_read(const checkpoint *c, const checkpoint_tensor *t, uint64_t offset,
                            void *out, size_t bytes, mote_error *err);

/* MOTE_E_IO: a Safetensors file is not the one that was opened any more. */
mote_status checkpoint_check_unchanged(const checkpoint *c, mote_error *err);
/* gguf_writer_check_input for all Safetensors files. */
mote_status checkpoint_check_output(const checkpoint *c, const char *path, mote_error *err);

/* Appends the full path, and one line per file with its name, size and time of change: the sources
 * of a writer. */
void checkpoint_put_sources(const checkpoint *c, strbuf *out);

/* ---- other files of the directory ---- */

/* Reads a whole file of the directory; free it with mem_free. *out is NULL if it does not exist. */
mote_status checkpoint_file(const checkpoint *c, const char *name, char **out, size_t *bytes,
                            mote_error *err);
/* The same as a JSON document; an error names the file. */
mote_status checkpoint_json(const checkpoint *c, const char *name, json_doc **out, mote_error *err);

#endif
