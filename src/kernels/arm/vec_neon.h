/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vec_neon.h - the vector layer with NEON (ARMv8.0): four floats per register.
 *
 * Same functions as x86/vec_avx512.h, which documents them. Only operations with the result of the
 * reference are used. FMAXNM and FMINNM are not: they order +0 above -0 and change signalling NaNs.
 */
#ifndef MOTE_KERNELS_ARM_VEC_NEON_H
#define MOTE_KERNELS_ARM_VEC_NEON_H

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>

typedef float32x4_t vf;

enum {
    VF_WIDTH = 4,
    /* chain_tile: 6 x 4 accumulators, 4 vectors and a broadcast use 29 of 32 registers. */
    TILE_ROWS = 6,
    TILE_VECTORS = 4,
    /* chain_pair (decode): 16 accumulators and 8 vectors. */
    PAIR_VECTORS = 8
};

#define VF_OPAQUE(x) __asm__("" : "+w"(x))

/* Mask of the first n lanes, 0 <= n <= 4. */
static inline uint32x4_t vf_mask_first(size_t n)
{
    static const uint32_t window[8] = {~0u, ~0u, ~0u, ~0u, 0, 0, 0, 0};
    return vld1q_u32(window + 4 - n);
}

static inline vf vf_zero(void)
{
    return vdupq_n_f32(0.0f);
}

static inline vf vf_set(float x)
{
    return vdupq_n_f32(x);
}

static inline vf vf_load(const float *p)
{
    return vld1q_f32(p);
}

static inline vf vf_load_n(const float *p, size_t n)
{
    switch (n) {
    case 0: return vf_zero();
    case 1: return vld1q_lane_f32(p, vf_zero(), 0);
    case 2: return vcombine_f32(vld1_f32(p), vdup_n_f32(0.0f));
    case 3: return vcombine_f32(vld1_f32(p), vld1_lane_f32(p + 2, vdup_n_f32(0.0f), 0));
    default: return vld1q_f32(p);
    }
}

static inline vf vf_load_f16(const uint16_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

/* Four bytes at p are read, not more. */
static inline vf vf_load_i8(const int8_t *p)
{
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}

/* Four bytes at p are read, not more. */
static inline int8x8_t vf_load_4_bytes(const uint8_t *p)
{
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    return vreinterpret_s8_u32(vdup_n_u32(four));
}

static inline vf vf_load_i4_low(const uint8_t *p)
{
    const int8x8_t code = vshr_n_s8(vshl_n_s8(vf_load_4_bytes(p), 4), 4);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(code))));
}

static inline vf vf_load_i4_high(const uint8_t *p)
{
    const int8x8_t code = vshr_n_s8(vf_load_4_bytes(p), 4);
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(code))));
}

static inline void vf_store(float *p, vf x)
{
    vst1q_f32(p, x);
}

static inline void vf_store_n(float *p, size_t n, vf x)
{
    if (n >= 4) {
        vst1q_f32(p, x);
        return;
    }
    if (n >= 2)
        vst1_f32(p, vget_low_f32(x));
    if (n == 3)
        vst1q_lane_f32(p + 2, x, 2);
    if (n == 1)
        vst1q_lane_f32(p, x, 0);
}

static inline void vf_store_bits(uint32_t *p, vf x)
{
    vst1q_u32(p, vreinterpretq_u32_f32(x));
}

static inline void vf_store_8_f16(uint16_t *p, const float *from)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from))));
    vst1_u16(p + 4, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from + 4))));
}

