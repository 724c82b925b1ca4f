/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gemm_unpack_256.h - one superblock of one row to 8-bit codes in registers, NEON.
 *
 * A format may scale its codes by a power of two, so that the sign needs no subtraction: the bits of
 * the code go to the top of a byte, with the highest one flipped. The conversion of the sum to float
 * divides by that power (SCVTF with fraction bits). The sum is a multiple of it, so this is exact.
 *
 *     format   bytes               |byte|   divided by
 *     Q2_K     q                        3       1
 *     Q3_K     32 (q - 4)             128      32
 *     Q4_K     q                       15       1
 *     Q5_K     q                       31       1
 *     Q6_K     4 (q - 32)             128       4
 *     IQ4_XS   value                  127       1
 *     i8_256   q                      128       1
 *
 * The bounds of gemm_256_ref.c times that power are below 2^31: Q6_K has 4 * 133,169,152.
 */
#ifndef MOTE_KERNELS_ARM_GEMM_UNPACK_256_H
#define MOTE_KERNELS_ARM_GEMM_UNPACK_256_H

#include "quant/unpack.h"

#include <arm_neon.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define UNPACK static inline __attribute__((always_inline))
/* Unrolled loop over registers. Not unrolled, its arrays would be in memory. */
#ifdef __clang__
#define EACH(i, n) _Pragma("unroll") for (int i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC unroll 16") for (int i = 0; i < (n); i++)
#endif

/* Scales and minima of a superblock. Formats with 8 groups use the first vector only. */
typedef struct head_256 {
    int16x8_t scale[2];
    int16x8_t min[2];
} head_256;

/* One half of a superblock, 0 or 1. q[i]: columns 16 i .. 16 i + 15 of the half. */
typedef void codes_256_fn(const uint8_t *block, const int half, int8x16_t q[8]);
typedef void head_256_fn(const uint8_t *block, head_256 *out);

/* Properties of a format; compile-time constants after inlining. */
typedef struct format_256 {
    codes_256_fn *codes;
    head_256_fn *head;
    size_t bytes;   /* per superblock */
    size_t d_at;    /* offset of d, an f16; an f32 in quant_i8_256 */
    size_t dmin_at; /* offset of the f16 dmin, if has_min */
    int groups;     /* scales per superblock: 8 or 16 */
    int fraction;   /* codes are scaled by 2^fraction */
    bool has_min;
    bool narrow; /* |code| <= 64 */
    bool d_is_f32;
} format_256;

/* ---- codes ---- */

UNPACK int8x16_t as_codes(uint8x16_t v)
{
    return vreinterpretq_s8_u8(v);
}

/* v << n, or v >> -n. */
UNPACK uint8x16_t shift_bytes(uint8x16_t v, const int n)
{
    return n >= 0 ? v << n : v >> -n;
}

UNPACK void codes_q2_k(const uint8_t *block, const int half, int8x16_t q[8])
{
    const uint8_t *qs = block + offsetof(quant_q2_k, qs) + 32 * half;
    const uint8x16_t three = vdupq_n_u8(3);
    EACH(i, 2)
    {
        const uint8x16_t v = vld1q_u8(qs + 16 * i);
        q[i] = as_codes(vandq_u8(v, three));
        q[i + 2] = as_codes(vandq_u8(vshrq_n_u8(v, 2), three));
        q[i + 4] = as_codes(vandq_u8(vshrq_n_u8(v, 4), three));
        q[i + 6] = as_codes(vshrq_n_u8(v, 6));
    }
}

/* Bit 7: the high bit, flipped. Bits 6 and 5: the code. */
#define CODE_Q3_K(shift_high, shift_low)                                                           \
    as_codes(vsriq_n_u8(shift_bytes(high, shift_high),                                             \
                        vandq_u8(shift_bytes(v, shift_low), vdupq_n_u8(0xC0)), 1))

UNPACK void codes_q3_k(const uint8_t *block, const int half, int8x16_t q[8])
{
    const uint8_t *qs = block + offsetof(quant_q3_k, qs) + 32 * half;
    const uint8_t *hmask = block + offsetof(quant_q3_k, hmask);
    EACH(i, 2)
    {
        const uint8x16_t v = vld1q_u8(qs + 16 * i);
        const uint8x16_t high = vmvnq_u8(vld1q_u8(hmask + 16 * i));
        EACH(p, 4)
        {
            q[i + 2 * p] = CODE_Q3_K(7 - (half * 4 + p), 6 - 2 * p);
        }
    }
}

UNPACK void codes_q4_k(const uint8_t *block, const int half, int8x16_t q[8])
{
    const uint8_t *qs = block + offsetof(quant_q4_k, qs) + 64 * half;
    EACH(i, 4)
    {
        const uint8x16_t v = vld1q_u8(qs + 16 * i);
        int8x16_t *to = q + i / 2 * 4 + i % 2;
        to[0] = as_codes(vandq_u8(v, vdupq_n_u8(15)));
        to[2] = as_codes(vshrq_n_u8(v, 4));
    }
}

