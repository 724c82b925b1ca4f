/* SPDX-License-Identifier: Apache-2.0 */
/* dot_dotprod.h - products of 8-bit codes with SDOT. Same functions as dot_neon.h. */
#ifndef MOTE_KERNELS_ARM_DOT_DOTPROD_H
#define MOTE_KERNELS_ARM_DOT_DOTPROD_H

#include <arm_neon.h>
#include <stdbool.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE int32x4_t dot_16(int32x4_t acc, int8x16_t w, int8x16_t x)
{
    return vdotq_s32(acc, w, x);
}

ALWAYS_INLINE int32x4_t dot_32(int32x4_t acc, int8x16_t w0, int8x16_t w1, int8x16_t x0,
                               int8x16_t x1, const bool narrow)
{
    (void)narrow;
    return vdotq_s32(vdotq_s32(acc, w0, x0), w1, x1);
}

#endif
