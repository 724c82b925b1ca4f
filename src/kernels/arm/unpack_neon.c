/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack_neon.c - the functions of quant/unpack.c for IQ2 and IQ3, NEON.
 *
 * 64 values at a time: eight loads of eight magnitudes each (IQ3: sixteen of four), and a table
 * lookup spreads the 64 sign bits. One token spends most of its time in unpacking.
 */
#include "kernels/book_signs.h"
#include "kernels/gemm_unpacked.h"

#include "quant/grids.h"
#include "quant/half.h"
#include "quant/unpack.h"

#include <arm_neon.h>

enum { PARTS = QUANT_SUPERBLOCK / 64 };

/* Stores 64 values: magnitudes, negated where the bit of `signs` is set. */
BOOK_INLINE void store_signed(int8_t *to, const uint64_t magnitude[8], uint64_t signs)
{
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    static const uint8_t spread[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    const uint8x16_t bits = vld1q_u8(bit), bytes = vreinterpretq_u8_u64(vdupq_n_u64(signs));
    uint8x16_t from = vld1q_u8(spread);
    for (int i = 0; i < 4; i++) {
        const uint8x16_t minus = vtstq_u8(vqtbl1q_u8(bytes, from), bits);
        const uint8x16_t v = vreinterpretq_u8_u64(
            vcombine_u64(vcreate_u64(magnitude[2 * i]), vcreate_u64(magnitude[2 * i + 1])));
        vst1q_u8((uint8_t *)to + 16 * i, vsubq_u8(veorq_u8(v, minus), minus));
        from = vaddq_u8(from, vdupq_n_u8(2));
    }
}

/* The top four bits of two dwords are the scales of two groups of 32. */
BOOK_INLINE void set_scales_32(int8_t scale[4], uint64_t two)
{
    scale[0] = scale[1] = (int8_t)(2 * (two >> 28 & 15) + 1);
    scale[2] = scale[3] = (int8_t)(2 * (two >> 60) + 1);
}

/* Nibbles of scales. */
BOOK_INLINE void set_scales_16(int8_t scale[16], const uint8_t nibbles[8])
{
    const uint8x8_t v = vld1_u8(nibbles), one = vdup_n_u8(1);
    const uint8x8x2_t odd = {{vorr_u8(vshl_n_u8(vand_u8(v, vdup_n_u8(15)), 1), one),
                              vorr_u8(vshl_n_u8(vshr_n_u8(v, 4), 1), one)}};
    vst2_u8((uint8_t *)scale, odd);
}

BOOK_INLINE uint64_t join_4(const uint32_t *grid, size_t low, size_t high)
{
    return grid[low] | (uint64_t)grid[high] << 32;
}

bool k_unpack_iq2_xxs_neon(const void *block, void *to)
{
    const quant_iq2_xxs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    for (int p = 0; p < PARTS; p++) {
        const uint64_t first = load_u64(b->qs + 16 * p), second = load_u64(b->qs + 16 * p + 8);
        const uint64_t signs = first >> 32 | (second >> 32 << 32);
        uint64_t v[8];
        for (int k = 0; k < 4; k++) {
            v[k] = quant_grid_iq2_xxs[first >> (8 * k) & 255];
            v[4 + k] = quant_grid_iq2_xxs[second >> (8 * k) & 255];
        }
        set_scales_32(out->scale + 4 * p, signs);
        store_signed(out->q + 64 * p, v, even_signs(spread_sevens(signs)));
    }
    return true;
}

bool k_unpack_iq2_xs_neon(const void *block, void *to)
{
    const quant_iq2_xs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    set_scales_16(out->scale, b->scales);
    for (int p = 0; p < PARTS; p++) {
        const uint8x8_t sevens = vshrn_n_u16(vld1q_u16(b->qs + 8 * p), 8); /* one bit too many */
        uint64_t v[8];
        for (int k = 0; k < 8; k++)
            v[k] = quant_grid_iq2_xs[b->qs[8 * p + k] & 511];
        store_signed(out->q + 64 * p, v,
                     even_signs(vget_lane_u64(vreinterpret_u64_u8(vshr_n_u8(sevens, 1)), 0)));
    }
    return true;
}

bool k_unpack_iq2_s_neon(const void *block, void *to)
{
    const quant_iq2_s *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    set_scales_16(out->scale, b->scales);
    for (int p = 0; p < PARTS; p++) {
        const uint32_t high = load_u16(b->qh + 2 * p);
        uint64_t v[8];
        for (int k = 0; k < 8; k++)
            v[k] = quant_grid_iq2_s[b->qs[8 * p + k] | (high >> (2 * k) & 3) << 8];
        store_signed(out->q + 64 * p, v, load_u64(b->signs + 8 * p));
    }
    return true;
}

bool k_unpack_iq3_xxs_neon(const void *block, void *to)
{
    const quant_iq3_xxs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.25f;
    for (int p = 0; p < PARTS; p++) {
        const uint64_t signs = load_u64(b->signs + 8 * p);
        const uint8_t *index = b->qs + 16 * p;
        uint64_t v[8];
        for (int k = 0; k < 8; k++)
            v[k] = join_4(quant_grid_iq3_xxs, index[2 * k], index[2 * k + 1]);
        set_scales_32(out->scale + 4 * p, signs);
        store_signed(out->q + 64 * p, v, even_signs(spread_sevens(signs)));
    }
    return true;
}

bool k_unpack_iq3_s_neon(const void *block, void *to)
{
    const quant_iq3_s *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d);
    for (int p = 0; p < PARTS; p++) {
        const uint32_t high = (uint32_t)load_u16(b->qh + 2 * p) << 8;
        const uint8_t *index = b->qs + 16 * p;
        uint64_t v[8];
        for (int k = 0; k < 8; k++)
            v[k] = join_4(quant_grid_iq3_s, index[2 * k] | (high >> (2 * k) & 256),
                          index[2 * k + 1] | (high >> (2 * k + 1) & 256));
        memset(out->scale + 4 * p, 2 * (b->scales[p] & 15) + 1, 2);
        memset(out->scale + 4 * p + 2, 2 * (b->scales[p] >> 4) + 1, 2);
        store_signed(out->q + 64 * p, v, load_u64(b->signs + 8 * p));
    }
    return true;
}
