/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf.h - a GGUF file as a directory: metadata by key, tensors by name.
 *
 * Everything returned is a view into the caller's bytes (a mapped file) and
 * lives as long as they do and the gguf is not freed. A gguf is immutable once
 * read. Code above this line may trust: every tensor's bytes lie inside the file,
 * are aligned as the file promises and have exactly the size its shape and format
 * call for; every string and array lies inside the file.
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
    GGUF_MAX_ALIGNMENT = 1 << 20
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
    gguf_type type; /* of the value, or of the elements of an array */
    bool is_array;
    uint64_t count;             /* 1, or the elements of an array */
    const unsigned char *bytes; /* the encoded value or elements */
    uint64_t n_bytes;
} gguf_kv;

typedef struct gguf_tensor {
    str name;
    uint32_t n_dims;
    uint64_t dims[GGUF_MAX_DIMS]; /* fastest first; missing ones are 1 */
    uint32_t gguf_type;
    const quant_info *format; /* NULL: a type mote cannot read; data is then NULL too */
    const unsigned char *data;
    uint64_t bytes;
    uint64_t offset; /* of the data in the file, for messages and tables */
} gguf_tensor;

typedef struct gguf gguf;

/* `bytes` must outlive the gguf. Reads header, metadata and tensor table; touches no tensor data.
 */
mote_status gguf_read(gguf **out, const unsigned char *bytes, uint64_t n_bytes, mote_error *err);
void gguf_free(gguf *g);
/* What it took from base/mem; the file's bytes are the caller's. */
uint64_t gguf_private_bytes(const gguf *g);

uint64_t gguf_n_kv(const gguf *g);
const gguf_kv *gguf_kv_at(const gguf *g, uint64_t i);
const gguf_kv *gguf_find(const gguf *g, const char *key); /* NULL: absent */

uint64_t gguf_n_tensors(const gguf *g);
const gguf_tensor *gguf_tensor_at(const gguf *g, uint64_t i);
const gguf_tensor *gguf_find_tensor(const gguf *g, const char *name); /* NULL: absent */
uint64_t gguf_alignment(const gguf *g);

/*
 * Typed getters. A value of another integer width is taken if it fits; a value
 * of another kind is an error, whatever its key. Absent: `*out` keeps its value
 * and *found (which may be NULL) is false; with found NULL an absent key is
 * MOTE_E_FORMAT "... is missing".
 */
mote_status gguf_get_u32(const gguf *g, const char *key, uint32_t *out, bool *found,
                         mote_error *err);
mote_status gguf_get_f32(const gguf *g, const char *key, float *out, bool *found, mote_error *err);
mote_status gguf_get_bool(const gguf *g, const char *key, bool *out, bool *found, mote_error *err);
mote_status gguf_get_str(const gguf *g, const char *key, str *out, bool *found, mote_error *err);

/* Element i of an integer array (any width), or the value itself if the key is not an array and i
 * is 0. False: out of range, or not integers. */
bool gguf_int_at(const gguf_kv *kv, uint64_t i, int64_t *out);

/* Walks an array of strings in order; a fresh walk is {0}. False: no more. */
typedef struct gguf_str_walk {
    uint64_t i, pos;
} gguf_str_walk;
bool gguf_next_str(const gguf_kv *kv, gguf_str_walk *walk, str *out);

#endif
