/* SPDX-License-Identifier: Apache-2.0 */
/* encode_q8_0.c - floats to Q8_0 blocks, byte for byte as other writers make them. */
#include "quant/encode_q8_0.h"
#include "quant/blocks.h"
#include "quant/half.h"

/* Half away from zero. Anything past the range, NaN too, becomes the edge of it. */
static int8_t round_to_code(float scaled)
{
    const float magnitude = scaled < 0.0f ? -scaled : scaled;
    int code = 127;
    if (magnitude < 127.0f) {
        code = (int)magnitude;
        if (magnitude - (float)code >= 0.5f)
            code++;
    }
    return (int8_t)(scaled < 0.0f ? -code : code);
}

void quant_encode_q8_0(const float *values, size_t n_blocks, void *blocks)
{
    quant_q8_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        float amax = 0.0f;
        for (int j = 0; j < QUANT_BLOCK; j++) {
            const float magnitude = values[j] < 0.0f ? -values[j] : values[j];
            if (magnitude > amax)
                amax = magnitude;
        }
        const float d = amax / 127.0f;
        const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
        block->d = half_f32_to_f16(d);
        for (int j = 0; j < QUANT_BLOCK; j++)
            block->qs[j] = round_to_code(values[j] * inverse);
    }
}
