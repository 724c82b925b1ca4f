/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode_iq.c - IQ2 and IQ3: groups of 16 or 32 values with a scale each, entries of a code book for
 * 8 or 4 magnitudes, and signs; see encode.h.
 *
 * For each group a search tries several scales. With a scale, each part of the group is rounded to a
 * point; a point that is no entry is replaced by the entry near it with the smallest weighted error.
 * The operations and their order are those of llama.cpp.
 */
#include "convert/encode.h"

#include "convert/encode_books.h"
#include "convert/encode_search.h"
#include "quant/blocks.h"
#include "quant/half.h"

#include <float.h>
#include <math.h>

enum { MAX_GROUP = 32, MAX_PARTS = 8 };

/* What the formats differ in. */
typedef struct iq_search {
    encode_book_id book;
    int group;         /* values with one scale */
    int steps;         /* scales are tried in both directions */
    float step;        /* of the highest value, in units of half a level */
    float share;       /* of the mean square in the weights */
    float zero;        /* a group with a largest magnitude below this counts as zero */
    float factor;      /* of the stored scale */
    bool even_signs;   /* seven of eight signs are stored: the number of negative ones is even */
    bool first_search; /* the tried scales start from a search without the book */
    bool refine_all;   /* the best scale rounds all parts again, not only those off the book */
} iq_search;

static const iq_search search_iq2_xxs = {BOOK_IQ2_XXS, 32, 6, 0.1f, 1, 1e-15f, 1, true, true, true};
static const iq_search search_iq2_xs = {BOOK_IQ2_XS, 16, 9, 0.1f, 1, 1e-15f, 1, true, false, false};
static const iq_search search_iq2_s = {BOOK_IQ2_S, 16,      9,     0.1f,  2,
                                       1e-8f,      0.9875f, false, false, false};
static const iq_search search_iq3_xxs = {BOOK_IQ3_XXS, 32,      15,   0.2f,  2,
                                         1e-8f,        1.0125f, true, false, false};
static const iq_search search_iq3_s = {BOOK_IQ3_S,   32,     9,     0.2f,  2,
                                       FLT_TRUE_MIN, 1.033f, false, false, true};

/* One group: magnitudes and weights, then the result. */
typedef struct iq_group {
    float x[MAX_GROUP];    /* magnitudes; with even signs one of eight may be negative */
    float w[MAX_GROUP];    /* weights of squared errors */
    float root[MAX_GROUP]; /* their roots, for the choice of an entry */
    uint8_t signs[MAX_GROUP / 8];
    uint8_t levels[MAX_GROUP];
    bool off[MAX_PARTS]; /* the point of the part was no entry */
} iq_group;

/* ---- parts ---- */

/* The entry of a point's list with the smallest error. */
static int list_best(const encode_book *b, const uint16_t *list, const float *x, const float *root,
                     float scale)
{
    float best = FLT_MAX;
    int entry = list[1];
    for (int k = 1; k <= list[0]; k++) {
        const uint8_t *levels = b->entry_levels + list[k] * b->dims;
        float error = 0;
        for (int i = 0; i < b->dims && error < best; i++) { /* it never becomes smaller */
            const float diff = scale * (float)(2 * levels[i] + 1) - x[i];
            error += root[i] * diff * diff;
        }
        if (error < best) {
            best = error;
            entry = list[k];
        }
    }
    return entry;
}

/* Rounds a part with a scale and its inverse. True: the point was an entry. */
static bool part_round(const encode_book *b, uint8_t *levels, const float *x, const float *root,
                       float scale, float inverse)
{
    for (int i = 0; i < b->dims; i++)
        levels[i] = (uint8_t)clamp(nearest(0.5f * (inverse * x[i] - 1)), 0, b->levels - 1);
    const int32_t at = b->map[encode_book_point(b, levels)];
    if (at >= 0)
        return true;
    const int entry = list_best(b, b->lists + (-1 - at), x, root, scale);
    memcpy(levels, b->entry_levels + entry * b->dims, (size_t)b->dims);
    return false;
}

/* ---- groups ---- */

/* Weighted sums of least squares. */
static void group_sums(const iq_group *g, const uint8_t *levels, int n, float *qx, float *q2)
{
    *qx = *q2 = 0;
    for (int i = 0; i < n; i++) {
        const float q = (float)(2 * levels[i] + 1);
        *qx += g->w[i] * g->x[i] * q;
        *q2 += g->w[i] * q * q;
    }
}

