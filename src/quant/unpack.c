/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.c - see unpack.h.
 *
 * Eight values are one 64-bit number, the first value in the lowest byte. Products of one token
 * spend most of their time here, so bytes are changed eight at a time.
 */
#include "quant/unpack.h"

#include "quant/grids.h"
#include "quant/half.h"

#include <string.h>

enum { GROUPS_32 = QUANT_SUPERBLOCK / 32 };

#define EACH_BYTE(v) (0x0101010101010101u * (v))

static uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t load_u32(const uint8_t *p)
{
    return load_u16(p) | (uint32_t)load_u16(p + 2) << 16;
}

static void store_8(int8_t *to, uint64_t bytes)
{
    memcpy(to, &bytes, sizeof bytes);
}

/* Negates the bytes that have a 1 in `signs`. No byte is 0, so adding 1 has no carry. */
static uint64_t negate_bytes(uint64_t bytes, uint32_t signs)
{
    const uint64_t bit = (EACH_BYTE(signs) & 0x8040201008040201u) + EACH_BYTE(0x7F);
    const uint64_t one = bit >> 7 & EACH_BYTE(1);
    return (bytes ^ one * 0xFF) + one;
}

/* Seven sign bits, and an eighth that makes their number even. */
static uint32_t even_signs(uint32_t seven)
{
    seven &= 127;
    const uint32_t folded = seven ^ seven >> 4;
    return seven | (0x6996u >> (folded & 15) & 1) << 7;
}

/* The same scale for both groups of 16 of 32 values. */
static void set_scale_32(quant_i8_256 *out, int i, int scale)
{
    out->scale[2 * i] = out->scale[2 * i + 1] = (int8_t)scale;
}

/* ---- IQ2: d (2 s + 1) / 8 * magnitude ---- */

/* Nibbles of scales, one per 16 values. */
static void set_scale_nibbles(quant_i8_256 *out, const uint8_t scales[8])
{
    for (int i = 0; i < GROUPS_32; i++) {
        out->scale[2 * i] = (int8_t)(2 * (scales[i] & 15) + 1);
        out->scale[2 * i + 1] = (int8_t)(2 * (scales[i] >> 4) + 1);
    }
}

bool quant_unpack_iq2_xxs(const void *block, void *to)
{
    const quant_iq2_xxs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    for (int i = 0; i < GROUPS_32; i++) {
        const uint8_t *index = b->qs + 8 * i;
        const uint32_t signs = load_u32(index + 4);
        set_scale_32(out, i, 2 * (int)(signs >> 28) + 1);
        for (int k = 0; k < 4; k++)
            store_8(out->q + 32 * i + 8 * k,
                    negate_bytes(quant_grid_iq2_xxs[index[k]], even_signs(signs >> (7 * k))));
    }
    return true;
}

bool quant_unpack_iq2_xs(const void *block, void *to)
{
    const quant_iq2_xs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    set_scale_nibbles(out, b->scales);
    for (int i = 0; i < QUANT_SUPERBLOCK / 8; i++)
        store_8(out->q + 8 * i, negate_bytes(quant_grid_iq2_xs[b->qs[i] & 511],
                                             even_signs((uint32_t)b->qs[i] >> 9)));
    return true;
}

bool quant_unpack_iq2_s(const void *block, void *to)
{
    const quant_iq2_s *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    set_scale_nibbles(out, b->scales);
    for (int i = 0; i < QUANT_SUPERBLOCK / 8; i++) {
        const int index = b->qs[i] | (b->qh[i / 4] >> (2 * (i % 4)) & 3) << 8;
        store_8(out->q + 8 * i, negate_bytes(quant_grid_iq2_s[index], b->signs[i]));
    }
    return true;
}

/* ---- IQ3: two entries of four values ---- */

