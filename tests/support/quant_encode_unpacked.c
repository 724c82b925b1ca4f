/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quant_encode_unpacked.c - encodes blocks of the formats of quant/unpack.c; see quant_encode.h.
 *
 * Simple and quick, not good: of a code book a part of the entries is tried, another part for each
 * group of values.
 */
#include "support/quant_encode.h"

#include "quant/blocks.h"
#include "quant/grids.h"
#include "quant/half.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- code books ---- */

/* One index with its eight values (IQ3: two indices with four each). */
typedef struct entry {
    int i; /* values 8 i .. 8 i + 7 of the superblock */
    unsigned index[2];
    unsigned signs; /* bit k: value k is negative */
    bool minus;     /* IQ1: 1/8 is subtracted */
} entry;

typedef struct book {
    int group;             /* values with a common scale */
    int scale_high;        /* of 2 s + 1 */
    float unit, top;       /* a weight is d * unit * (2 s + 1) * level; the largest level */
    bool even;             /* the number of signs is even */
    const uint64_t *eight; /* entries of eight values, or ... */
    const uint32_t *four;  /* ... of four */
    unsigned entries;
    void (*put)(void *block, const entry *e);
    void (*scale)(void *block, int group, unsigned s);
} book;

static void or_u32(uint8_t *at, uint32_t bits)
{
    for (int i = 0; i < 4; i++)
        at[i] |= (uint8_t)(bits >> (8 * i));
}

static void put_iq2_xxs(void *block, const entry *e)
{
    uint8_t *group = ((quant_iq2_xxs *)block)->qs + e->i / 4 * 8;
    group[e->i % 4] = (uint8_t)e->index[0];
    or_u32(group + 4, (e->signs & 127) << (7 * (e->i % 4)));
}

static void scale_iq2_xxs(void *block, int group, unsigned s)
{
    or_u32(((quant_iq2_xxs *)block)->qs + 8 * group + 4, s << 28);
}

static void put_iq2_xs(void *block, const entry *e)
{
    ((quant_iq2_xs *)block)->qs[e->i] = (uint16_t)(e->index[0] | (e->signs & 127) << 9);
}

static void scale_iq2_xs(void *block, int group, unsigned s)
{
    ((quant_iq2_xs *)block)->scales[group / 2] |= (uint8_t)(s << (4 * (group % 2)));
}

static void put_iq2_s(void *block, const entry *e)
{
    quant_iq2_s *b = block;
    b->qs[e->i] = (uint8_t)e->index[0];
    b->qh[e->i / 4] |= (uint8_t)((e->index[0] >> 8) << (2 * (e->i % 4)));
    b->signs[e->i] = (uint8_t)e->signs;
}

static void scale_iq2_s(void *block, int group, unsigned s)
{
    ((quant_iq2_s *)block)->scales[group / 2] |= (uint8_t)(s << (4 * (group % 2)));
}

static void put_iq3_xxs(void *block, const entry *e)
{
    quant_iq3_xxs *b = block;
    b->qs[2 * e->i] = (uint8_t)e->index[0];
    b->qs[2 * e->i + 1] = (uint8_t)e->index[1];
    or_u32(b->signs + e->i / 4 * 4, (e->signs & 127) << (7 * (e->i % 4)));
}

static void scale_iq3_xxs(void *block, int group, unsigned s)
{
    or_u32(((quant_iq3_xxs *)block)->signs + 4 * group, s << 28);
}

static void put_iq3_s(void *block, const entry *e)
{
    quant_iq3_s *b = block;
    b->qs[2 * e->i] = (uint8_t)e->index[0];
    b->qs[2 * e->i + 1] = (uint8_t)e->index[1];
    b->qh[e->i / 4] |= (uint8_t)((e->index[0] >> 8 | e->index[1] >> 8 << 1) << (2 * (e->i % 4)));
    b->signs[e->i] = (uint8_t)e->signs;
}

static void scale_iq3_s(void *block, int group, unsigned s)
{
    ((quant_iq3_s *)block)->scales[group / 2] |= (uint8_t)(s << (4 * (group % 2)));
}

static void put_iq1_s(void *block, const entry *e)
{
    quant_iq1_s *b = block;
    b->qs[e->i] = (uint8_t)e->index[0];
    b->qh[e->i / 4] |=
        (uint16_t)((e->index[0] >> 8) << (3 * (e->i % 4)) | (e->minus ? 0x8000u : 0));
}

static void scale_iq1_s(void *block, int group, unsigned s)
{
    ((quant_iq1_s *)block)->qh[group] |= (uint16_t)(s << 12);
}

static void put_iq1_m(void *block, const entry *e)
{
    quant_iq1_m *b = block;
    b->qs[e->i] = (uint8_t)e->index[0];
    b->qh[e->i / 2] |= (uint8_t)((e->index[0] >> 8 | (e->minus ? 8u : 0)) << (4 * (e->i % 2)));
}