/* Tries scales around `highest` / (2 levels - 1). Returns the best one, or `scale`. */
static float group_try(const iq_search *s, const encode_book *b, iq_group *g, float highest,
                       float scale)
{
    const int parts = s->group / b->dims;
    uint8_t levels[MAX_GROUP];
    bool off[MAX_PARTS] = {false};
    float best = 0, qx, q2;
    for (int step = -s->steps; step <= s->steps; step++) {
        const float inverse = ((float)(2 * b->levels - 1) + (float)step * s->step) / highest;
        for (int k = 0; k < parts; k++) {
            const int at = k * b->dims;
            off[k] = !part_round(b, levels + at, g->x + at, g->root + at, 1 / inverse, inverse);
        }
        group_sums(g, levels, s->group, &qx, &q2);
        if (q2 > 0 && qx * qx > best * q2) {
            scale = qx / q2;
            best = scale * qx;
            memcpy(g->levels, levels, (size_t)s->group);
            memcpy(g->off, off, sizeof off);
        }
    }
    return scale;
}

/* Rounds parts again with the best scale; returns the scale for them. */
static float group_refine(const iq_search *s, const encode_book *b, iq_group *g, float scale)
{
    const int parts = s->group / b->dims;
    bool any = s->first_search;
    float qx, q2;
    for (int k = 0; k < parts; k++)
        any |= g->off[k];
    if (!any || !(scale > 0))
        return scale;
    for (int k = 0; k < parts; k++) {
        const int at = k * b->dims;
        if (g->off[k] || s->refine_all)
            part_round(b, g->levels + at, g->x + at, g->root + at, scale, 1 / scale);
    }
    group_sums(g, g->levels, s->group, &qx, &q2);
    return q2 > 0 ? qx / q2 : scale;
}

/* Finds levels, signs and the scale. False: a group of zeros. */
static bool group_find(const iq_search *s, const encode_book *b, iq_group *g, float *out)
{
    float highest = g->x[0], scale;
    *out = 0;
    for (int i = 1; i < s->group; i++)
        highest = highest > g->x[i] ? highest : g->x[i];
    memset(g->levels, 0, sizeof g->levels);
    memset(g->off, s->refine_all, sizeof g->off);
    if (highest < s->zero)
        return false;
    scale = highest / (float)(2 * b->levels - 1);
    if (s->first_search) {
        scale = search_positive(g->levels, g->x, g->w, s->group, b->levels + 1);
        highest = scale * (float)b->levels;
        if (highest <= 0)
            return false;
        if (!(scale > 0)) /* weights or values that overflow: the levels mean nothing */
            memset(g->levels, 0, sizeof g->levels);
    }
    scale = group_try(s, b, g, highest, scale);
    scale = group_refine(s, b, g, scale);
    for (int k = 0; k < s->group / 8 && scale < 0; k++)
        g->signs[k] = (uint8_t)(~g->signs[k] & (s->even_signs ? 127 : 255));
    *out = fabsf(scale);
    return true;
}

/* ---- superblocks ---- */

/* Magnitudes and signs of eight values. With even signs, the value with the smallest error gets the
 * wrong sign if need be. */
static uint8_t split_signs(float *x, const float *values, const float *w, bool even)
{
    unsigned signs = 0;
    int smallest = 0;
    for (int i = 0; i < 8; i++) {
        signs |= values[i] >= 0 ? 0u : 1u << i;
        x[i] = values[i] >= 0 ? values[i] : -values[i];
    }
    if (!even)
        return (uint8_t)signs;
    for (int i = 1; i < 8; i++)
        if (w[i] * values[i] * values[i] < w[smallest] * values[smallest] * values[smallest])
            smallest = i;
    if (__builtin_popcount(signs) % 2 != 0) {
        x[smallest] = -x[smallest];
        signs ^= 1u << smallest;
    }
    return (uint8_t)(signs & 127);
}

static void group_load(const iq_search *s, iq_group *g, const float *values, const float *weights,
                       float mean)
{
    for (int i = 0; i < s->group; i++) {
        const float square = values[i] * values[i];
        if (weights != NULL)
            g->w[i] = weights[i] * sqrtf(mean + square);
        else
            g->w[i] = s->book == BOOK_IQ2_S ? 0.25f * mean + square : square;
        g->root[i] = sqrtf(g->w[i]);
    }
    for (int k = 0; k < s->group / 8; k++)
        g->signs[k] = split_signs(g->x + 8 * k, values + 8 * k, g->w + 8 * k, s->even_signs);
}

/* A superblock, not yet in the layout of a format. */
typedef struct iq_codes {
    uint16_t entries[64]; /* of 8 or 4 values each */
    uint8_t signs[32];    /* of 8 values each */
    uint8_t scales[16];   /* 4 bits each */
    uint16_t d;
} iq_codes;