static uint64_t join_4(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

/* d (2 s + 1) / 4 * magnitude */
bool quant_unpack_iq3_xxs(const void *block, void *to)
{
    const quant_iq3_xxs *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.25f;
    for (int i = 0; i < GROUPS_32; i++) {
        const uint32_t signs = load_u32(b->signs + 4 * i);
        const uint8_t *index = b->qs + 8 * i;
        set_scale_32(out, i, 2 * (int)(signs >> 28) + 1);
        for (int k = 0; k < 4; k++) {
            const uint64_t bytes =
                join_4(quant_grid_iq3_xxs[index[2 * k]], quant_grid_iq3_xxs[index[2 * k + 1]]);
            store_8(out->q + 32 * i + 8 * k, negate_bytes(bytes, even_signs(signs >> (7 * k))));
        }
    }
    return true;
}

/* d (2 s + 1) * magnitude */
bool quant_unpack_iq3_s(const void *block, void *to)
{
    const quant_iq3_s *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d);
    for (int i = 0; i < GROUPS_32; i++)
        set_scale_32(out, i, 2 * (b->scales[i / 2] >> (4 * (i % 2)) & 15) + 1);
    for (int i = 0; i < QUANT_SUPERBLOCK / 8; i++) {
        const int high = b->qh[i / 4] >> (2 * (i % 4));
        const int first = b->qs[2 * i] | (high & 1) << 8;
        const int second = b->qs[2 * i + 1] | (high >> 1 & 1) << 8;
        const uint64_t bytes = join_4(quant_grid_iq3_s[first], quant_grid_iq3_s[second]);
        store_8(out->q + 8 * i, negate_bytes(bytes, b->signs[i]));
    }
    return true;
}

/* ---- IQ1: d (2 s + 1) / 8 * (8 v + 1), or - 1 ---- */

/* 8 v + 1, or 8 v - 1 if `minus`. Entries have 128 more, so no byte has a carry. */
static uint64_t shifted_values(int index, bool minus)
{
    const uint64_t entry = quant_grid_iq1[index];
    return (minus ? entry - EACH_BYTE(1) : entry + EACH_BYTE(1)) ^ EACH_BYTE(0x80);
}

bool quant_unpack_iq1_s(const void *block, void *to)
{
    const quant_iq1_s *b = block;
    quant_i8_256 *out = to;
    out->d = half_f16_to_f32(b->d) * 0.125f;
    for (int i = 0; i < GROUPS_32; i++) {
        const int high = b->qh[i];
        set_scale_32(out, i, 2 * (high >> 12 & 7) + 1);
        for (int k = 0; k < 4; k++)
            store_8(out->q + 32 * i + 8 * k,
                    shifted_values(b->qs[4 * i + k] | (high >> (3 * k) & 7) << 8, high >> 15));
    }
    return true;
}

bool quant_unpack_iq1_m(const void *block, void *to)
{
    const quant_iq1_m *b = block;
    quant_i8_256 *out = to;
    int d = 0;
    for (int i = 0; i < 4; i++) {
        const int word = load_u16(b->scales + 2 * i);
        d |= word >> 12 << (4 * i);
        for (int k = 0; k < 4; k++)
            out->scale[4 * i + k] = (int8_t)(2 * (word >> (3 * k) & 7) + 1);
    }
    out->d = half_f16_to_f32((uint16_t)d) * 0.125f;
    for (int i = 0; i < QUANT_SUPERBLOCK / 8; i++) {
        const int high = b->qh[i / 2] >> (4 * (i % 2));
        store_8(out->q + 8 * i, shifted_values(b->qs[i] | (high & 7) << 8, high >> 3 & 1));
    }
    return true;
}

/* ---- ternary ---- */

static void set_no_scales(quant_i8_256 *out, uint16_t d)
{
    memset(out->scale, 1, sizeof out->scale);
    out->d = half_f16_to_f32(d);
}

/* Digits of n bytes: the first of each byte, then the second of each, ... A byte times 3 has the
 * first digit above bit 8, and the rest below. */
