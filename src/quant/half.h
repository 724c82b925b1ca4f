/* SPDX-License-Identifier: Apache-2.0 */
/*
 * half.h - conversion between f32 and the 16-bit formats f16 and bf16.
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even, keeps subnormals and overflows to
 * infinity. NaN becomes a quiet NaN with truncated payload. The F16C instructions give the same
 * bits, so a kernel may use either.
 */
#ifndef MOTE_QUANT_HALF_H
#define MOTE_QUANT_HALF_H

#include <stdint.h>
#include <string.h>

#define HALF_F16_MAX 65504.0f

static inline uint32_t half_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float half_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float half_f16_to_f32(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 31u;
    const uint32_t mantissa = half & 0x3FFu;
    if (exponent == 0) /* zero and subnormals: a small integer times 2^-24 */
        return half_float_of(sign | half_bits_of((float)mantissa * 0x1p-24f));
    if (exponent == 31) {
        const uint32_t quiet = mantissa != 0 ? 0x400000u : 0;
        return half_float_of(sign | 0x7F800000u | mantissa << 13 | quiet);
    }
    return half_float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t half_f32_to_f16(float value)
{
    const uint32_t bits = half_bits_of(value);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
    if (magnitude >= 0x477FF000u) /* 65520: the largest f16, 65504, plus half a step */
        return (uint16_t)(sign | 0x7C00u);
    if (magnitude < 0x38800000u) {
        /* Below 2^-14 the result is a multiple of 2^-24. After adding 2^23 the sum has no fraction
         * bits, so the addition rounds. */
        const float units = half_float_of(magnitude) * 0x1p24f + 0x1p23f;
        return (uint16_t)(sign | (half_bits_of(units) & 0x7FFu));
    }
    const uint32_t rounded = magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | rounded >> 13);
}

static inline float half_bf16_to_f32(uint16_t half)
{
    return half_float_of((uint32_t)half << 16);
}

static inline uint16_t half_f32_to_bf16(float value)
{
    const uint32_t bits = half_bits_of(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

#endif
