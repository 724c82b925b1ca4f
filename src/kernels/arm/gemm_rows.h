/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_rows.h - common parts of the row kernels: reduction of sums, f16 fields, stores. NEON. */
#ifndef MOTE_KERNELS_ARM_GEMM_ROWS_H
#define MOTE_KERNELS_ARM_GEMM_ROWS_H

#include "kernels/kernels.h"

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

#define ROW_INLINE static inline __attribute__((always_inline))

/* The values are computed here. gcc would move the next product before the last multiplication by a
 * scale, which needs a copy of the running sum, and unpack codes long before their use. */
#define IN_ORDER(a, b) __asm__ volatile("" : "+w"(a), "+w"(b))

enum {
    ROWS_TOKENS = 8,          /* tokens at a time */
    ROWS_L2_BYTES = 128 << 10 /* weights that stay in L2 while many tokens use them */
};

/* Lane i: the sum of the lanes of v[i]. */
ROW_INLINE int32x4_t reduce_4(const int32x4_t v[4])
{
    return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}

/* (float)(sum / 2^fraction), rounded once. */
ROW_INLINE float32x4_t sum_to_float(int32x4_t sum, const int fraction)
{
    switch (fraction) {
    case 2: return vcvtq_n_f32_s32(sum, 2);
    case 5: return vcvtq_n_f32_s32(sum, 5);
    default: return vcvtq_f32_s32(sum);
    }
}

/* The f16 at offset `at` of four blocks, as f32. */
ROW_INLINE float32x4_t load_4_halves(const uint8_t *const block[4], size_t at)
{
    uint16x4_t v = vld1_dup_u16((const uint16_t *)(block[0] + at));
    v = vld1_lane_u16((const uint16_t *)(block[1] + at), v, 1);
    v = vld1_lane_u16((const uint16_t *)(block[2] + at), v, 2);
    v = vld1_lane_u16((const uint16_t *)(block[3] + at), v, 3);
    return vcvt_f32_f16(vreinterpret_f16_u16(v));
}

/* Rows r .. r+3; the last row is repeated if there are fewer. */
ROW_INLINE void rows_at(const kern_gemm_args *a, size_t r, const uint8_t *row[4])
{
    for (size_t i = 0; i < 4; i++)
        row[i] = (const uint8_t *)a->w + (r + i < a->rows ? r + i : a->rows - 1) * a->row_bytes;
}

/* Rows r .. r+3 of one token. */
ROW_INLINE void store_rows(const kern_gemm_args *a, float32x4_t acc, size_t r)
{
    float y[4];
    if (a->rows - r >= 4) {
        vst1q_f32(a->y + r, acc);
        return;
    }
    vst1q_f32(y, acc);
    for (size_t i = 0; r + i < a->rows; i++)
        a->y[r + i] = y[i];
}

/* The f16 at p in all lanes. */
ROW_INLINE float32x4_t load_half(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_dup_u16((const uint16_t *)p)));
}

/* Row r of n tokens from t on; lane i of the two vectors belongs to token t + i. */
ROW_INLINE void store_tokens(const kern_gemm_args *a, const float32x4_t acc[2], size_t r, size_t t,
                             size_t n)
{
    float y[ROWS_TOKENS];
    vst1q_f32(y, acc[0]);
    vst1q_f32(y + 4, acc[1]);
    for (size_t i = 0; i < n; i++)
        a->y[(t + i) * a->y_stride + r] = y[i];
}

#endif
