/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode_iq1.c - IQ1_S and IQ1_M: entries of a code book of eight values -1, 0 or 1, each shifted by
 * 1/8 up or down, with a scale per 32 or 16 values; see encode.h.
 *
 * A group is sorted. Two borders then divide it into the values that become -1, 0 and 1, and the
 * search tries all of them. A part that is no entry of the book is replaced by the entry near it with
 * the smallest weighted error. The operations and their order are those of llama.cpp.
 */
#include "convert/encode.h"

#include "convert/encode_books.h"
#include "convert/encode_search.h"
#include "quant/blocks.h"
#include "quant/half.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

enum { MAX_GROUP = 32, MAX_PARTS = 4, PART = 8, GROUP_S = 32, GROUP_M = 16 };

/* Values of the three levels, shifted up and down. */
static const float shifted[2][3] = {{-0.875f, 0.125f, 1.125f}, {-1.125f, -0.125f, 0.875f}};

/* One group. */
typedef struct iq1_group {
    int n;
    const float *x;       /* [n] */
    float w[MAX_GROUP];   /* weights of squared errors */
    int order[MAX_GROUP]; /* the values in ascending order */
    uint8_t levels[MAX_GROUP];
    uint8_t down[MAX_PARTS]; /* 1: the part is shifted down */
    uint16_t entries[MAX_PARTS];
    float scale;
} iq1_group;

/* Borders and shifts with the best score so far. */
typedef struct iq1_best {
    float score, scale;
    int first, second; /* levels change at these places of the order; -1: none found */
    int shifts; /* IQ1_S: 0 up, 1 down; IQ1_M: twice that of the first part, plus the second's */
} iq1_best;

static void group_load(iq1_group *g, const float *values, const float *weights, float mean, int n)
{
    *g = (iq1_group){.n = n, .x = values};
    for (int i = 0; i < n; i++) {
        const float square = values[i] * values[i];
        g->w[i] = weights != NULL ? weights[i] * sqrtf(mean + square) : square;
        int at = i; /* of equal values the first one stays first */
        for (; at > 0 && values[g->order[at - 1]] > values[i]; at--)
            g->order[at] = g->order[at - 1];
        g->order[at] = i;
    }
}

static float group_largest(const iq1_group *g)
{
    float largest = fabsf(g->x[0]);
    for (int i = 1; i < g->n; i++)
        largest = largest > fabsf(g->x[i]) ? largest : fabsf(g->x[i]);
    return largest;
}

static void best_offer(iq1_best *b, float qx, float q2, int first, int second, int shifts)
{
    if (!(q2 > 0 && qx * qx > b->score * q2))
        return;
    b->scale = qx / q2;
    b->score = b->scale * qx;
    b->first = first;
    b->second = second;
    b->shifts = shifts;
}

/* ---- borders ---- */

/* The whole group has one shift, so prefix sums give all scores. */
static void borders_s(iq1_best *best, const iq1_group *g)
{
    const int n = g->n;
    float x[GROUP_S + 1] = {0}, w[GROUP_S + 1] = {0};
    for (int j = 0; j < n; j++) {
        const int i = g->order[j];
        x[j + 1] = x[j] + g->w[i] * g->x[i];
        w[j + 1] = w[j] + g->w[i];
    }
    for (int a = 0; a <= n; a++)
        for (int b = a; b <= n; b++)
            for (int s = 0; s < 2; s++) {
                const float *q = shifted[s];
                const float qx = (x[a] - x[0]) * q[0] + (x[b] - x[a]) * q[1] + (x[n] - x[b]) * q[2];
                const float q2 = (w[a] - w[0]) * q[0] * q[0] + (w[b] - w[a]) * q[1] * q[1] +
                                 (w[n] - w[b]) * q[2] * q[2];
                best_offer(best, qx, q2, a, b, s);
            }
}

