/* SPDX-License-Identifier: Apache-2.0 */
/* encode.c - plain formats and formats with blocks of 32 values; see encode.h. */
#include "convert/encode.h"

#include "base/cpu.h"
#include "convert/encode_books.h"
#include "quant/blocks.h"
#include "quant/half.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void encode_f32(const float *values, const float *weights, size_t n, void *out)
{
    (void)weights;
    memcpy(out, values, n * sizeof *values);
}

static void encode_f16(const float *values, const float *weights, size_t n, void *out)
{
    (void)weights;
    uint16_t *halves = out;
    for (size_t i = 0; i < n; i++)
        halves[i] = half_f32_to_f16(values[i]);
}

static void encode_bf16(const float *values, const float *weights, size_t n, void *out)
{
    (void)weights;
    uint16_t *halves = out;
    for (size_t i = 0; i < n; i++)
        halves[i] = half_f32_to_bf16(values[i]);
}

/* The first value with the largest magnitude. */
static float block_extreme(const float *values)
{
    float largest = 0, extreme = 0;
    for (int i = 0; i < QUANT_BLOCK; i++) {
        const float magnitude = values[i] < 0 ? -values[i] : values[i];
        if (largest < magnitude) {
            largest = magnitude;
            extreme = values[i];
        }
    }
    return extreme;
}

static void block_range(const float *values, float *low, float *high)
{
    *low = FLT_MAX;
    *high = -FLT_MAX;
    for (int i = 0; i < QUANT_BLOCK; i++) {
        *low = values[i] < *low ? values[i] : *low;
        *high = values[i] > *high ? values[i] : *high;
    }
}

static float inverse_of(float d)
{
    return d != 0 ? 1.0f / d : 0.0f;
}

/* A code above 0, rounded by truncation after 0.5 was added. Without a finite inverse of the scale,
 * which only subnormal values have, the code is 0: what x86 makes of infinity and NaN. */
static uint8_t code_of(float shifted, int largest)
{
    const int8_t code = fabsf(shifted) < 0x1p31f ? (int8_t)(int32_t)shifted : 0;
    return (uint8_t)(code < largest ? code : largest);
}

/* Codes of 4 bits: (value - low) * inverse + offset. */
static void pack_nibbles(uint8_t qs[16], const float *values, float low, float inverse,
                         float offset)
{
    for (int j = 0; j < QUANT_BLOCK / 2; j++) {
        const uint8_t a = code_of((values[j] - low) * inverse + offset, 15);
        const uint8_t b = code_of((values[j + QUANT_BLOCK / 2] - low) * inverse + offset, 15);
        qs[j] = (uint8_t)(a | b << 4);
    }
}

/* Codes of 5 bits: the fifth ones are in qh. */
static void pack_fives(uint8_t qs[16], uint8_t qh[4], const float *values, float low, float inverse,
                       float offset)
{
    uint32_t high = 0;
    for (int j = 0; j < QUANT_BLOCK / 2; j++) {
        const uint8_t a = code_of((values[j] - low) * inverse + offset, 31);
        const uint8_t b = code_of((values[j + QUANT_BLOCK / 2] - low) * inverse + offset, 31);
        qs[j] = (uint8_t)((a & 15) | (b & 15) << 4);
        high |= (uint32_t)(a >> 4) << j | (uint32_t)(b >> 4) << (j + QUANT_BLOCK / 2);
    }
    memcpy(qh, &high, sizeof high);
}

static void encode_q4_0(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_q4_0 *block = blocks;
    if (weights != NULL) {
        encode_weighted_q4_0(values, weights, n_blocks, blocks);
        return;
    }
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = block_extreme(values) / -8;
        block->d = half_f32_to_f16(d);
        pack_nibbles(block->qs, values, 0, inverse_of(d), 8.5f);
    }
}

static void encode_q4_1(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_q4_1 *block = blocks;
    if (weights != NULL) {
        encode_weighted_q4_1(values, weights, n_blocks, blocks);
        return;
    }
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        float low, high;
        block_range(values, &low, &high);
        const float d = (high - low) / 15;
        block->d = half_f32_to_f16(d);
        block->m = half_f32_to_f16(low);
        pack_nibbles(block->qs, values, low, inverse_of(d), 0.5f);
    }
}

