/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant.c - the table of weight formats, their scalar decoders, and the Q8_0 encoder.
 *
 * The decoders define the value of every weight: golden tests compare them bit for bit with the
 * reference implementation. The order of operations is part of that definition.
 */
#include "quant/quant.h"

#include "base/ckd.h"
#include "quant/blocks.h"
#include "quant/half.h"
#include "quant/unpack.h"

#include <stddef.h>

static void quant_decode_f32(const void *blocks, size_t n_blocks, float *values)
{
    if (n_blocks > 0)
        memcpy(values, blocks, n_blocks * sizeof *values);
}

static void quant_decode_f16(const void *blocks, size_t n_blocks, float *values)
{
    const uint16_t *in = blocks;
    for (size_t i = 0; i < n_blocks; i++)
        values[i] = half_f16_to_f32(in[i]);
}

static void quant_decode_bf16(const void *blocks, size_t n_blocks, float *values)
{
    const uint16_t *in = blocks;
    for (size_t i = 0; i < n_blocks; i++)
        values[i] = half_bf16_to_f32(in[i]);
}

/* ---- blocks of 32: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, IQ4_NL ----
 *
 * value = scale * code, or scale * code + minimum: each operation rounds separately. */

const int8_t quant_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                     1,    13,   25,  38,  53,  69,  89,  113};

static void quant_decode_q4_0(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q4_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int j = 0; j < 16; j++) {
            values[j] = d * (float)((block->qs[j] & 15) - 8);
            values[j + 16] = d * (float)((block->qs[j] >> 4) - 8);
        }
    }
}

static void quant_decode_q4_1(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q4_1 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float m = half_f16_to_f32(block->m);
        for (int j = 0; j < 16; j++) {
            values[j] = d * (float)(block->qs[j] & 15) + m;
            values[j + 16] = d * (float)(block->qs[j] >> 4) + m;
        }
    }
}

/* The five bits of value j of a Q5_0 or Q5_1 block. */
static int code_of_5(const uint8_t qh[4], const uint8_t qs[16], int j)
{
    const int low = j < 16 ? qs[j] & 15 : qs[j - 16] >> 4;
    return low | (qh[j / 8] >> (j % 8) & 1) << 4;
}

static void quant_decode_q5_0(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q5_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int j = 0; j < QUANT_BLOCK; j++)
            values[j] = d * (float)(code_of_5(block->qh, block->qs, j) - 16);
    }
}

static void quant_decode_q5_1(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q5_1 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float m = half_f16_to_f32(block->m);
        for (int j = 0; j < QUANT_BLOCK; j++)
            values[j] = d * (float)code_of_5(block->qh, block->qs, j) + m;
    }
}

static void quant_decode_q8_0(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q8_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int j = 0; j < QUANT_BLOCK; j++)
            values[j] = d * (float)block->qs[j];
    }
}

static void quant_decode_iq4_nl(const void *blocks, size_t n_blocks, float *values)
{
    const quant_iq4_nl *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int j = 0; j < 16; j++) {
            values[j] = d * (float)quant_iq4_values[block->qs[j] & 15];
            values[j + 16] = d * (float)quant_iq4_values[block->qs[j] >> 4];
        }
    }
}

/* ---- superblocks of 256: Q2_K to Q6_K, IQ4_XS ----
 *
 * value = (d * group scale) * code - dmin * group minimum, evaluated from left to right, each
 * operation rounded separately. */

static void quant_decode_q2_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q2_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float dmin = half_f16_to_f32(block->dmin);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            const uint8_t scales = block->scales[i / 16];
            const int code = block->qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
            values[i] = d * (float)(scales & 15) * (float)code - dmin * (float)(scales >> 4);
        }
    }
}

static void quant_decode_q3_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q3_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            const int low = block->qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
            const int high = block->hmask[i % 32] >> (i / 32) & 1;
            const int code = low - (high ? 0 : 4);
            values[i] = d * (float)quant_q3_k_scale(block->scales, i / 16) * (float)code;
        }
    }
}

static void quant_decode_q4_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q4_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float dmin = half_f16_to_f32(block->dmin);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            uint8_t scale, min;
            quant_q4_k_scale(block->scales, i / 32, &scale, &min);
            const int code = block->qs[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15;
            values[i] = d * (float)scale * (float)code - dmin * (float)min;
        }
    }
}

