/* SPDX-License-Identifier: Apache-2.0 */
/*
 * act_neon.c - quantises activations to 8 bits.
 *
 * The maximum is a comparison and a selection, as in the reference: FMAXNM would return a NaN for a
 * signalling NaN in memory. A product is never a signalling NaN, so FMINNM clamps it like the
 * reference: a NaN becomes 127. FCVTNS rounds to nearest even.
 */
#include "kernels/variants.h"

#include "kernels/arm/vec_neon.h"
#include "quant/blocks.h"

enum { SUM_256 = 16 }; /* values per entry of `sum`, for blocks of 256 */

static float act_amax(const float *x, size_t n)
{
    vf amax[4] = {vf_zero(), vf_zero(), vf_zero(), vf_zero()};
    for (size_t i = 0; i < n; i += 4 * VF_WIDTH)
        for (int c = 0; c < 4; c++)
            amax[c] = vf_max(vf_abs(vf_load(x + i + c * VF_WIDTH)), amax[c]);
    return vf_reduce_max(vf_max(vf_max(amax[0], amax[1]), vf_max(amax[2], amax[3])));
}

/* Four codes, 32 bits each. */
static inline int32x4_t act_codes(const float *x, vf inv)
{
    vf value = vmulq_f32(vf_load(x), inv);
    value = vminnmq_f32(value, vf_set(127.0f));
    value = vmaxnmq_f32(value, vf_set(-127.0f));
    return vcvtnq_s32_f32(value);
}

/* Stores 16 codes and returns their sum. */
static inline int16_t act_quantise_16(const float *x, vf inv, int8_t *q)
{
    const int16x8_t low =
        vcombine_s16(vmovn_s32(act_codes(x, inv)), vmovn_s32(act_codes(x + 4, inv)));
    const int16x8_t high =
        vcombine_s16(vmovn_s32(act_codes(x + 8, inv)), vmovn_s32(act_codes(x + 12, inv)));
    vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    return vaddvq_s16(vaddq_s16(low, high));
}

/* One block of n values, n a multiple of 32. `sum` has an entry per `group` values. */
static inline float act_quantise_block(const float *x, size_t n, size_t group, int8_t *q,
                                       int16_t *sum)
{
    const float amax = act_amax(x, n);
    if (!(amax > 0.0f)) {
        for (size_t i = 0; i < n; i++)
            q[i] = 0;
        for (size_t i = 0; i < n / group; i++)
            sum[i] = 0;
        return amax / 127.0f;
    }
    const vf inv = vf_set(127.0f / amax);
    for (size_t i = 0; i < n; i += QUANT_BLOCK) {
        const int16_t first = act_quantise_16(x + i, inv, q + i);
        const int16_t second = act_quantise_16(x + i + 16, inv, q + i + 16);
        if (group == QUANT_BLOCK) {
            sum[i / group] = (int16_t)(first + second);
        } else {
            sum[i / group] = first;
            sum[i / group + 1] = second;
        }
    }
    return amax / 127.0f;
}

void k_act_32_neon(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    for (size_t b = 0; b < cols / QUANT_BLOCK; b++)
        d[b] = act_quantise_block(x + b * QUANT_BLOCK, QUANT_BLOCK, QUANT_BLOCK,
                                  q + b * QUANT_BLOCK, sum + b);
}

void k_act_256_neon(const float *x, size_t cols, int8_t *q, float *d, int16_t *sum)
{
    for (size_t b = 0; b < cols / QUANT_SUPERBLOCK; b++)
        d[b] = act_quantise_block(x + b * QUANT_SUPERBLOCK, QUANT_SUPERBLOCK, SUM_256,
                                  q + b * QUANT_SUPERBLOCK, sum + b * QUANT_SUPERBLOCK / SUM_256);
}
