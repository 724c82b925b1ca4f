/* SPDX-License-Identifier: Apache-2.0 */
/*
 * take.h - loads that advance a pointer, each one instruction. NEON.
 *
 * gcc uses one more instruction for the pointer, and two for 32 bytes. The statements name no memory:
 * with a memory operand gcc would store the pointers themselves around them. So memory that the
 * kernel writes and then reads with these needs take_after_writes() in between.
 */
#ifndef MOTE_KERNELS_ARM_TAKE_H
#define MOTE_KERNELS_ARM_TAKE_H

#include <arm_neon.h>
#include <stdint.h>

#define TAKE static inline __attribute__((always_inline))

TAKE void take_after_writes(void)
{
    __asm__ volatile("" ::: "memory");
}

TAKE uint8x16_t take_16(const uint8_t **at)
{
    uint8x16_t v;
    __asm__ volatile("ldr %q0, [%1], #16" : "=w"(v), "+r"(*at));
    return v;
}

TAKE void take_32(const int8_t **at, int8x16_t v[2])
{
    __asm__ volatile("ldp %q0, %q1, [%2], #32" : "=w"(v[0]), "=w"(v[1]), "+r"(*at));
}

/* An f16 in all lanes, as f32. */
TAKE float32x4_t take_half(const uint8_t **at)
{
    const uint16x4_t v = vld1_dup_u16((const uint16_t *)*at);
    *at += sizeof(uint16_t);
    return vcvt_f32_f16(vreinterpret_f16_u16(v));
}

/* The next f16 of four blocks, as f32. */
TAKE float32x4_t take_4_halves(const uint8_t *at[4])
{
    uint16x4_t v;
    __asm__ volatile("ldr %h0, [%1], #2" : "=w"(v), "+r"(at[0]));
    __asm__ volatile("ld1 {%0.h}[1], [%1], #2" : "+w"(v), "+r"(at[1]));
    __asm__ volatile("ld1 {%0.h}[2], [%1], #2" : "+w"(v), "+r"(at[2]));
    __asm__ volatile("ld1 {%0.h}[3], [%1], #2" : "+w"(v), "+r"(at[3]));
    return vcvt_f32_f16(vreinterpret_f16_u16(v));
}

#endif
