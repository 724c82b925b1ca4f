/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf.h - GGUF files: metadata by key, tensors by name.
 *
 * gguf_read validates the file. After that:
 * - The data of a tensor with a known format are inside the file, aligned to general.alignment,
 *   and have exactly the size given by shape and format.
 * - All strings and arrays are inside the file.
 *
 * Returned pointers and strings are views into the caller's bytes (a mapped file). They are valid
 * until the bytes are unmapped or the gguf is freed. A gguf is immutable and thread-safe.
 */
#ifndef MOTE_GGUF_GGUF_H
#define MOTE_GGUF_GGUF_H

#include "base/err.h"
#include "base/str.h"
#include "quant/quant.h"

enum {
    GGUF_MAX_DIMS = 4,
    GGUF_MAX_KV = 65536,
    GGUF_MAX_TENSORS = 65536,
    GGUF_MAX_KEY = 256,
    GGUF_MAX_ALIGNMENT = 1 << 20,
    GGUF_MAX_PARTS = 128
};

typedef enum gguf_type {
    GGUF_U8 = 0,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_N_TYPES
} gguf_type;

typedef struct gguf_kv {
    str key;
    gguf_type type; /* of the value, or of the array elements */
    bool is_array;
    uint64_t count;             /* 1, or the number of array elements */
    const unsigned char *bytes; /* the encoded value or elements */
    uint64_t n_bytes;
} gguf_kv;

typedef struct gguf_tensor {
    str name;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS]; /* dims[0] is contiguous; unused ones are 1 */
    uint32_t gguf_type;
    const quant_info *format; /* NULL: unsupported type; then data is NULL and bytes 0 */
    const unsigned char *data;
    uint64_t bytes;
    uint64_t offset; /* of the data in the file */
    uint32_t part;   /* of a split model: the file with the data, from 0 */
} gguf_tensor;

typedef struct gguf gguf;

/* Reads header, metadata and tensor table, but no tensor data. `bytes` must outlive the gguf. */
mote_status gguf_read(gguf **out, const unsigned char *bytes, uint64_t n_bytes, mote_error *err);
void gguf_free(gguf *g);
/* Heap memory of the gguf, without the bytes of the file. */
uint64_t gguf_private_bytes(const gguf *g);

/* ---- split models ----
 *
 * A model may be divided into several files, as llama-gguf-split writes them: each has the keys
 * split.no (from 0), split.count and split.tensors.count, and a share of the tensors. The metadata
 * of the model are in the first file, which may have no tensors. gguf_files.h opens such files by
 * name. */

typedef struct gguf_split {
    uint32_t no, count; /* a file that is not split is number 0 of 1 */
} gguf_split;

/* MOTE_E_FORMAT: the keys are malformed, or more than GGUF_MAX_PARTS. */
mote_status gguf_split_of(const gguf *g, gguf_split *out, mote_error *err);

/* Joins the parts of a split model, in order, into parts[0]. Frees the others and sets their
 * entries to NULL. Their bytes must outlive parts[0]. On failure all parts are unchanged; the
 * message says which part is wrong. */
mote_status gguf_join(gguf *parts[], uint32_t n, mote_error *err);

/* ---- contents ---- */

uint64_t gguf_n_kv(const gguf *g);
const gguf_kv *gguf_kv_at(const gguf *g, uint64_t i);
const gguf_kv *gguf_find(const gguf *g, const char *key); /* NULL: absent */

uint64_t gguf_n_tensors(const gguf *g);
const gguf_tensor *gguf_tensor_at(const gguf *g, uint64_t i);
const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name); /* NULL: absent */
uint64_t gguf_alignment(const gguf *g);
/* The number N of a tensor "blk.N.name"; -1: another name, or more than 8 digits. */
int64_t gguf_block_of(str name);

/*
 * Typed getters. gguf_get_u32 accepts any integer type if the value fits. Any other type mismatch
 * is MOTE_E_FORMAT. If the key is absent, *out is unchanged and *found is false; with found NULL an
 * absent key is MOTE_E_FORMAT.
 */
mote_status gguf_get_u32(const gguf *g, const char *key, uint32_t *out, bool *found,
                         mote_error *err);
mote_status gguf_get_f32(const gguf *g, const char *key, float *out, bool *found, mote_error *err);
mote_status gguf_get_bool(const gguf *g, const char *key, bool *out, bool *found, mote_error *err);
mote_status gguf_get_str(const gguf *g, const char *key, str *out, bool *found, mote_error *err);

/* Writes the key "ARCH.name" of the file's architecture, such as "qwen35.block_count", and returns
 * `key`. */
const char *gguf_arch_key(const gguf *g, const char *name, char key[GGUF_MAX_KEY]);

/* general.file_type as text, such as "Q4_K_M", or the name of one of mote's own mixes; NULL: absent,
 * or not a type of this model family. */
const char *gguf_file_type(const gguf *g);

/* Element i of an integer array of any width; a scalar is element 0. False: i is out of range, the
 * type is not an integer, or the value does not fit. */
bool gguf_int_at(const gguf_kv *kv, uint64_t i, int64_t *out);

/* Iterates over an array of strings. Start with a walk of {0}. False: end, or not strings. */
typedef struct gguf_str_walk {
    uint64_t i, pos;
} gguf_str_walk;
bool gguf_next_str(const gguf_kv *kv, gguf_str_walk *walk, str *out);

#endif
