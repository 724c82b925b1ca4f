/* SPDX-License-Identifier: Apache-2.0 */
/* decode_float.c - weights that are plain numbers: F32, F16, BF16. */
#include "quant/quant_decode.h"
#include "quant/half.h"

void quant_decode_f32(const void *blocks, size_t n_blocks, float *values)
{
    if (n_blocks > 0)
        memcpy(values, blocks, n_blocks * sizeof *values);
}

void quant_decode_f16(const void *blocks, size_t n_blocks, float *values)
{
    const uint16_t *in = blocks;
    for (size_t i = 0; i < n_blocks; i++)
        values[i] = half_f16_to_f32(in[i]);
}

void quant_decode_bf16(const void *blocks, size_t n_blocks, float *values)
{
    const uint16_t *in = blocks;
    for (size_t i = 0; i < n_blocks; i++)
        values[i] = half_bf16_to_f32(in[i]);
}
