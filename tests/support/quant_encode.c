/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_encode.c - see quant_encode.h.
 *
 * A format is a row of a table: the range of its codes, the range of its group scales, and functions
 * that put a code, the scales of a group and the f16 fields into a block. src/quant/blocks.h has the
 * layouts; the decoders of src/quant/quant.c are the inverse.
 */
#include "support/quant_encode.h"

#include "quant/blocks.h"
#include "quant/half.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef struct encoder {
    int group;     /* values with a common scale */
    int low, high; /* codes */
    bool has_min;
    const int8_t *values; /* of the codes, if they are not the codes themselves */
    int scale_high;       /* of the integer scales; 0: the scale is the f16 d of the block */
    void (*code)(void *block, int i, unsigned code); /* code - low of value i */
    void (*scale)(void *block, int group, int scale, int min);
    void (*head)(void *block, uint16_t d, uint16_t m);
} encoder;

/* ---- blocks of 32: nibble i % 16, then its high half; a fifth bit in qh ---- */

static void put_nibble(uint8_t *qs, int i, unsigned code)
{
    qs[i % 16] |= (uint8_t)((code & 15) << (i / 16 % 2 * 4));
}

static void put_fifth(uint8_t *qh, int i, unsigned code)
{
    qh[i / 8] |= (uint8_t)((code >> 4) << (i % 8));
}

#define BLOCK_32(f, fifth, m_field)                                                                \
    static void code_##f(void *block, int i, unsigned code)                                        \
    {                                                                                              \
        quant_##f *b = block;                                                                      \
        put_nibble(b->qs, i, code);                                                                \
        fifth;                                                                                     \
    }                                                                                              \
    static void head_##f(void *block, uint16_t d, uint16_t m)                                      \
    {                                                                                              \
        quant_##f *b = block;                                                                      \
        b->d = d;                                                                                  \
        m_field;                                                                                   \
    }
BLOCK_32(q4_0, (void)0, (void)m)
BLOCK_32(q4_1, (void)0, b->m = m)
BLOCK_32(q5_0, put_fifth(b->qh, i, code), (void)m)
BLOCK_32(q5_1, put_fifth(b->qh, i, code), b->m = m)
BLOCK_32(iq4_nl, (void)0, (void)m)

/* ---- superblocks ---- */

static void code_q2_k(void *block, int i, unsigned code)
{
    quant_q2_k *b = block;
    b->qs[i / 128 * 32 + i % 32] |= (uint8_t)(code << (i % 128 / 32 * 2));
}

static void scale_q2_k(void *block, int group, int scale, int min)
{
    quant_q2_k *b = block;
    b->scales[group] = (uint8_t)(scale | min << 4);
}

static void head_q2_k(void *block, uint16_t d, uint16_t m)
{
    quant_q2_k *b = block;
    b->d = d;
    b->dmin = m;
}

static void code_q3_k(void *block, int i, unsigned code)
{
    quant_q3_k *b = block;
    b->qs[i / 128 * 32 + i % 32] |= (uint8_t)((code & 3) << (i % 128 / 32 * 2));
    b->hmask[i % 32] |= (uint8_t)((code >> 2) << (i / 32));
}

static void scale_q3_k(void *block, int group, int scale, int min)
{
    quant_q3_k *b = block;
    const unsigned six = (unsigned)(scale + 32);
    (void)min;
    b->scales[group % 8] |= (uint8_t)((six & 15) << (group / 8 * 4));
    b->scales[8 + group % 4] |= (uint8_t)((six >> 4) << (group / 4 * 2));
}

static void head_q3_k(void *block, uint16_t d, uint16_t m)
{
    (void)m;
    ((quant_q3_k *)block)->d = d;
}

static void put_q4_k_scale(uint8_t scales[12], int group, int scale, int min)
{
    if (group < 4) {
        scales[group] |= (uint8_t)scale;
        scales[group + 4] |= (uint8_t)min;
    } else {
        scales[group + 4] = (uint8_t)((scale & 15) | (min & 15) << 4);
        scales[group - 4] |= (uint8_t)(scale >> 4 << 6);
        scales[group] |= (uint8_t)(min >> 4 << 6);
    }
}

