/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gguf_head.h - what the beginning of a GGUF file says about it, in one short read.
 *
 * For lists of many files: gguf_read would map and walk the whole vocabulary of each. Converters
 * write the keys below before the vocabulary; a file that does not has empty fields.
 */
#ifndef MOTE_STORE_GGUF_HEAD_H
#define MOTE_STORE_GGUF_HEAD_H

#include <stdbool.h>
#include <stdint.h>

enum { GGUF_HEAD_BYTES = 65536, GGUF_HEAD_NAME_BYTES = 32 };

typedef struct gguf_head {
    char architecture[GGUF_HEAD_NAME_BYTES]; /* general.architecture; "": not found */
    uint32_t embedding;                      /* ARCHITECTURE.embedding_length; 0: not found */
    uint32_t projection; /* clip.vision.projection_dim of an mmproj file; 0: not found */
    uint32_t vision;     /* ARCHITECTURE.vision.block_count: a vision encoder inside; 0: none */
} gguf_head;

/* False: not a GGUF file of version 2 or 3, or it cannot be read. */
bool gguf_head_read(gguf_head *out, const char *path);

#endif