static void quant_decode_q5_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q5_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        const float dmin = half_f16_to_f32(block->dmin);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            uint8_t scale, min;
            quant_q4_k_scale(block->scales, i / 32, &scale, &min);
            const int low = block->qs[i / 64 * 32 + i % 32] >> (4 * (i / 32 % 2)) & 15;
            const int code = low | (block->qh[i % 32] >> (i / 32) & 1) << 4;
            values[i] = d * (float)scale * (float)code - dmin * (float)min;
        }
    }
}

static void quant_decode_q6_k(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q6_k *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            const int low = block->ql[i / 128 * 64 + i % 64] >> (4 * (i % 128 / 64)) & 15;
            const int high = block->qh[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
            const int code = (low | high << 4) - 32;
            values[i] = d * (float)block->scales[i / 16] * (float)code;
        }
    }
}

static void quant_decode_iq4_xs(const void *blocks, size_t n_blocks, float *values)
{
    const quant_iq4_xs *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_SUPERBLOCK) {
        const float d = half_f16_to_f32(block->d);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++) {
            const float scaled = d * (float)quant_iq4_xs_scale(block, i / 32);
            const int code = block->qs[i / 32 * 16 + i % 16] >> (4 * (i % 32 / 16)) & 15;
            values[i] = scaled * (float)quant_iq4_values[code];
        }
    }
}

/* ---- formats that unpack.c rewrites ---- */

/* d * (scale * code). The decoder of llama.cpp multiplies in another order. Both are exact: d has 11
 * significant bits, scale * code has 11. */
static void quant_decode_unpacked(quant_unpack_fn *unpack, const void *blocks, size_t n_blocks,
                                  size_t bytes, float *values)
{
    const char *block = blocks;
    quant_i8_256 w;
    for (size_t b = 0; b < n_blocks; b++, block += bytes, values += QUANT_SUPERBLOCK) {
        unpack(block, &w);
        for (int i = 0; i < QUANT_SUPERBLOCK; i++)
            values[i] = w.d * (float)(w.scale[i / 16] * w.q[i]);
    }
}

#define DECODE_I8_256(f)                                                                           \
    static void quant_decode_##f(const void *blocks, size_t n_blocks, float *values)               \
    {                                                                                              \
        quant_decode_unpacked(quant_unpack_##f, blocks, n_blocks, sizeof(quant_##f), values);      \
    }
DECODE_I8_256(iq1_s)
DECODE_I8_256(iq1_m)
DECODE_I8_256(iq2_xxs)
DECODE_I8_256(iq2_xs)
DECODE_I8_256(iq2_s)
DECODE_I8_256(iq3_xxs)
DECODE_I8_256(iq3_s)
DECODE_I8_256(tq1_0)
DECODE_I8_256(tq2_0)

static void quant_decode_mxfp4(const void *blocks, size_t n_blocks, float *values)
{
    const quant_mxfp4 *block = blocks;
    quant_q8_0 w;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        const float d = quant_mxfp4_scale(block->e); /* may not be an f16 */
        quant_unpack_mxfp4(block, &w);
        for (int j = 0; j < QUANT_BLOCK; j++)
            values[j] = d * (float)w.qs[j];
    }
}

static void quant_decode_nvfp4(const void *blocks, size_t n_blocks, float *values)
{
    const quant_nvfp4 *block = blocks;
    uint16_t w[64];
    for (size_t b = 0; b < n_blocks; b++, block++, values += 64) {
        quant_unpack_nvfp4(block, w);
        quant_decode_f16(w, 64, values);
    }
}

static void quant_decode_q1_0(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q1_0 *block = blocks;
    quant_q8_0 w[4];
    for (size_t b = 0; b < n_blocks; b++, block++, values += 4 * QUANT_BLOCK) {
        quant_unpack_q1_0(block, w);
        quant_decode_q8_0(w, 4, values);
    }
}

static void quant_decode_q2_0(const void *blocks, size_t n_blocks, float *values)
{
    const quant_q2_0 *block = blocks;
    quant_q8_0 w[2];
    for (size_t b = 0; b < n_blocks; b++, block++, values += 2 * QUANT_BLOCK) {
        quant_unpack_q2_0(block, w);
        quant_decode_q8_0(w, 2, values);
    }
}

/* ---- Q8_0 encoder, byte for byte like llama.cpp's ---- */

/* Rounds half away from zero and clamps to [-127, 127]; NaN becomes 127. */
static int8_t quant_round_code(float scaled)
{
    const float magnitude = scaled < 0.0f ? -scaled : scaled;
    int code = 127;
    if (magnitude < 127.0f) {
        code = (int)magnitude;
        if (magnitude - (float)code >= 0.5f)
            code++;
    }
    return (int8_t)(scaled < 0.0f ? -code : code);
}

