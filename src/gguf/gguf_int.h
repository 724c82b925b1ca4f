/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_int.h - the inside of a gguf; private to this directory. */
#ifndef MOTE_GGUF_GGUF_INT_H
#define MOTE_GGUF_GGUF_INT_H

#include "base/strmap.h"
#include "gguf/gguf.h"

struct gguf {
    const unsigned char *bytes; /* of the first part */
    uint64_t n_bytes;
    gguf_kv *kv; /* [n_kv] in file order */
    uint64_t n_kv;
    strmap kv_by_key;
    gguf_tensor *tensors; /* [n_tensors] in file order, part by part */
    uint64_t n_tensors;
    strmap tensor_by_name;
    uint64_t alignment;
    uint64_t data_start; /* base of the offsets in the tensor table */
};

#endif