static void code_q4_k(void *block, int i, unsigned code)
{
    quant_q4_k *b = block;
    b->qs[i / 64 * 32 + i % 32] |= (uint8_t)(code << (i % 64 / 32 * 4));
}

static void scale_q4_k(void *block, int group, int scale, int min)
{
    put_q4_k_scale(((quant_q4_k *)block)->scales, group, scale, min);
}

static void head_q4_k(void *block, uint16_t d, uint16_t m)
{
    quant_q4_k *b = block;
    b->d = d;
    b->dmin = m;
}

static void code_q5_k(void *block, int i, unsigned code)
{
    quant_q5_k *b = block;
    b->qs[i / 64 * 32 + i % 32] |= (uint8_t)((code & 15) << (i % 64 / 32 * 4));
    b->qh[i % 32] |= (uint8_t)((code >> 4) << (i / 32));
}

static void scale_q5_k(void *block, int group, int scale, int min)
{
    put_q4_k_scale(((quant_q5_k *)block)->scales, group, scale, min);
}

static void head_q5_k(void *block, uint16_t d, uint16_t m)
{
    quant_q5_k *b = block;
    b->d = d;
    b->dmin = m;
}

static void code_q6_k(void *block, int i, unsigned code)
{
    quant_q6_k *b = block;
    b->ql[i / 128 * 64 + i % 64] |= (uint8_t)((code & 15) << (i % 128 / 64 * 4));
    b->qh[i / 128 * 32 + i % 32] |= (uint8_t)((code >> 4) << (i % 128 / 32 * 2));
}

static void scale_q6_k(void *block, int group, int scale, int min)
{
    (void)min;
    ((quant_q6_k *)block)->scales[group] = (int8_t)scale;
}

static void head_q6_k(void *block, uint16_t d, uint16_t m)
{
    (void)m;
    ((quant_q6_k *)block)->d = d;
}

static void code_iq4_xs(void *block, int i, unsigned code)
{
    put_nibble(((quant_iq4_xs *)block)->qs + i / 32 * 16, i % 32, code);
}

static void scale_iq4_xs(void *block, int group, int scale, int min)
{
    quant_iq4_xs *b = block;
    const unsigned six = (unsigned)(scale + 32);
    (void)min;
    b->scales_l[group / 2] |= (uint8_t)((six & 15) << (group % 2 * 4));
    b->scales_h |= (uint16_t)((six >> 4) << (2 * group));
}

static void head_iq4_xs(void *block, uint16_t d, uint16_t m)
{
    (void)m;
    ((quant_iq4_xs *)block)->d = d;
}

#define FUNCTIONS_32(f)  code_##f, NULL, head_##f
#define FUNCTIONS_256(f) code_##f, scale_##f, head_##f
static const encoder encoders[QUANT_N_FORMATS] = {
    [QUANT_Q4_0] = {32, -8, 7, false, NULL, 0, FUNCTIONS_32(q4_0)},
    [QUANT_Q4_1] = {32, 0, 15, true, NULL, 0, FUNCTIONS_32(q4_1)},
    [QUANT_Q5_0] = {32, -16, 15, false, NULL, 0, FUNCTIONS_32(q5_0)},
    [QUANT_Q5_1] = {32, 0, 31, true, NULL, 0, FUNCTIONS_32(q5_1)},
    [QUANT_IQ4_NL] = {32, 0, 15, false, quant_iq4_values, 0, FUNCTIONS_32(iq4_nl)},
    [QUANT_Q2_K] = {16, 0, 3, true, NULL, 15, FUNCTIONS_256(q2_k)},
    [QUANT_Q3_K] = {16, -4, 3, false, NULL, 31, FUNCTIONS_256(q3_k)},
    [QUANT_Q4_K] = {32, 0, 15, true, NULL, 63, FUNCTIONS_256(q4_k)},
    [QUANT_Q5_K] = {32, 0, 31, true, NULL, 63, FUNCTIONS_256(q5_k)},
    [QUANT_Q6_K] = {16, -32, 31, false, NULL, 127, FUNCTIONS_256(q6_k)},
    [QUANT_IQ4_XS] = {32, 0, 15, false, quant_iq4_values, 31, FUNCTIONS_256(iq4_xs)},
};