/* Each half of the group has its shift. */
static void borders_m(iq1_best *best, const iq1_group *g)
{
    const int n = g->n;
    for (int a = 0; a <= n; a++)
        for (int b = a; b <= n; b++) {
            float qx[4] = {0}, q2[4] = {0};
            for (int j = 0; j < n; j++) {
                const int i = g->order[j], level = j < a ? 0 : j < b ? 1 : 2;
                for (int k = 0; k < 4; k++) {
                    const float q = shifted[i < n / 2 ? k / 2 : k % 2][level];
                    qx[k] += g->w[i] * q * g->x[i];
                    q2[k] += g->w[i] * q * q;
                }
            }
            for (int k = 0; k < 4; k++)
                best_offer(best, qx[k], q2[k], a, b, k);
        }
}

/* ---- the book ---- */

static uint16_t list_best(const encode_book *b, const uint16_t *list, const float *x,
                          const float *w, float scale, const float *q)
{
    float best = FLT_MAX;
    uint16_t entry = list[1];
    for (int k = 1; k <= list[0]; k++) {
        const uint8_t *levels = b->entry_levels + list[k] * PART;
        float error = 0;
        for (int i = 0; i < PART; i++) {
            const float diff = scale * q[levels[i]] - x[i];
            error += w[i] * diff * diff;
        }
        if (error < best) {
            best = error;
            entry = list[k];
        }
    }
    return entry;
}

/* Entries of all parts; the scale follows if one was no entry. */
static void group_take_entries(iq1_group *g, const encode_book *b)
{
    bool all = true;
    float qx = 0, q2 = 0;
    for (int p = 0; p < g->n / PART; p++) {
        const int32_t at = b->map[encode_book_point(b, g->levels + p * PART)];
        all &= at >= 0;
        g->entries[p] = at >= 0 ? (uint16_t)at
                                : list_best(b, b->lists + (-1 - at), g->x + p * PART,
                                            g->w + p * PART, g->scale, shifted[g->down[p]]);
    }
    for (int i = 0; i < g->n; i++) {
        const float q =
            shifted[g->down[i / PART]][b->entry_levels[g->entries[i / PART] * PART + i % PART]];
        qx += g->w[i] * q * g->x[i];
        q2 += g->w[i] * q * q;
    }
    if (!all && qx > 0 && q2 > 0)
        g->scale = qx / q2;
}

/* Levels and shifts from the best borders. A negative scale turns both around. */
static void group_take_borders(iq1_group *g, const iq1_best *best)
{
    const int parts = g->n / PART;
    const bool negative = best->scale < 0;
    for (int j = 0; j < g->n; j++) {
        const uint8_t level = j < best->first ? 0 : j < best->second ? 1 : 2;
        g->levels[g->order[j]] = (uint8_t)(negative ? 2 - level : level);
    }
    for (int p = 0; p < parts; p++) {
        const int down = parts == 2 ? best->shifts >> (1 - p) & 1 : best->shifts;
        g->down[p] = (uint8_t)(negative ? 1 - down : down);
    }
    g->scale = fabsf(best->scale);
}

/* A group below `zero` keeps scale 0, entry 0 and the shift up. */
static void group_find(iq1_group *g, const encode_book *b, float zero)
{
    const float largest = group_largest(g);
    iq1_best best = {.score = -FLT_MAX, .scale = largest, .first = -1, .second = -1};
    if (largest < zero)
        return;
    if (g->n == GROUP_S)
        borders_s(&best, g);
    else
        borders_m(&best, g);
    if (best.first < 0)
        return;
    group_take_borders(g, &best);
    group_take_entries(g, b);
}

/* All groups of a superblock; returns the largest scale. */
static float groups_find(iq1_group *groups, const float *values, const float *weights, int n,
                         float zero)
{
    const encode_book *b = encode_book_get(BOOK_IQ1);
    float sum = 0, most = 0;
    for (int i = 0; i < QUANT_SUPERBLOCK; i++)
        sum += values[i] * values[i];
    const float mean = 2 * sum / QUANT_SUPERBLOCK;
    for (int k = 0; k < QUANT_SUPERBLOCK / n; k++) {
        group_load(&groups[k], values + k * n, weights != NULL ? weights + k * n : NULL, mean, n);
        group_find(&groups[k], b, zero);
        most = most > groups[k].scale ? most : groups[k].scale;
    }
    return most;
}