void quant_encode_q8_0(const float *values, size_t n_blocks, void *blocks)
{
    quant_q8_0 *block = blocks;
    for (size_t b = 0; b < n_blocks; b++, block++, values += QUANT_BLOCK) {
        float amax = 0.0f;
        for (int j = 0; j < QUANT_BLOCK; j++) {
            const float magnitude = values[j] < 0.0f ? -values[j] : values[j];
            if (magnitude > amax)
                amax = magnitude;
        }
        const float d = amax / 127.0f;
        const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
        block->d = half_f32_to_f16(d);
        for (int j = 0; j < QUANT_BLOCK; j++)
            block->qs[j] = quant_round_code(values[j] * inverse);
    }
}

/* ---- scales of random blocks ---- */

enum { NO_FIELD = -1 };

/* Offsets of the f16 fields. */
typedef struct scale_fields {
    int d, min;
} scale_fields;

static scale_fields quant_scale_fields(quant_format format)
{
    switch (format) {
    case QUANT_Q4_1:
    case QUANT_Q5_1:
    case QUANT_Q4_K:
    case QUANT_Q5_K: return (scale_fields){0, 2};
    case QUANT_Q2_K: return (scale_fields){offsetof(quant_q2_k, d), offsetof(quant_q2_k, dmin)};
    case QUANT_Q3_K: return (scale_fields){offsetof(quant_q3_k, d), NO_FIELD};
    case QUANT_Q6_K: return (scale_fields){offsetof(quant_q6_k, d), NO_FIELD};
    case QUANT_TQ1_0: return (scale_fields){offsetof(quant_tq1_0, d), NO_FIELD};
    case QUANT_TQ2_0: return (scale_fields){offsetof(quant_tq2_0, d), NO_FIELD};
    case QUANT_F32:
    case QUANT_F16:
    case QUANT_BF16:
    case QUANT_IQ1_M:
    case QUANT_MXFP4:
    case QUANT_NVFP4: return (scale_fields){NO_FIELD, NO_FIELD};
    default: return (scale_fields){0, NO_FIELD};
    }
}

/* The float of NVFP4 that is nearest to zero of those with the same leading bits. */
static uint8_t quant_nvfp4_byte(uint16_t d)
{
    const int exponent = (d >> 10 & 31) - 15 + 7;
    return (uint8_t)(exponent < 1 ? 1 : exponent > 15 ? 0x7E : exponent << 3 | (d >> 7 & 7));
}

void quant_set_scales(quant_format format, void *block, uint16_t d, uint16_t min)
{
    const scale_fields at = quant_scale_fields(format);
    if (at.d != NO_FIELD)
        memcpy((char *)block + at.d, &d, sizeof d);
    if (at.min != NO_FIELD)
        memcpy((char *)block + at.min, &min, sizeof min);
    if (format == QUANT_MXFP4)
        ((quant_mxfp4 *)block)->e = (uint8_t)((d >> 10 & 31) - 15 + 128);
    if (format == QUANT_NVFP4)
        memset(((quant_nvfp4 *)block)->d, quant_nvfp4_byte(d), 4);
    if (format == QUANT_IQ1_M)
        for (int i = 0; i < 4; i++) {
            uint8_t *high = &((quant_iq1_m *)block)->scales[2 * i + 1];
            *high = (uint8_t)((*high & 15) | (d >> (4 * i) & 15) << 4);
        }
}

/* ---- table ---- */

