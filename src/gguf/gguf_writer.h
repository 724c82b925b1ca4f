/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_writer.h - writes a GGUF file from front to back and continues an interrupted one.
 *
 * Order of calls: new, metadata, tensors, begin, the data of each tensor in order, commit, free.
 *
 * The data go to PATH.partial, which commit renames to PATH. PATH.partial.journal says from which
 * sources the partial file is made and how many of its tensors are on the disk. begin continues a
 * partial file if its header, its sources and the version of mote are those of this call, and replaces
 * it otherwise. So a file that was interrupted at any point ends with the bytes of one that was not.
 *
 * The same metadata, tensors and data give the same bytes as gguf-py of llama.cpp: version 3,
 * alignment 32, tensors in the order of the calls.
 */
#ifndef MOTE_GGUF_GGUF_WRITER_H
#define MOTE_GGUF_GGUF_WRITER_H

#include "gguf/gguf.h"

typedef struct gguf_writer gguf_writer;

mote_status gguf_writer_new(gguf_writer **out, mote_error *err);
/* Closes the files. A partial file stays, for a later begin. NULL is allowed. */
void gguf_writer_free(gguf_writer *w);

/* ---- metadata ----
 *
 * A key must not be written twice. Out of memory is reported by begin. */

void gguf_writer_u32(gguf_writer *w, const char *key, uint32_t value);
void gguf_writer_i32(gguf_writer *w, const char *key, int32_t value);
void gguf_writer_f32(gguf_writer *w, const char *key, float value);
void gguf_writer_bool(gguf_writer *w, const char *key, bool value);
void gguf_writer_str(gguf_writer *w, const char *key, str value);
/* An array of n encoded elements of a type other than string. */
void gguf_writer_array(gguf_writer *w, const char *key, gguf_type type, const void *elements,
                       uint64_t n);
/* An array of n strings; n calls of gguf_writer_item follow. */
void gguf_writer_strs(gguf_writer *w, const char *key, uint64_t n);
void gguf_writer_item(gguf_writer *w, str value);
/* A value of another file, unchanged. */
void gguf_writer_copy(gguf_writer *w, const gguf_kv *kv);

/* ---- tensors ---- */

/* dims[0] is contiguous. MOTE_E_ARG: a row is not a whole number of blocks, or the name is invalid
 * or taken. */
mote_status gguf_writer_tensor(gguf_writer *w, str name, quant_format format, uint32_t n_dims,
                               const uint64_t *dims, mote_error *err);
uint32_t gguf_writer_n_tensors(const gguf_writer *w);
/* Bytes of the data of tensor i, without padding. */
uint64_t gguf_writer_tensor_bytes(const gguf_writer *w, uint32_t i);
/* Values of all tensors. */
uint64_t gguf_writer_values(const gguf_writer *w);
/* Bytes of the data of all tensors. */
uint64_t gguf_writer_data_bytes(const gguf_writer *w);

/* ---- data ---- */

/* MOTE_E_ARG: a file that begin or commit writes for PATH is the file `input`. Call it before begin
 * for each file that the data come from, or begin could empty it. */
mote_status gguf_writer_check_input(const char *path, const char *input, mote_error *err);

/* Opens PATH.partial. `sources` is any text that changes when an input changes. *done: the number
 * of tensors that are complete; the caller continues with tensor *done. MOTE_E_IO: also if another
 * process writes the file, or if PATH.partial is no regular file: a symbolic link is not followed. */
mote_status gguf_writer_begin(gguf_writer *w, const char *path, str sources, uint32_t *done,
                              mote_error *err);
/* Appends data of the current tensor; with its last byte the next tensor becomes current. */
mote_status gguf_writer_data(gguf_writer *w, const void *bytes, size_t n, mote_error *err);
/* Renames the file to PATH; all tensors must be complete. */
mote_status gguf_writer_commit(gguf_writer *w, mote_error *err);
/* Removes the partial file. Has no effect before begin and after commit. */
void gguf_writer_discard(gguf_writer *w);

#endif
