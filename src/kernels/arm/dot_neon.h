/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dot_neon.h - products of 8-bit codes with NEON (ARMv8.0).
 *
 * SMULL and SMLAL multiply to 16 bits, SADALP adds pairs to 32 bits. Two products of |w| <= 128 and
 * |x| <= 127 fit in 16 bits: 2 * 128 * 127 = 32,512. So do four products of |w| <= 64.
 */
#ifndef MOTE_KERNELS_ARM_DOT_NEON_H
#define MOTE_KERNELS_ARM_DOT_NEON_H

#include <arm_neon.h>
#include <stdbool.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* acc + products of 16 columns, as four partial sums. */
ALWAYS_INLINE int32x4_t dot_16(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    int16x8_t pairs = vmull_s8(vget_low_s8(w), vget_low_s8(x));
    pairs = vmlal_high_s8(pairs, w, x);
    return vpadalq_s16(acc, pairs);
}

/* acc + products of 32 columns. `narrow`: |w| <= 64. */
ALWAYS_INLINE int32x4_t dot_32(int32x4_t acc, int8x16_t w0, int8x16_t w1, int8x16_t x0,
                               int8x16_t x1, const bool narrow)
{
    if (!narrow)
        return dot_16(dot_16(acc, w0, x0), w1, x1);
    int16x8_t pairs = vmull_s8(vget_low_s8(w0), vget_low_s8(x0));
    pairs = vmlal_high_s8(pairs, w0, x0);
    pairs = vmlal_s8(pairs, vget_low_s8(w1), vget_low_s8(x1));
    pairs = vmlal_high_s8(pairs, w1, x1);
    return vpadalq_s16(acc, pairs);
}

#endif
