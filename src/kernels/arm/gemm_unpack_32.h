/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpack_32.h - one block of 32 values to 8-bit codes in registers, NEON.
 *
 * A block is read with a pointer that advances: the f16 d, the f16 m of some formats, then the codes.
 * Q4_0 and Q5_0 have unsigned codes and a bias that is subtracted, from the codes or from their sum.
 */
#ifndef MOTE_KERNELS_ARM_GEMM_UNPACK_32_H
#define MOTE_KERNELS_ARM_GEMM_UNPACK_32_H

#include "kernels/arm/gemm_unpack_256.h"
#include "kernels/arm/take.h"

/* q[i]: columns 16 i .. 16 i + 15. *at: the codes of the block, then the next block. */
typedef void codes_32_fn(const uint8_t **at, int8x16_t q[2]);

/* Properties of a format; compile-time constants after inlining. */
typedef struct format_32 {
    codes_32_fn *codes;
    int bias;    /* of the codes */
    bool has_m;  /* an f16 m follows d */
    bool narrow; /* |code| <= 64 */
} format_32;

/* ---- codes ---- */

UNPACK void codes_nibbles(const uint8_t **at, int8x16_t q[2])
{
    const uint8x16_t v = take_16(at);
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

/* Nibbles, and four bytes of fifth bits before them. */
UNPACK void codes_fifth(const uint8_t **at, int8x16_t q[2])
{
    const uint8x16_t fifth = vdupq_n_u8(16);
    uint32_t qh;
    uint8x16_t set[2];
    memcpy(&qh, *at, sizeof qh);
    *at += sizeof qh;
    spread_bits(qh, set);
    const uint8x16_t v = take_16(at);
    q[0] = as_codes(vbslq_u8(fifth, set[0], vandq_u8(v, vdupq_n_u8(15))));
    q[1] = as_codes(vbslq_u8(fifth, set[1], vshrq_n_u8(v, 4)));
}

UNPACK void codes_q8_0(const uint8_t **at, int8x16_t q[2])
{
    const int8_t *codes = (const int8_t *)*at;
    take_32(&codes, q);
    *at = (const uint8_t *)codes;
}

UNPACK void codes_iq4_nl(const uint8_t **at, int8x16_t q[2])
{
    const int8x16_t values = vld1q_s8(quant_iq4_values);
    const uint8x16_t v = take_16(at);
    q[0] = vqtbl1q_s8(values, vandq_u8(v, vdupq_n_u8(15)));
    q[1] = vqtbl1q_s8(values, vshrq_n_u8(v, 4));
}

static const format_32 format_q4_0 = {codes_nibbles, 8, false, true};
static const format_32 format_q4_1 = {codes_nibbles, 0, true, true};
static const format_32 format_q5_0 = {codes_fifth, 16, false, true};
static const format_32 format_q5_1 = {codes_fifth, 0, true, true};
static const format_32 format_q8_0 = {codes_q8_0, 0, false, false};
static const format_32 format_iq4_nl = {codes_iq4_nl, 0, false, false};

/* The block at *at with the bias subtracted from its codes. d: the f16 d in all lanes; m likewise. */
typedef struct block_32 {
    int8x16_t q[2];
    float32x4_t d, m;
} block_32;

UNPACK block_32 take_block(const format_32 *f, const uint8_t **at)
{
    block_32 b;
    b.d = b.m = take_half(at);
    if (f->has_m)
        b.m = take_half(at);
    f->codes(at, b.q);
    if (f->bias != 0) {
        const int8x16_t bias = vdupq_n_s8((int8_t)f->bias);
        b.q[0] = vsubq_s8(b.q[0], bias);
        b.q[1] = vsubq_s8(b.q[1], bias);
    }
    return b;
}

#endif