UNPACK void codes_q5_k(const uint8_t *block, const int half, int8x16_t q[8])
{
    const uint8_t *qs = block + offsetof(quant_q5_k, qs) + 64 * half;
    const uint8_t *qh = block + offsetof(quant_q5_k, qh);
    const uint8x16_t fifth = vdupq_n_u8(16);
    EACH(i, 4)
    {
        const uint8x16_t v = vld1q_u8(qs + 16 * i), high = vld1q_u8(qh + 16 * (i % 2));
        int8x16_t *to = q + i / 2 * 4 + i % 2;
        const int group = half * 4 + i / 2 * 2;
        to[0] =
            as_codes(vbslq_u8(fifth, shift_bytes(high, 4 - group), vandq_u8(v, vdupq_n_u8(15))));
        to[2] = as_codes(vbslq_u8(fifth, shift_bytes(high, 3 - group), vshrq_n_u8(v, 4)));
    }
}

/* Bits 7 and 6: the high two bits, the first flipped. Bits 5 to 2: the nibble. */
UNPACK void codes_q6_k(const uint8_t *block, const int half, int8x16_t q[8])
{
    const uint8x16_t upper = vdupq_n_u8(0xF0);
    EACH(i, 2) /* 16 columns of each quarter of the half */
    {
        const uint8_t *ql = block + offsetof(quant_q6_k, ql) + half * 64 + i * 16;
        const uint8_t *qh = block + offsetof(quant_q6_k, qh) + half * 32 + i * 16;
        const uint8x16_t a = vld1q_u8(ql), b = vld1q_u8(ql + 32);
        const uint8x16_t high = veorq_u8(vld1q_u8(qh), vdupq_n_u8(0xAA));
        q[i] = as_codes(vsriq_n_u8(vshlq_n_u8(high, 6), vshlq_n_u8(a, 4), 2));
        q[i + 2] = as_codes(vsriq_n_u8(vshlq_n_u8(high, 4), vshlq_n_u8(b, 4), 2));
        q[i + 4] = as_codes(vsriq_n_u8(vshlq_n_u8(high, 2), vandq_u8(a, upper), 2));
        q[i + 6] = as_codes(vsriq_n_u8(high, vandq_u8(b, upper), 2));
    }
}

UNPACK void codes_iq4_xs(const uint8_t *block, const int half, int8x16_t q[8])
{
    const int8x16_t values = vld1q_s8(quant_iq4_values);
    EACH(i, 4)
    {
        const uint8x16_t v = vld1q_u8(block + offsetof(quant_iq4_xs, qs) + 64 * half + 16 * i);
        q[2 * i] = vqtbl1q_s8(values, vandq_u8(v, vdupq_n_u8(15)));
        q[2 * i + 1] = vqtbl1q_s8(values, vshrq_n_u8(v, 4));
    }
}

UNPACK void codes_i8_256(const uint8_t *block, const int half, int8x16_t q[8])
{
    EACH(i, 8)
    q[i] = vld1q_s8((const int8_t *)block + 128 * half + 16 * i);
}

/* ---- heads ---- */

UNPACK int16x8_t widen_u8(uint8x8_t v)
{
    return vreinterpretq_s16_u16(vmovl_u8(v));
}

UNPACK void head_q2_k(const uint8_t *block, head_256 *out)
{
    const uint8x16_t v = vld1q_u8(block + offsetof(quant_q2_k, scales));
    const uint8x16_t scale = vandq_u8(v, vdupq_n_u8(15)), min = vshrq_n_u8(v, 4);
    out->scale[0] = widen_u8(vget_low_u8(scale));
    out->scale[1] = widen_u8(vget_high_u8(scale));
    out->min[0] = widen_u8(vget_low_u8(min));
    out->min[1] = widen_u8(vget_high_u8(min));
}

/* Low four bits: the nibbles of 8 bytes. High two bits: four bytes, shifted by 0, 2, 4, 6. */
UNPACK void head_q3_k(const uint8_t *block, head_256 *out)
{
    static const int8_t shift[16] = {0, 0, 0, 0, -2, -2, -2, -2, -4, -4, -4, -4, -6, -6, -6, -6};
    const uint8_t *scales = block + offsetof(quant_q3_k, scales);
    uint32_t last;
    memcpy(&last, scales + 8, sizeof last);
    const uint8x8_t v = vld1_u8(scales);
    const uint8x16_t low = vcombine_u8(vand_u8(v, vdup_n_u8(15)), vshr_n_u8(v, 4));
    const uint8x16_t two = vshlq_u8(vreinterpretq_u8_u32(vdupq_n_u32(last)), vld1q_s8(shift));
    const uint8x16_t six = vsliq_n_u8(low, vandq_u8(two, vdupq_n_u8(3)), 4);
    const int8x16_t scale = vsubq_s8(as_codes(six), vdupq_n_s8(32));
    out->scale[0] = vmovl_s8(vget_low_s8(scale));
    out->scale[1] = vmovl_s8(vget_high_s8(scale));
}