static int8_t *put_digits(const uint8_t *bytes, int n, int n_digits, int8_t *out)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    for (int digit = 0; digit < n_digits; digit++)
        for (int i = 0; i < n; i++) {
            const uint8_t rest = (uint8_t)(bytes[i] * power[digit]);
            *out++ = (int8_t)((rest * 3 >> 8) - 1);
        }
    return out;
}

bool quant_unpack_tq1_0(const void *block, void *to)
{
    const quant_tq1_0 *b = block;
    quant_i8_256 *out = to;
    set_no_scales(out, b->d);
    int8_t *q = put_digits(b->qs, 32, 5, out->q);
    q = put_digits(b->qs + 32, 16, 5, q);
    put_digits(b->qh, 4, 4, q);
    return true;
}

bool quant_unpack_tq2_0(const void *block, void *to)
{
    const quant_tq2_0 *b = block;
    quant_i8_256 *out = to;
    set_no_scales(out, b->d);
    for (int i = 0; i < QUANT_SUPERBLOCK; i += 8) {
        uint64_t eight;
        memcpy(&eight, b->qs + i / 128 * 32 + i % 32, sizeof eight);
        const uint64_t codes = eight >> (2 * (i % 128 / 32)) & EACH_BYTE(3);
        store_8(out->q + i, (codes + EACH_BYTE(0x7F)) ^ EACH_BYTE(0x80)); /* codes - 1 */
    }
    return true;
}

/* ---- to Q8_0 and f16 ---- */

const int8_t quant_fp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

float quant_mxfp4_scale(uint8_t e)
{
    /* e = 0 and 1 are subnormal in f32. */
    return half_float_of(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

bool quant_unpack_mxfp4(const void *block, void *to)
{
    const quant_mxfp4 *b = block;
    quant_q8_0 *out = to;
    out->d = half_f32_to_f16(quant_mxfp4_scale(b->e));
    for (int j = 0; j < 16; j++) {
        out->qs[j] = quant_fp4_values[b->qs[j] & 15];
        out->qs[j + 16] = quant_fp4_values[b->qs[j] >> 4];
    }
    return b->e >= 128 - 24 && b->e <= 128 + 15;
}

bool quant_unpack_q1_0(const void *block, void *to)
{
    const quant_q1_0 *b = block;
    quant_q8_0 *out = to;
    for (int i = 0; i < 4; i++) {
        out[i].d = b->d;
        for (int k = 0; k < 4; k++) /* 1 to 1, 0 to -1 */
            store_8(out[i].qs + 8 * k, negate_bytes(EACH_BYTE(1), b->qs[4 * i + k] ^ 0xFFu));
    }
    return true;
}

bool quant_unpack_q2_0(const void *block, void *to)
{
    const quant_q2_0 *b = block;
    quant_q8_0 *out = to;
    for (int i = 0; i < 2; i++) {
        out[i].d = b->d;
        for (int j = 0; j < QUANT_BLOCK; j++)
            out[i].qs[j] = (int8_t)((b->qs[8 * i + j / 4] >> (2 * (j % 4)) & 3) - 1);
    }
    return true;
}

/* Half of an unsigned float with 4 bits of exponent and 3 of mantissa. The top bit is ignored; 0x7F
 * is 0. */
static float nvfp4_scale(uint8_t d)
{
    const int exponent = d >> 3 & 15, mantissa = d & 7;
    const int units = exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
    return d == 0x7F ? 0.0f : (float)units * 0x1p-10f;
}

bool quant_unpack_nvfp4(const void *block, void *to)
{
    const quant_nvfp4 *b = block;
    uint16_t *out = to;
    for (int g = 0; g < 4; g++) {
        const float scale = nvfp4_scale(b->d[g]);
        for (int j = 0; j < 16; j++) {
            const int code = b->qs[8 * g + j % 8] >> (4 * (j / 8)) & 15;
            out[16 * g + j] = half_f32_to_f16(scale * (float)quant_fp4_values[code]);
        }
    }
    return true;
}