#define PLAIN(NAME, id, bytes, decoder)                                                            \
    [QUANT_##NAME] = {QUANT_##NAME, #NAME, id, 1, bytes, QUANT_ACT_F32, decoder, false}
#define SMALL(NAME, id, type, decoder)                                                             \
    [QUANT_##                                                                                      \
        NAME] = {QUANT_##NAME, #NAME, id, QUANT_BLOCK, sizeof(type), QUANT_ACT_32, decoder, false}
#define SUPER(NAME, id, type, decoder)                                                             \
    [QUANT_##NAME] = {QUANT_##NAME, #NAME,         id,      QUANT_SUPERBLOCK,                      \
                      sizeof(type), QUANT_ACT_256, decoder, false}
#define UNPACKED(NAME, id, values, type, act, decoder)                                             \
    [QUANT_##NAME] = {QUANT_##NAME, #NAME, id, values, sizeof(type), act, decoder, true}

static const quant_info quant_formats[QUANT_N_FORMATS] = {
    PLAIN(F32, 0, 4, quant_decode_f32),
    PLAIN(F16, 1, 2, quant_decode_f16),
    PLAIN(BF16, 30, 2, quant_decode_bf16),
    SMALL(Q4_0, 2, quant_q4_0, quant_decode_q4_0),
    SMALL(Q4_1, 3, quant_q4_1, quant_decode_q4_1),
    SMALL(Q5_0, 6, quant_q5_0, quant_decode_q5_0),
    SMALL(Q5_1, 7, quant_q5_1, quant_decode_q5_1),
    SMALL(Q8_0, 8, quant_q8_0, quant_decode_q8_0),
    SUPER(Q2_K, 10, quant_q2_k, quant_decode_q2_k),
    SUPER(Q3_K, 11, quant_q3_k, quant_decode_q3_k),
    SUPER(Q4_K, 12, quant_q4_k, quant_decode_q4_k),
    SUPER(Q5_K, 13, quant_q5_k, quant_decode_q5_k),
    SUPER(Q6_K, 14, quant_q6_k, quant_decode_q6_k),
    SMALL(IQ4_NL, 20, quant_iq4_nl, quant_decode_iq4_nl),
    SUPER(IQ4_XS, 23, quant_iq4_xs, quant_decode_iq4_xs),
    UNPACKED(IQ1_S, 19, QUANT_SUPERBLOCK, quant_iq1_s, QUANT_ACT_256, quant_decode_iq1_s),
    UNPACKED(IQ1_M, 29, QUANT_SUPERBLOCK, quant_iq1_m, QUANT_ACT_256, quant_decode_iq1_m),
    UNPACKED(IQ2_XXS, 16, QUANT_SUPERBLOCK, quant_iq2_xxs, QUANT_ACT_256, quant_decode_iq2_xxs),
    UNPACKED(IQ2_XS, 17, QUANT_SUPERBLOCK, quant_iq2_xs, QUANT_ACT_256, quant_decode_iq2_xs),
    UNPACKED(IQ2_S, 22, QUANT_SUPERBLOCK, quant_iq2_s, QUANT_ACT_256, quant_decode_iq2_s),
    UNPACKED(IQ3_XXS, 18, QUANT_SUPERBLOCK, quant_iq3_xxs, QUANT_ACT_256, quant_decode_iq3_xxs),
    UNPACKED(IQ3_S, 21, QUANT_SUPERBLOCK, quant_iq3_s, QUANT_ACT_256, quant_decode_iq3_s),
    UNPACKED(TQ1_0, 34, QUANT_SUPERBLOCK, quant_tq1_0, QUANT_ACT_256, quant_decode_tq1_0),
    UNPACKED(TQ2_0, 35, QUANT_SUPERBLOCK, quant_tq2_0, QUANT_ACT_256, quant_decode_tq2_0),
    UNPACKED(MXFP4, 39, QUANT_BLOCK, quant_mxfp4, QUANT_ACT_32, quant_decode_mxfp4),
    UNPACKED(NVFP4, 40, 64, quant_nvfp4, QUANT_ACT_F32, quant_decode_nvfp4),
    UNPACKED(Q1_0, 41, 128, quant_q1_0, QUANT_ACT_32, quant_decode_q1_0),
    UNPACKED(Q2_0, 42, 64, quant_q2_0, QUANT_ACT_32, quant_decode_q2_0),
};

/* GGUF types without a decoder, for error messages. */
static const char *const quant_unsupported[] = {
    [9] = "Q8_1", [15] = "Q8_K", [24] = "I8",  [25] = "I16",
    [26] = "I32", [27] = "I64",  [28] = "F64",
};

const quant_info *quant_get(quant_format format)
{
    return &quant_formats[format];
}

const quant_info *quant_from_gguf(uint32_t gguf_id)
{
    for (int i = 0; i < QUANT_N_FORMATS; i++)
        if (quant_formats[i].gguf_id == gguf_id)
            return &quant_formats[i];
    return NULL;
}

const char *quant_gguf_name(uint32_t gguf_id)
{
    const quant_info *info = quant_from_gguf(gguf_id);
    if (info != NULL)
        return info->name;
    if (gguf_id < sizeof quant_unsupported / sizeof quant_unsupported[0] &&
        quant_unsupported[gguf_id] != NULL)
        return quant_unsupported[gguf_id];
    return "unknown";
}

bool quant_row_bytes(quant_format format, uint64_t n, uint64_t *bytes)
{
    const quant_info *info = &quant_formats[format];
    if (n % info->block_values != 0)
        return false;
    return ckd_mul_u64(n / info->block_values, info->block_bytes, bytes);
}
