/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_file.h - what a read GGUF holds; shared by the reader and the getters. */
#ifndef MOTE_GGUF_GGUF_FILE_H
#define MOTE_GGUF_GGUF_FILE_H

#include "base/strmap.h"
#include "gguf/gguf.h"

struct gguf {
    const unsigned char *bytes;
    uint64_t n_bytes;
    gguf_kv *kv; /* [n_kv] in file order */
    uint64_t n_kv;
    strmap kv_by_key;
    gguf_tensor *tensors; /* [n_tensors] in file order */
    uint64_t n_tensors;
    strmap tensor_by_name;
    uint64_t alignment;
    uint64_t data_start; /* tensor offsets in the file count from here */
};

/* Bytes of a scalar; 0 for strings, arrays and types that do not exist. */
uint32_t gguf_scalar_bytes(uint32_t type);

#endif