/* ---- scales and codes ---- */

/* The scale of a group, and what is subtracted from its scaled codes. */
static void group_range(const encoder *e, const float *v, float *scale, float *min)
{
    float most = 0.0f, least = 0.0f;
    for (int i = 0; i < e->group; i++) {
        most = v[i] > most ? v[i] : most;
        least = v[i] < least ? v[i] : least;
    }
    *min = 0.0f;
    if (e->has_min) {
        *min = -least;
        *scale = (most - least) / (float)e->high;
        return;
    }
    const float largest = e->values != NULL ? (float)e->values[e->high] : (float)e->high;
    *scale = (most > -least ? most : -least) / largest;
}

static unsigned nearest_value(const int8_t *values, float x)
{
    unsigned best = 0;
    for (unsigned i = 1; i < 16; i++)
        if (fabsf(x - (float)values[i]) < fabsf(x - (float)values[best]))
            best = i;
    return best;
}

static unsigned nearest_code(const encoder *e, float v, float scale, float min)
{
    const float x = scale > 0.0f ? (v + min) / scale : 0.0f;
    if (e->values != NULL)
        return nearest_value(e->values, x);
    const float code = roundf(x);
    if (code <= (float)e->low)
        return 0;
    return code >= (float)e->high ? (unsigned)(e->high - e->low) : (unsigned)((int)code - e->low);
}

static void encode_block(const encoder *e, const float *v, int n, void *block)
{
    enum { MAX_GROUPS = 16 };
    float scale[MAX_GROUPS], min[MAX_GROUPS], most_scale = 0.0f, most_min = 0.0f;
    const int groups = n / e->group;
    for (int g = 0; g < groups; g++) {
        group_range(e, v + g * e->group, &scale[g], &min[g]);
        most_scale = scale[g] > most_scale ? scale[g] : most_scale;
        most_min = min[g] > most_min ? min[g] : most_min;
    }
    /* The sign of m differs: blocks of 32 add it, superblocks subtract dmin * min. */
    const float steps = e->scale_high > 0 ? (float)e->scale_high : 1.0f;
    const uint16_t d16 = half_f32_to_f16(most_scale / steps);
    const uint16_t m16 = half_f32_to_f16(e->scale_high > 0 ? most_min / steps : -most_min);
    const float d = half_f16_to_f32(d16), dmin = fabsf(half_f16_to_f32(m16));
    e->head(block, d16, m16);
    for (int g = 0; g < groups; g++) {
        float s = 1.0f, m = 1.0f;
        if (e->scale_high > 0) {
            s = d > 0.0f ? fminf(roundf(scale[g] / d), steps) : 0.0f;
            m = dmin > 0.0f ? fminf(roundf(min[g] / dmin), steps) : 0.0f;
            e->scale(block, g, (int)s, (int)m);
        }
        for (int i = g * e->group; i < (g + 1) * e->group; i++)
            e->code(block, i, nearest_code(e, v[i], d * s, e->has_min ? dmin * m : 0.0f));
    }
}

void test_quant_encode(quant_format format, const float *values, size_t n_blocks, void *blocks)
{
    const quant_info *info = quant_get(format);
    if (format == QUANT_Q8_0) {
        quant_encode_q8_0(values, n_blocks, blocks);
        return;
    }
    memset(blocks, 0, n_blocks * info->block_bytes);
    for (size_t i = 0; i < n_blocks; i++) {
        unsigned char *block = (unsigned char *)blocks + i * info->block_bytes;
        const float *v = values + i * info->block_values;
        const uint16_t f16 = half_f32_to_f16(*v), bf16 = half_f32_to_bf16(*v);
        if (format == QUANT_F32)
            memcpy(block, v, sizeof *v);
        else if (format == QUANT_F16)
            memcpy(block, &f16, sizeof f16);
        else if (format == QUANT_BF16)
            memcpy(block, &bf16, sizeof bf16);
        else if (format > QUANT_IQ4_XS)
            test_quant_encode_unpacked(format, v, block);
        else
            encode_block(&encoders[format], v, (int)info->block_values, block);
    }
}