static int scale_code(float inverse, float scale)
{
    return clamp(nearest(0.5f * (inverse * scale - 1)), 0, 7);
}

/* ---- IQ1_S ---- */

static void encode_one_iq1_s(const float *values, const float *weights, quant_iq1_s *block)
{
    iq1_group groups[QUANT_SUPERBLOCK / GROUP_S];
    const float most = groups_find(groups, values, weights, GROUP_S, 1e-12f);
    *block = (quant_iq1_s){.d = 0};
    for (int k = 0; k < QUANT_SUPERBLOCK / GROUP_S; k++)
        for (int p = 0; p < 4; p++) {
            block->qs[4 * k + p] = (uint8_t)groups[k].entries[p];
            block->qh[k] |= (uint16_t)(groups[k].entries[p] >> 8 << 3 * p);
        }
    if (most == 0)
        return;
    const float d = most / 15;
    block->d = half_f32_to_f16(d * 1.125f);
    for (int k = 0; k < QUANT_SUPERBLOCK / GROUP_S; k++) {
        const int code = scale_code(1 / d, groups[k].scale) | groups[k].down[0] << 3;
        block->qh[k] |= (uint16_t)(code << 12);
    }
}

void encode_iq1_s(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_iq1_s *block = blocks;
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * QUANT_SUPERBLOCK;
        encode_one_iq1_s(values + at, weights != NULL ? weights + at : NULL, &block[b]);
    }
}

/* ---- IQ1_M ---- */

/* The scale of the superblock for the codes that are stored. */
static float refit_scale(const iq1_group *groups, float d)
{
    const encode_book *b = encode_book_get(BOOK_IQ1);
    float qx = 0, q2 = 0;
    for (int k = 0; k < QUANT_SUPERBLOCK / GROUP_M; k++) {
        const iq1_group *g = &groups[k];
        const float factor = (float)(2 * scale_code(1 / d, g->scale) + 1);
        for (int i = 0; i < GROUP_M; i++) {
            const uint8_t level = b->entry_levels[g->entries[i / PART] * PART + i % PART];
            const float q = shifted[g->down[i / PART]][level] * factor;
            qx += g->w[i] * q * g->x[i];
            q2 += g->w[i] * q * q;
        }
    }
    return q2 > 0 ? qx / q2 : d;
}

static void encode_one_iq1_m(const float *values, const float *weights, quant_iq1_m *block)
{
    enum { GROUPS = QUANT_SUPERBLOCK / GROUP_M };
    iq1_group groups[GROUPS];
    const float most = groups_find(groups, values, weights, GROUP_M, 1e-7f);
    uint16_t words[4] = {0};
    *block = (quant_iq1_m){.qs = {0}};
    for (int k = 0; k < GROUPS; k++) {
        const iq1_group *g = &groups[k];
        block->qs[2 * k] = (uint8_t)g->entries[0];
        block->qs[2 * k + 1] = (uint8_t)g->entries[1];
        block->qh[k] = (uint8_t)(g->entries[0] >> 8 | g->entries[1] >> 8 << 4);
    }
    if (most == 0)
        return;
    const float d = most / 15;
    const uint16_t stored = half_f32_to_f16(refit_scale(groups, d) * 1.1125f);
    for (int k = 0; k < GROUPS; k++) {
        words[k / 4] |= (uint16_t)(scale_code(1 / d, groups[k].scale) << 3 * (k % 4));
        block->qh[k] |= (uint8_t)(groups[k].down[0] << 3 | groups[k].down[1] << 7);
    }
    for (int i = 0; i < 4; i++)
        words[i] |= (uint16_t)((stored >> 4 * i & 15) << 12);
    memcpy(block->scales, words, sizeof words);
}

void encode_iq1_m(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_iq1_m *block = blocks;
    for (size_t b = 0; b < n_blocks; b++) {
        const size_t at = b * QUANT_SUPERBLOCK;
        encode_one_iq1_m(values + at, weights != NULL ? weights + at : NULL, &block[b]);
    }
}
