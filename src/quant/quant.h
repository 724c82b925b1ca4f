/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant.h - weight formats of GGUF files: one table, one scalar decoder each.
 *
 * All properties of a format are in the table. blocks.h has the byte layouts. docs/formats.md
 * describes how to add a format.
 */
#ifndef MOTE_QUANT_QUANT_H
#define MOTE_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Dense numbering inside mote; quant_info.gguf_id is the number used in files. */
typedef enum quant_format {
    QUANT_F32,
    QUANT_F16,
    QUANT_BF16,
    QUANT_Q4_0,
    QUANT_Q4_1,
    QUANT_Q5_0,
    QUANT_Q5_1,
    QUANT_Q8_0,
    QUANT_Q2_K,
    QUANT_Q3_K,
    QUANT_Q4_K,
    QUANT_Q5_K,
    QUANT_Q6_K,
    QUANT_IQ4_NL,
    QUANT_IQ4_XS,
    QUANT_IQ1_S,
    QUANT_IQ1_M,
    QUANT_IQ2_XXS,
    QUANT_IQ2_XS,
    QUANT_IQ2_S,
    QUANT_IQ3_XXS,
    QUANT_IQ3_S,
    QUANT_TQ1_0,
    QUANT_TQ2_0,
    QUANT_MXFP4,
    QUANT_NVFP4,
    QUANT_Q1_0,
    QUANT_Q2_0,
    QUANT_N_FORMATS
} quant_format;

/* How activations are quantised before a product with these weights (docs/numerics.md, section 3).
 */
typedef enum quant_act {
    QUANT_ACT_F32, /* not quantised */
    QUANT_ACT_32,  /* blocks of 32 */
    QUANT_ACT_256, /* blocks of 256 */
    QUANT_N_ACTS
} quant_act;

/* Decodes n_blocks blocks into n_blocks * block_values floats. */
typedef void quant_decode_fn(const void *blocks, size_t n_blocks, float *values);

typedef struct quant_info {
    quant_format format;
    const char *name; /* "Q4_K" */
    uint32_t gguf_id;
    uint32_t block_values;
    uint32_t block_bytes;
    quant_act act;
    quant_decode_fn *decode;
    bool unpacked; /* products rewrite its blocks in another layout first (unpack.h) */
} quant_info;

const quant_info *quant_get(quant_format format);
/* NULL: no decoder for this type. */
const quant_info *quant_from_gguf(uint32_t gguf_id);
/* The GGUF name of a type id, for messages. Includes types without a decoder, such as "I32";
 * "unknown" for undefined ids. */
const char *quant_gguf_name(uint32_t gguf_id);

/* Bytes of a row of n values. False: n is not a multiple of the block size, or overflow. */
bool quant_row_bytes(quant_format format, uint64_t n, uint64_t *bytes);

/* Encodes n_blocks * 32 floats as n_blocks Q8_0 blocks, byte for byte like llama.cpp: d = amax /
 * 127 is stored as f16; codes use the unrounded d and round half away from zero. */
void quant_encode_q8_0(const float *values, size_t n_blocks, void *blocks);

/* Makes weights of a block of random bytes, for models of random weights: sets its scale to the f16
 * `d` and its minimum, if the format has one, to the f16 `min`. MXFP4 and NVFP4 round d to a scale of
 * theirs. F32, F16 and BF16 have no scale. */
void quant_set_scales(quant_format format, void *block, uint16_t d, uint16_t min);

#endif