static void encode_q5_0(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_q5_0 *block = blocks;
    if (weights != NULL) {
        encode_weighted_q5_0(values, weights, n_blocks, blocks);
        return;
    }
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = block_extreme(values) / -16;
        block->d = half_f32_to_f16(d);
        pack_fives(block->qs, block->qh, values, 0, inverse_of(d), 16.5f);
    }
}

static void encode_q5_1(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_q5_1 *block = blocks;
    if (weights != NULL) {
        encode_weighted_q5_1(values, weights, n_blocks, blocks);
        return;
    }
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        float low, high;
        block_range(values, &low, &high);
        const float d = (high - low) / 31;
        block->d = half_f32_to_f16(d);
        block->m = half_f32_to_f16(low);
        pack_fives(block->qs, block->qh, values, low, inverse_of(d), 0.5f);
    }
}

static void encode_q8_0(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    (void)weights;
    quant_q8_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = fabsf(block_extreme(values)) / 127.0f;
        if (isinf(inverse_of(d)))
            *block = (quant_q8_0){.d = half_f32_to_f16(d)};
        else
            quant_encode_q8_0(values, 1, block);
    }
}

static const encode_k_set *k_set(mote_isa level)
{
#if defined(__x86_64__)
    if (cpu_level_contains(level, MOTE_ISA_AVX512))
        return &encode_k_avx512;
    if (cpu_level_contains(level, MOTE_ISA_AVX2))
        return &encode_k_avx2;
#endif
    (void)level;
    return &encode_k_baseline;
}

static const encode_iq4_set *iq4_set(mote_isa level)
{
#if defined(__x86_64__)
    if (cpu_level_contains(level, MOTE_ISA_AVX512))
        return &encode_iq4_avx512;
    if (cpu_level_contains(level, MOTE_ISA_AVX2))
        return &encode_iq4_avx2;
#endif
    (void)level;
    return &encode_iq4_baseline;
}

static encode_fn *with_book(encode_fn *encode, encode_book_id book)
{
    encode_book_get(book);
    return encode;
}

encode_fn *encode_find(quant_format format, mote_isa level)
{
    switch (format) {
    case QUANT_F32: return encode_f32;
    case QUANT_F16: return encode_f16;
    case QUANT_BF16: return encode_bf16;
    case QUANT_Q4_0: return encode_q4_0;
    case QUANT_Q4_1: return encode_q4_1;
    case QUANT_Q5_0: return encode_q5_0;
    case QUANT_Q5_1: return encode_q5_1;
    case QUANT_Q8_0: return encode_q8_0;
    case QUANT_Q2_K: return k_set(level)->q2_k;
    case QUANT_Q3_K: return k_set(level)->q3_k;
    case QUANT_Q4_K: return k_set(level)->q4_k;
    case QUANT_Q5_K: return k_set(level)->q5_k;
    case QUANT_Q6_K: return k_set(level)->q6_k;
    case QUANT_IQ4_NL: return iq4_set(level)->iq4_nl;
    case QUANT_IQ4_XS: return iq4_set(level)->iq4_xs;
    case QUANT_IQ2_XXS: return with_book(encode_iq2_xxs, BOOK_IQ2_XXS);
    case QUANT_IQ2_XS: return with_book(encode_iq2_xs, BOOK_IQ2_XS);
    case QUANT_IQ2_S: return with_book(encode_iq2_s, BOOK_IQ2_S);
    case QUANT_IQ3_XXS: return with_book(encode_iq3_xxs, BOOK_IQ3_XXS);
    case QUANT_IQ3_S: return with_book(encode_iq3_s, BOOK_IQ3_S);
    case QUANT_IQ1_S: return with_book(encode_iq1_s, BOOK_IQ1);
    case QUANT_IQ1_M: return with_book(encode_iq1_m, BOOK_IQ1);
    default: return NULL;
    }
}
