/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpack_32.h - one block of 32 values to 8-bit codes in registers, NEON.
 *
 * Codes may be scaled by a power of two, as in gemm_unpack_256.h: Q4_0 has 16 (q - 8).
 */
#ifndef MOTE_KERNELS_ARM_GEMM_UNPACK_32_H
#define MOTE_KERNELS_ARM_GEMM_UNPACK_32_H

#include "kernels/arm/gemm_unpack_256.h"

/* q[i]: columns 16 i .. 16 i + 15. */
typedef void codes_32_fn(const uint8_t *block, int8x16_t q[2]);

/* Properties of a format; compile-time constants after inlining. */
typedef struct format_32 {
    codes_32_fn *codes;
    size_t bytes;
    int fraction;
    bool has_m;  /* an f16 m follows d */
    bool narrow; /* |code| <= 64 */
} format_32;

UNPACK void codes_q4_0(const uint8_t *block, int8x16_t q[2])
{
    const uint8x16_t v = veorq_u8(vld1q_u8(block + offsetof(quant_q4_0, qs)), vdupq_n_u8(0x88));
    q[0] = as_codes(vshlq_n_u8(v, 4));
    q[1] = as_codes(vandq_u8(v, vdupq_n_u8(0xF0)));
}

UNPACK void codes_q4_1(const uint8_t *block, int8x16_t q[2])
{
    const uint8x16_t v = vld1q_u8(block + offsetof(quant_q4_1, qs));
    q[0] = as_codes(vandq_u8(v, vdupq_n_u8(15)));
    q[1] = as_codes(vshrq_n_u8(v, 4));
}

/* A byte of ones for each set bit of four bytes, bits 0 .. 15 and 16 .. 31. */
UNPACK void spread_bits(uint32_t bits, uint8x16_t out[2])
{
    const uint8x16_t each = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201));
    const uint8x16_t four = vreinterpretq_u8_u32(vdupq_n_u32(bits));
    const uint8x16_t first = vcombine_u8(vdup_laneq_u8(four, 0), vdup_laneq_u8(four, 1));
    const uint8x16_t second = vcombine_u8(vdup_laneq_u8(four, 2), vdup_laneq_u8(four, 3));
    out[0] = vtstq_u8(first, each);
    out[1] = vtstq_u8(second, each);
}

/* The code is the nibble, with the upper four bits set where the fifth bit is clear. */
UNPACK void codes_q5_0(const uint8_t *block, int8x16_t q[2])
{
    const uint8x16_t v = vld1q_u8(block + offsetof(quant_q5_0, qs));
    uint32_t qh;
    uint8x16_t clear[2];
    memcpy(&qh, block + offsetof(quant_q5_0, qh), sizeof qh);
    spread_bits(~qh, clear);
    q[0] = as_codes(vsliq_n_u8(v, clear[0], 4));
    q[1] = as_codes(vsliq_n_u8(vshrq_n_u8(v, 4), clear[1], 4));
}

UNPACK void codes_q5_1(const uint8_t *block, int8x16_t q[2])
{
    const uint8x16_t v = vld1q_u8(block + offsetof(quant_q5_1, qs)), fifth = vdupq_n_u8(16);
    uint32_t qh;
    uint8x16_t set[2];
    memcpy(&qh, block + offsetof(quant_q5_1, qh), sizeof qh);
    spread_bits(qh, set);
    q[0] = as_codes(vbslq_u8(fifth, set[0], vandq_u8(v, vdupq_n_u8(15))));
    q[1] = as_codes(vbslq_u8(fifth, set[1], vshrq_n_u8(v, 4)));
}

UNPACK void codes_q8_0(const uint8_t *block, int8x16_t q[2])
{
    q[0] = vld1q_s8((const int8_t *)block + offsetof(quant_q8_0, qs));
    q[1] = vld1q_s8((const int8_t *)block + offsetof(quant_q8_0, qs) + 16);
}

UNPACK void codes_iq4_nl(const uint8_t *block, int8x16_t q[2])
{
    const int8x16_t values = vld1q_s8(quant_iq4_values);
    const uint8x16_t v = vld1q_u8(block + offsetof(quant_iq4_nl, qs));
    q[0] = vqtbl1q_s8(values, vandq_u8(v, vdupq_n_u8(15)));
    q[1] = vqtbl1q_s8(values, vshrq_n_u8(v, 4));
}

static const format_32 format_q4_0 = {codes_q4_0, sizeof(quant_q4_0), 4, false, false};
static const format_32 format_q4_1 = {codes_q4_1, sizeof(quant_q4_1), 0, true, true};
static const format_32 format_q5_0 = {codes_q5_0, sizeof(quant_q5_0), 0, false, true};
static const format_32 format_q5_1 = {codes_q5_1, sizeof(quant_q5_1), 0, true, true};
static const format_32 format_q8_0 = {codes_q8_0, sizeof(quant_q8_0), 0, false, false};
static const format_32 format_iq4_nl = {codes_iq4_nl, sizeof(quant_iq4_nl), 0, false, false};

#endif