/* Of Q4_K and Q5_K. The first 16 bytes are d, dmin and three dwords a, b, c. Scales and minima 0 to
 * 3 are the low six bits of a and b. Scales and minima 4 to 7 are the low and high nibbles of c,
 * with the high two bits of a and b above them. */
UNPACK void head_q4_k(const uint8_t *block, head_256 *out)
{
    static const int8_t shift[8] = {0, 0, 0, 0, -4, -4, -4, -4};
    const uint8x16_t v = vld1q_u8(block);
    const uint8x8_t ab = vget_low_u8(vextq_u8(v, v, 4));
    const uint8x8_t c = vreinterpret_u8_u32(vdup_laneq_u32(vreinterpretq_u32_u8(v), 3));
    const uint8x8_t nibbles = vshl_u8(c, vld1_s8(shift));
    const uint8x8_t low = vand_u8(ab, vdup_n_u8(63));
    const uint8x8_t high = vbsl_u8(vdup_n_u8(15), nibbles, vshr_n_u8(ab, 2));
    const uint32x2_t low2 = vreinterpret_u32_u8(low), high2 = vreinterpret_u32_u8(high);
    out->scale[0] = widen_u8(vreinterpret_u8_u32(vtrn1_u32(low2, high2)));
    out->min[0] = widen_u8(vreinterpret_u8_u32(vtrn2_u32(low2, high2)));
}

UNPACK void head_q6_k(const uint8_t *block, head_256 *out)
{
    const int8x16_t scale = vld1q_s8((const int8_t *)block + offsetof(quant_q6_k, scales));
    out->scale[0] = vmovl_s8(vget_low_s8(scale));
    out->scale[1] = vmovl_s8(vget_high_s8(scale));
}

/* Scale i: nibble i of scales_l, two bits i of scales_h. Each lane shifts a copy. */
UNPACK void head_iq4_xs(const uint8_t *block, head_256 *out)
{
    static const int16_t two_bits[8] = {4, 2, 0, -2, -4, -6, -8, -10};
    uint16_t scales_h;
    uint32_t scales_l;
    memcpy(&scales_h, block + offsetof(quant_iq4_xs, scales_h), sizeof scales_h);
    memcpy(&scales_l, block + offsetof(quant_iq4_xs, scales_l), sizeof scales_l);
    const uint8x8_t bytes = vreinterpret_u8_u32(vdup_n_u32(scales_l));
    const uint8x8_t even = vand_u8(bytes, vdup_n_u8(15)), odd = vshr_n_u8(bytes, 4);
    const uint16x8_t low = vmovl_u8(vzip1_u8(even, odd));
    const uint16x8_t high = vshlq_u16(vdupq_n_u16(scales_h), vld1q_s16(two_bits));
    const uint16x8_t six = vorrq_u16(low, vandq_u16(high, vdupq_n_u16(48)));
    out->scale[0] = vsubq_s16(vreinterpretq_s16_u16(six), vdupq_n_s16(32));
}

UNPACK void head_i8_256(const uint8_t *block, head_256 *out)
{
    const int8x16_t scale = vld1q_s8((const int8_t *)block + offsetof(quant_i8_256, scale));
    out->scale[0] = vmovl_s8(vget_low_s8(scale));
    out->scale[1] = vmovl_s8(vget_high_s8(scale));
}

/* ---- formats ---- */

#define FORMAT_256(f, head_fn, n_groups, fraction_bits, min_at, is_narrow)                         \
    static const format_256 format_##f = {                                                         \
        codes_##f, head_fn,  sizeof(quant_##f), offsetof(quant_##f, d),                            \
        min_at,    n_groups, fraction_bits,     min_at != 0,                                       \
        is_narrow, false}
FORMAT_256(q2_k, head_q2_k, 16, 0, offsetof(quant_q2_k, dmin), true);
FORMAT_256(q3_k, head_q3_k, 16, 5, 0, false);
FORMAT_256(q4_k, head_q4_k, 8, 0, offsetof(quant_q4_k, dmin), true);
FORMAT_256(q5_k, head_q4_k, 8, 0, offsetof(quant_q5_k, dmin), true);
FORMAT_256(q6_k, head_q6_k, 16, 2, 0, false);
FORMAT_256(iq4_xs, head_iq4_xs, 8, 0, 0, false);
static const format_256 format_i8_256 = {.codes = codes_i8_256,
                                         .head = head_i8_256,
                                         .bytes = sizeof(quant_i8_256),
                                         .d_at = offsetof(quant_i8_256, d),
                                         .groups = 16,
                                         .d_is_f32 = true};

#endif