static void encode_superblock(iq_codes *out, const iq_search *s, const float *values,
                              const float *weights)
{
    const encode_book *b = encode_book_get(s->book);
    const int groups = QUANT_SUPERBLOCK / s->group, parts = s->group / b->dims;
    float sum = 0, scales[16], most = 0;
    *out = (iq_codes){.d = 0};
    for (int i = 0; i < QUANT_SUPERBLOCK; i++)
        sum += values[i] * values[i];
    const float mean = s->share * sum / QUANT_SUPERBLOCK;
    for (int k = 0; k < groups; k++) {
        const int at = k * s->group;
        iq_group g;
        group_load(s, &g, values + at, weights != NULL ? weights + at : NULL, mean);
        if (!group_find(s, b, &g, &scales[k]))
            continue;
        most = most > scales[k] ? most : scales[k];
        memcpy(out->signs + at / 8, g.signs, (size_t)s->group / 8);
        for (int p = 0; p < parts; p++)
            out->entries[k * parts + p] =
                (uint16_t)b->map[encode_book_point(b, g.levels + p * b->dims)];
    }
    if (most == 0) {
        if (s->even_signs)
            *out = (iq_codes){.d = 0};
        return;
    }
    const float d = most / 31;
    out->d = half_f32_to_f16(d * s->factor);
    for (int k = 0; k < groups; k++)
        out->scales[k] = (uint8_t)clamp(nearest(0.5f * (1 / d * scales[k] - 1)), 0, 15);
}

/* ---- layouts ---- */

/* Four times seven signs, and a scale. */
static uint32_t signs_and_scale(const uint8_t signs[4], uint8_t scale)
{
    return (uint32_t)signs[0] | (uint32_t)signs[1] << 7 | (uint32_t)signs[2] << 14 |
           (uint32_t)signs[3] << 21 | (uint32_t)scale << 28;
}

static void put_iq2_xxs(quant_iq2_xxs *block, const iq_codes *c)
{
    block->d = c->d;
    for (int k = 0; k < 8; k++) {
        const uint32_t word = signs_and_scale(c->signs + 4 * k, c->scales[k]);
        for (int i = 0; i < 4; i++)
            block->qs[8 * k + i] = (uint8_t)c->entries[4 * k + i];
        memcpy(block->qs + 8 * k + 4, &word, sizeof word);
    }
}

static void put_iq2_xs(quant_iq2_xs *block, const iq_codes *c)
{
    block->d = c->d;
    for (int i = 0; i < 32; i++)
        block->qs[i] = (uint16_t)(c->entries[i] | c->signs[i] << 9);
    for (int k = 0; k < 8; k++)
        block->scales[k] = (uint8_t)(c->scales[2 * k] | c->scales[2 * k + 1] << 4);
}

static void put_iq2_s(quant_iq2_s *block, const iq_codes *c)
{
    *block = (quant_iq2_s){.d = c->d};
    for (int i = 0; i < 32; i++) {
        block->qs[i] = (uint8_t)c->entries[i];
        block->qh[i / 4] |= (uint8_t)(c->entries[i] >> 8 << 2 * (i % 4));
        block->signs[i] = c->signs[i];
    }
    for (int k = 0; k < 8; k++)
        block->scales[k] = (uint8_t)(c->scales[2 * k] | c->scales[2 * k + 1] << 4);
}

static void put_iq3_xxs(quant_iq3_xxs *block, const iq_codes *c)
{
    block->d = c->d;
    for (int i = 0; i < 64; i++)
        block->qs[i] = (uint8_t)c->entries[i];
    for (int k = 0; k < 8; k++) {
        const uint32_t word = signs_and_scale(c->signs + 4 * k, c->scales[k]);
        memcpy(block->signs + 4 * k, &word, sizeof word);
    }
}

static void put_iq3_s(quant_iq3_s *block, const iq_codes *c)
{
    *block = (quant_iq3_s){.d = c->d};
    for (int i = 0; i < 64; i++) {
        block->qs[i] = (uint8_t)c->entries[i];
        block->qh[i / 8] |= (uint8_t)(c->entries[i] >> 8 << i % 8);
    }
    memcpy(block->signs, c->signs, sizeof block->signs);
    for (int k = 0; k < 4; k++)
        block->scales[k] = (uint8_t)(c->scales[2 * k] | c->scales[2 * k + 1] << 4);
}

/* ---- rows ---- */

#define ENCODER(name)                                                                              \
    void encode_##name(const float *values, const float *weights, size_t n_blocks, void *blocks)   \
    {                                                                                              \
        quant_##name *block = blocks;                                                              \
        iq_codes codes;                                                                            \
        for (size_t b = 0; b < n_blocks; b++) {                                                    \
            const size_t at = b * QUANT_SUPERBLOCK;                                                \
            encode_superblock(&codes, &search_##name, values + at,                                 \
                              weights != NULL ? weights + at : NULL);                              \
            put_##name(&block[b], &codes);                                                         \
        }                                                                                          \
    }

ENCODER(iq2_xxs)
ENCODER(iq2_xs)
ENCODER(iq2_s)
ENCODER(iq3_xxs)
ENCODER(iq3_s)