static void scale_iq1_m(void *block, int group, unsigned s)
{
    uint8_t *word = ((quant_iq1_m *)block)->scales + group / 4 * 2;
    const unsigned bits = s << (3 * (group % 4));
    word[0] |= (uint8_t)bits;
    word[1] |= (uint8_t)(bits >> 8);
}

#define FUNCTIONS(f) put_##f, scale_##f
static const book books[QUANT_N_FORMATS] = {
    [QUANT_IQ1_S] = {32, 15, 0.125f, 9, 0, quant_grid_iq1, NULL, 2048, FUNCTIONS(iq1_s)},
    [QUANT_IQ1_M] = {16, 15, 0.125f, 9, 0, quant_grid_iq1, NULL, 2048, FUNCTIONS(iq1_m)},
    [QUANT_IQ2_XXS] = {32, 31, 0.125f, 43, 1, quant_grid_iq2_xxs, NULL, 256, FUNCTIONS(iq2_xxs)},
    [QUANT_IQ2_XS] = {16, 31, 0.125f, 43, 1, quant_grid_iq2_xs, NULL, 512, FUNCTIONS(iq2_xs)},
    [QUANT_IQ2_S] = {16, 31, 0.125f, 43, 0, quant_grid_iq2_s, NULL, 1024, FUNCTIONS(iq2_s)},
    [QUANT_IQ3_XXS] = {32, 31, 0.25f, 62, 1, NULL, quant_grid_iq3_xxs, 256, FUNCTIONS(iq3_xxs)},
    [QUANT_IQ3_S] = {32, 31, 1, 15, 0, NULL, quant_grid_iq3_s, 512, FUNCTIONS(iq3_s)},
};

/* Squared distance of n values to the levels of an entry. `shift`: added to the bytes. */
static float entry_distance(const float *x, uint64_t bytes, int n, float shift)
{
    float sum = 0.0f;
    for (int k = 0; k < n; k++) {
        const float error = x[k] - ((float)(bytes >> (8 * k) & 255) + shift);
        sum += error * error;
    }
    return sum;
}

static unsigned nearest_entry(const book *b, const float *x, int i, float shift)
{
    const unsigned step = b->entries / 128;
    unsigned best = 0;
    float least = INFINITY;
    for (unsigned at = (unsigned)i % step; at < b->entries; at += step) {
        const float distance = b->eight != NULL ? entry_distance(x, b->eight[at], 8, shift)
                                                : entry_distance(x, b->four[at], 4, shift);
        if (distance < least) {
            least = distance;
            best = at;
        }
    }
    return best;
}

/* Magnitudes and signs; an odd number of signs flips that of the smallest. */
static unsigned take_signs(float x[8], bool even)
{
    unsigned signs = 0, odd = 0;
    int smallest = 0;
    for (int k = 0; k < 8; k++) {
        signs |= (x[k] < 0.0f) << k;
        odd ^= x[k] < 0.0f;
        x[k] = fabsf(x[k]);
        smallest = x[k] < x[smallest] ? k : smallest;
    }
    return even && odd ? signs ^ 1u << smallest : signs;
}

static void put_entry(const book *b, const float *v, int i, float scale, bool minus, void *block)
{
    entry e = {.i = i, .minus = minus};
    float x[8];
    for (int k = 0; k < 8; k++)
        x[k] = scale > 0.0f ? v[8 * i + k] / scale : 0.0f;
    if (b->eight == quant_grid_iq1) {
        e.index[0] = nearest_entry(b, x, i, minus ? -129.0f : -127.0f);
    } else {
        e.signs = take_signs(x, b->even);
        e.index[0] = nearest_entry(b, x, i, 0.0f);
        e.index[1] = b->four != NULL ? nearest_entry(b, x + 4, i, 0.0f) : 0;
    }
    b->put(block, &e);
}

static float largest(const float *v, int n)
{
    float most = 0.0f;
    for (int i = 0; i < n; i++)
        most = fabsf(v[i]) > most ? fabsf(v[i]) : most;
    return most;
}

static void encode_book(quant_format format, const float *v, void *block)
{
    const book *b = &books[format];
    const float most = largest(v, QUANT_SUPERBLOCK) * 0.7f; /* outliers are cut */
    const uint16_t d16 = half_f32_to_f16(most / (b->top * (float)b->scale_high * b->unit));
    const float d = half_f16_to_f32(d16) * b->unit;
    for (int g = 0; g < QUANT_SUPERBLOCK / b->group; g++) {
        const float *group = v + g * b->group;
        const float wanted = d > 0.0f ? largest(group, b->group) * 0.7f / (b->top * d) : 0.0f;
        const float s = fminf(fmaxf(roundf((wanted - 1) / 2), 0), (float)((b->scale_high - 1) / 2));
        b->scale(block, g, (unsigned)s);
        for (int i = g * b->group / 8; i < (g + 1) * b->group / 8; i++)
            put_entry(b, v, i, d * (2 * s + 1), group[0] < 0.0f, block);
    }
    quant_set_scales(format, block, d16, 0);
}

/* ---- codes of their own ---- */