static inline void vf_store_f16(uint16_t *p, vf x)
{
    vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

static inline vf vf_add(vf a, vf b)
{
    return vaddq_f32(a, b);
}

static inline vf vf_sub(vf a, vf b)
{
    return vsubq_f32(a, b);
}

static inline vf vf_mul(vf a, vf b)
{
    return vmulq_f32(a, b);
}

static inline vf vf_div(vf a, vf b)
{
    return vdivq_f32(a, b);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}

static inline vf vf_fnma(vf a, vf b, vf c)
{
    return vfmsq_f32(c, a, b);
}

static inline vf vf_abs(vf x)
{
    return vabsq_f32(x);
}

static inline vf vf_negate(vf x)
{
    return vnegq_f32(x);
}

static inline vf vf_max(vf a, vf b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

static inline vf vf_keep_first(vf x, size_t n, vf other)
{
    return vbslq_f32(vf_mask_first(n), x, other);
}

static inline vf vf_select_less(vf a, vf b, vf yes, vf no)
{
    return vbslq_f32(vcltq_f32(a, b), yes, no);
}

static inline vf vf_select_nan(vf x, vf other)
{
    return vbslq_f32(vceqq_f32(x, x), other, x);
}

static inline vf vf_add_exponent(vf p, vf shifted)
{
    return vreinterpretq_f32_s32(
        vaddq_s32(vreinterpretq_s32_f32(p), vshlq_n_s32(vreinterpretq_s32_f32(shifted), 23)));
}

static inline vf vf_zero_if_less(vf a, vf b, vf x)
{
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), vcltq_f32(a, b)));
}

static inline vf vf_mul_exp2(vf p, vf n, vf shifted)
{
    (void)n;
    const int32x4_t exponent = vshlq_n_s32(vreinterpretq_s32_f32(shifted), 23);
    return vmulq_f32(p, vreinterpretq_f32_s32(vaddq_s32(exponent, vdupq_n_s32(0x3F800000))));
}

static inline __attribute__((always_inline)) vf vf_butterfly(vf x, const int h)
{
    static const uint32_t second_of[2][4] = {{0, ~0u, 0, ~0u}, {0, 0, ~0u, ~0u}};
    const vf other = h == 1 ? vrev64q_f32(x) : vextq_f32(x, x, 2);
    return vbslq_f32(vld1q_u32(second_of[h / 2]), vsubq_f32(other, x), vaddq_f32(x, other));
}

/* The sixteen accumulators of a "lanes" sum. */
typedef struct vlanes {
    vf part[4];
} vlanes;

/* Folds sixteen lanes to four: lane[l] += lane[l + s] for s = 8, 4. */
static inline vf vlanes_fold_to_vector(const vlanes *sums)
{
    return vaddq_f32(vaddq_f32(sums->part[0], sums->part[2]),
                     vaddq_f32(sums->part[1], sums->part[3]));
}

static inline float vlanes_total(const vlanes *sums)
{
    const float32x4_t four = vlanes_fold_to_vector(sums);
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

static inline __attribute__((always_inline)) vf vf_reduce_each(vf v[4], vf (*op)(vf, vf))
{
    vf half[2];
    for (int i = 0; i < 2; i++)
        half[i] = op(vcombine_f32(vget_low_f32(v[i]), vget_low_f32(v[i + 2])),
                     vcombine_f32(vget_high_f32(v[i]), vget_high_f32(v[i + 2])));
    return op(vtrn1q_f32(half[0], half[1]), vtrn2q_f32(half[0], half[1]));
}

static inline float vf_reduce_max(vf x)
{
    const vf two = vf_max(x, vextq_f32(x, x, 2));
    return vgetq_lane_f32(vf_max(two, vextq_f32(two, two, 1)), 0);
}

static inline vf vf_sub_doubles(double a, const double *b)
{
    const float64x2_t from = vdupq_n_f64(a);
    const float32x2_t lo = vcvt_f32_f64(vsubq_f64(from, vld1q_f64(b)));
    return vcvt_high_f32_f64(lo, vsubq_f64(from, vld1q_f64(b + 2)));
}

static inline void vf_transpose_4x4(const float *const row[4], size_t i, float *out, size_t stride)
{
    float32x4_t half[4], v[4];
    for (int r = 0; r < 4; r++)
        v[r] = vld1q_f32(row[r] + i);
    for (int r = 0; r < 2; r++) {
        half[r] = vzip1q_f32(v[r], v[r + 2]);
        half[r + 2] = vzip2q_f32(v[r], v[r + 2]);
    }
    for (size_t c = 0; c < 4; c += 2) {
        vst1q_f32(out + c * stride, vzip1q_f32(half[c], half[c + 1]));
        vst1q_f32(out + (c + 1) * stride, vzip2q_f32(half[c], half[c + 1]));
    }
}

#endif
