/* SPDX-License-Identifier: Apache-2.0 */
/*
 * safetensors.h - the header of a Safetensors file: names, types, shapes and places of its tensors.
 *
 * The format is a length of 8 bytes, a JSON object of that length, and the data of all tensors
 * without gaps. The file is untrusted input. After safetensors_read:
 * - The data of each tensor are inside the file, do not overlap those of another, and together
 *   fill the file.
 * - A tensor of a known type has exactly the size given by its shape.
 * - Names are unique, 1 to SAFETENSORS_MAX_NAME bytes, without control characters.
 */
#ifndef MOTE_SAFETENSORS_SAFETENSORS_H
#define MOTE_SAFETENSORS_SAFETENSORS_H

#include "base/err.h"
#include "base/str.h"

#include <stdint.h>

enum {
    SAFETENSORS_MAX_HEADER = 100 * 1000 * 1000, /* the limit of the safetensors library */
    SAFETENSORS_MAX_TENSORS = 65536,
    SAFETENSORS_MAX_NAME = 256,
    SAFETENSORS_MAX_DIMS = 8
};

typedef enum safetensors_type {
    SAFETENSORS_OTHER, /* integers, 8-bit floats and later additions */
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16
} safetensors_type;

typedef struct safetensor {
    str name;
    str type_name; /* "BF16" */
    safetensors_type type;
    uint32_t n_dims;
    uint64_t dims[SAFETENSORS_MAX_DIMS]; /* the last one is contiguous */
    uint64_t values;
    uint64_t offset; /* of the data in the file */
    uint64_t bytes;
} safetensor;

typedef struct safetensors safetensors;

/* The size of length and JSON, from the first 8 bytes of a file of file_bytes bytes. */
mote_status safetensors_header_bytes(const unsigned char first[8], uint64_t file_bytes,
                                     uint64_t *out, mote_error *err);
/* `header` has safetensors_header_bytes bytes. It is not used after the call. */
mote_status safetensors_read(safetensors **out, const unsigned char *header, uint64_t n_header,
                             uint64_t file_bytes, mote_error *err);
/* NULL is allowed. */
void safetensors_free(safetensors *s);

uint32_t safetensors_count(const safetensors *s);
/* Sorted by name, bytewise. */
const safetensor *safetensors_at(const safetensors *s, uint32_t i);

#endif