static unsigned nearest_level(float x, int low, int high)
{
    const float code = fminf(fmaxf(roundf(x), (float)low), (float)high);
    return (unsigned)((int)code - low);
}

static float mean_magnitude(const float *v, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += fabsf(v[i]);
    return sum / (float)n;
}

/* A scale as an f16; *d: its value, or 1 if it is 0. */
static uint16_t half_scale(float scale, float *d)
{
    const uint16_t half = half_f32_to_f16(scale);
    *d = half_f16_to_f32(half);
    *d = *d > 0.0f ? *d : 1.0f;
    return half;
}

/* A byte with n digits: v[0], v[step], ... The quotient is rounded up, because the decoder rounds
 * down. */
static uint8_t ternary_byte(const float *v, float d, int n, int step)
{
    unsigned number = 0;
    for (int k = 0; k < 5; k++)
        number = 3 * number + (k < n ? nearest_level(v[k * step] / d, -1, 1) : 0);
    return (uint8_t)((number * 256 + 242) / 243);
}

static void encode_tq1_0(const float *v, void *block)
{
    quant_tq1_0 *b = block;
    float d;
    b->d = half_scale(1.5f * mean_magnitude(v, QUANT_SUPERBLOCK), &d);
    for (int j = 0; j < 32; j++)
        b->qs[j] = ternary_byte(v + j, d, 5, 32);
    for (int j = 0; j < 16; j++)
        b->qs[32 + j] = ternary_byte(v + 160 + j, d, 5, 16);
    for (int j = 0; j < 4; j++)
        b->qh[j] = ternary_byte(v + 240 + j, d, 4, 4);
}

static void encode_tq2_0(const float *v, void *block)
{
    quant_tq2_0 *b = block;
    float d;
    b->d = half_scale(1.2f * mean_magnitude(v, QUANT_SUPERBLOCK), &d);
    for (int i = 0; i < QUANT_SUPERBLOCK; i++)
        b->qs[i / 128 * 32 + i % 32] |=
            (uint8_t)(nearest_level(v[i] / d, -1, 2) << (2 * (i % 128 / 32)));
}

static void encode_q1_0(const float *v, void *block)
{
    quant_q1_0 *b = block;
    float d;
    b->d = half_scale(mean_magnitude(v, 128), &d);
    for (int i = 0; i < 128; i++)
        b->qs[i / 8] |= (uint8_t)((v[i] >= 0.0f) << (i % 8));
}

static void encode_q2_0(const float *v, void *block)
{
    quant_q2_0 *b = block;
    float d;
    b->d = half_scale(1.2f * mean_magnitude(v, 64), &d);
    for (int i = 0; i < 64; i++)
        b->qs[i / 4] |= (uint8_t)(nearest_level(v[i] / d, -1, 2) << (2 * (i % 4)));
}

static unsigned nearest_fp4(float x)
{
    unsigned best = 0;
    for (unsigned i = 1; i < 16; i++)
        if (fabsf(x - (float)quant_fp4_values[i]) < fabsf(x - (float)quant_fp4_values[best]))
            best = i;
    return best;
}

static void encode_mxfp4(const float *v, void *block)
{
    quant_mxfp4 *b = block;
    int exponent;
    const float most = largest(v, QUANT_BLOCK);
    frexpf(most / 12, &exponent); /* most / 12 < 2^exponent */
    b->e = most > 0.0f ? (uint8_t)(exponent + 128) : 127;
    for (int i = 0; i < QUANT_BLOCK; i++)
        b->qs[i % 16] |= (uint8_t)(nearest_fp4(ldexpf(v[i], 128 - b->e)) << (4 * (i / 16)));
}

static void encode_nvfp4(const float *v, void *block)
{
    quant_nvfp4 *b = block;
    for (int g = 0; g < 4; g++) {
        const float most = largest(v + 16 * g, 16) / 12;
        float d = 0x1p-10f;
        for (b->d[g] = 1; b->d[g] < 0x7E && d < most; b->d[g]++) { /* d: of the next byte */
            const int next = b->d[g] + 1, exponent = next >> 3;
            d = exponent == 0 ? ldexpf((float)next, -10)
                              : ldexpf((float)(8 + (next & 7)), exponent - 11);
        }
        for (int i = 0; i < 16; i++)
            b->qs[8 * g + i % 8] |= (uint8_t)(nearest_fp4(v[16 * g + i] / d) << (4 * (i / 8)));
    }
}

void test_quant_encode_unpacked(quant_format format, const float *v, void *block)
{
    switch (format) {
    case QUANT_TQ1_0: encode_tq1_0(v, block); break;
    case QUANT_TQ2_0: encode_tq2_0(v, block); break;
    case QUANT_MXFP4: encode_mxfp4(v, block); break;
    case QUANT_NVFP4: encode_nvfp4(v, block); break;
    case QUANT_Q1_0: encode_q1_0(v, block); break;
    case QUANT_Q2_0: encode_q2_0(v, block); break;
    default: encode_book(format, v, block);
    }
}
