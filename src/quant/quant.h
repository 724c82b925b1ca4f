/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant.h - the block formats of GGUF weights: one table, one scalar decoder each.
 *
 * The table says what a format is; everything that depends on a format asks the
 * table. blocks.h has the byte layouts.
 */
#ifndef MOTE_QUANT_QUANT_H
#define MOTE_QUANT_QUANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Our own dense numbering; quant_info.gguf_id is the number in files. */
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
    QUANT_N_FORMATS
} quant_format;

/* How the activations that meet these weights are quantised (docs/numerics.md section 3). */
typedef enum quant_act {
    QUANT_ACT_F32, /* not at all */
    QUANT_ACT_32,  /* blocks of 32 */
    QUANT_ACT_256, /* blocks of 256 */
    QUANT_N_ACTS
} quant_act;

/* Decodes n_blocks blocks into n_blocks * block_values floats. */
typedef void quant_decode_fn(const void *blocks, size_t n_blocks, float *values);

typedef struct quant_info {
    quant_format format;
    const char *name; /* as people write it: "Q4_K" */
    uint32_t gguf_id;
    uint32_t block_values;
    uint32_t block_bytes;
    quant_act act;
    quant_decode_fn *decode;
} quant_info;

const quant_info *quant_get(quant_format format);
/* NULL: not a format mote knows. */
const quant_info *quant_from_gguf(uint32_t gguf_id);
/* The name GGUF gives to a type id, for messages: "Q4_K", also "IQ2_XS", which mote cannot read;
 * "unknown" for ids nobody has named. */
const char *quant_gguf_name(uint32_t gguf_id);

/* Bytes of a row of n values; false if n is not a whole number of blocks or the product overflows.
 */
bool quant_row_bytes(quant_format format, uint64_t n, uint64_t *bytes);

#endif
