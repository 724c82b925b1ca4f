/* SPDX-License-Identifier: Apache-2.0 */
/*
 * encode_k.c - formats with superblocks of 256 values: Q2_K to Q6_K; see encode.h.
 *
 * A superblock has groups of 16 or 32 values with a scale each. For each group a search tries
 * several scales and keeps the one with the smallest weighted error. All groups of a superblock are
 * searched at the same time: value i of group g is at x[i * groups + g], so that the inner loops run
 * over groups and compile to vector instructions, on x86-64 also for AVX2 and AVX-512
 * (CMakeLists.txt). The operations of one group and their order are
 * those of llama.cpp. A group that needs no search, or keeps its result, takes part with results
 * that are not selected.
 *
 * With weights of an importance matrix the weight of an error also depends on the value and on the
 * superblock, more scales are tried, and the scales of the groups are searched as well
 * (encode_search.h).
 */
#include "convert/encode.h"

#include "convert/encode_search.h"
#include "quant/blocks.h"
#include "quant/half.h"

#include <math.h>
#include <string.h>

enum { MAX_GROUPS = 32, MAX_VALUES = 2 * QUANT_SUPERBLOCK };

/* Loops over groups need a constant count to become vector code. */
#define SEARCH static inline __attribute__((always_inline))

/* Values by group. */
SEARCH void transpose(float *x, const float *values, int groups, int n)
{
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < n; i++)
            x[i * groups + g] = values[g * n + i];
}

/* Weights of one superblock by group, from those of the importance matrix: larger for values with
 * a large magnitude, compared with `share` of the mean square. */
SEARCH void transpose_weights(float *w, const float *values, const float *weights, float share,
                              int groups, int n, int stride)
{
    float sum = 0;
    for (int i = 0; i < QUANT_SUPERBLOCK; i++)
        sum += values[i] * values[i];
    const float mean = share * sum / QUANT_SUPERBLOCK;
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < n; i++) {
            const float v = values[g * n + i];
            w[i * stride + g] = weights[g * n + i] * sqrtf(mean + v * v);
        }
}

/* Sum of the weights of each group. */
SEARCH void sum_weights(float *sums, const float *w, int groups, int n)
{
    for (int g = 0; g < groups; g++)
        sums[g] = 0;
    for (int i = 0; i < groups * n; i += groups)
        for (int g = 0; g < groups; g++)
            sums[g] += w[i + g];
}

/* ---- scale and minimum: value = scale * code - min ---- */

typedef struct affine_search {
    int largest;       /* code */
    float first, step; /* of the range that is divided by the codes, minus `largest` */
    int steps;
    bool absolute; /* error: magnitude, else square */
} affine_search;

/* With weights of an importance matrix, after `largest`. */
#define WEIGHTED_SEARCH -0.9f, 0.05f, 36, false

typedef struct affine_groups {
    float scale[MAX_GROUPS], min[MAX_GROUPS];
    float high[MAX_GROUPS], sum_w[MAX_GROUPS], sum_x[MAX_GROUPS], error[MAX_GROUPS];
    int32_t flat[MAX_GROUPS]; /* all values are equal, or 0 and below */
    int32_t codes[MAX_VALUES];
} affine_groups;

/* Error of codes with scale and minimum. */
SEARCH void affine_error(float *error, const float *x, const float *w, const int32_t *codes,
                         const float *scale, const float *min, int groups, int n, bool absolute)
{
    for (int g = 0; g < groups; g++)
        error[g] = 0;
    for (int i = 0; i < groups * n; i += groups)
        for (int g = 0; g < groups; g++) {
            float diff = scale[g] * (float)codes[i + g] + min[g] - x[i + g];
            diff = absolute ? fabsf(diff) : diff * diff;
            error[g] += w[i + g] * diff;
        }
}

/* The range of values, divided evenly. `min` is not yet negated. */
SEARCH void affine_begin(affine_groups *a, const float *x, const float *w, int groups, int n,
                         const affine_search *s)
{
    float low[MAX_GROUPS], inverse[MAX_GROUPS];
    for (int g = 0; g < groups; g++) {
        low[g] = a->high[g] = x[g];
        a->sum_w[g] = w[g];
        a->sum_x[g] = w[g] * x[g];
    }
    for (int i = groups; i < groups * n; i += groups)
        for (int g = 0; g < groups; g++) {
            low[g] = x[i + g] < low[g] ? x[i + g] : low[g];
            a->high[g] = x[i + g] > a->high[g] ? x[i + g] : a->high[g];
            a->sum_w[g] += w[i + g];
            a->sum_x[g] += w[i + g] * x[i + g];
        }
    for (int g = 0; g < groups; g++) {
        a->min[g] = low[g] > 0 ? 0 : low[g];
        a->flat[g] = a->high[g] == a->min[g];
        inverse[g] = (float)s->largest / (a->high[g] - a->min[g]);
        a->scale[g] = 1 / inverse[g];
    }
    for (int i = 0; i < groups * n; i += groups)
        for (int g = 0; g < groups; g++)
            a->codes[i + g] = clamp(nearest(inverse[g] * (x[i + g] - a->min[g])), 0, s->largest);
    affine_error(a->error, x, w, a->codes, a->scale, a->min, groups, n, s->absolute);
}

/* Codes for one division of the range; least squares give scale and minimum for them. */
SEARCH void affine_try(affine_groups *a, const float *x, const float *w, int groups, int n,
                       const affine_search *s, float division)
{
    float inverse[MAX_GROUPS], l[MAX_GROUPS] = {0}, l2[MAX_GROUPS] = {0}, xl[MAX_GROUPS] = {0};
    float scale[MAX_GROUPS], min[MAX_GROUPS], error[MAX_GROUPS];
    int32_t codes[MAX_VALUES], better[MAX_GROUPS];
    for (int g = 0; g < groups; g++)
        inverse[g] = division / (a->high[g] - a->min[g]);
    for (int i = 0; i < groups * n; i += groups)
        for (int g = 0; g < groups; g++) {
            const int32_t code = clamp(nearest(inverse[g] * (x[i + g] - a->min[g])), 0, s->largest);
            const float weighted = w[i + g] * (float)code;
            codes[i + g] = code;
            l[g] += weighted;
            l2[g] += weighted * (float)code;
            xl[g] += weighted * x[i + g];
        }
    for (int g = 0; g < groups; g++) {
        const float d = a->sum_w[g] * l2[g] - l[g] * l[g];
        scale[g] = (a->sum_w[g] * xl[g] - a->sum_x[g] * l[g]) / d;
        min[g] = (l2[g] * a->sum_x[g] - l[g] * xl[g]) / d;
        scale[g] = min[g] > 0 ? xl[g] / l2[g] : scale[g];
        min[g] = min[g] > 0 ? 0 : min[g];
        better[g] = d > 0 && !a->flat[g];
    }
    affine_error(error, x, w, codes, scale, min, groups, n, s->absolute);
    for (int g = 0; g < groups; g++) {
        better[g] = better[g] && error[g] < a->error[g];
        a->error[g] = better[g] ? error[g] : a->error[g];
        a->scale[g] = better[g] ? scale[g] : a->scale[g];
        a->min[g] = better[g] ? min[g] : a->min[g];
    }
    for (int i = 0; i < groups * n; i += groups)
        for (int g = 0; g < groups; g++)
            a->codes[i + g] = better[g] ? codes[i + g] : a->codes[i + g];
}

SEARCH void affine_find(affine_groups *a, const float *x, const float *w, int groups, int n,
                        const affine_search *s)
{
    affine_begin(a, x, w, groups, n, s);
    for (int step = 0; step <= s->steps; step++)
        affine_try(a, x, w, groups, n, s, s->first + s->step * (float)step + (float)s->largest);
    for (int g = 0; g < groups; g++) {
        a->scale[g] = a->flat[g] ? 0 : a->scale[g];
        a->min[g] = -a->min[g];
        for (int i = 0; a->flat[g] && i < groups * n; i += groups)
            a->codes[i + g] = 0;
    }
}

/* Codes again, with the scales as they are stored. A scale of 0 leaves the codes of the search. */
SEARCH void affine_codes(int32_t *codes, const float *x, int groups, int n, int largest,
                         const float *d, const float *dmin)
{
    for (int i = 0; i < groups * n; i += groups)
        for (int g = 0; g < groups; g++) {
            const int32_t code = clamp(nearest((x[i + g] + dmin[g]) / d[g]), 0, largest);
            codes[i + g] = d[g] != 0 ? code : codes[i + g];
        }
}

/* The codes in the order of the values. */
SEARCH void codes_in_order(uint8_t *out, const int32_t *codes, int groups, int n, int offset)
{
    for (int g = 0; g < groups; g++)
        for (int i = 0; i < n; i++)
            out[g * n + i] = (uint8_t)(codes[i * groups + g] + offset);
}

static float largest_of(const float *values, int n)
{
    float largest = 0;
    for (int i = 0; i < n; i++)
        largest = values[i] > largest ? values[i] : largest;
    return largest;
}

/* ---- Q2_K ---- */

static void pack_pairs(uint8_t qs[64], const uint8_t codes[QUANT_SUPERBLOCK])
{
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 32; j++) {
            const uint8_t *c = codes + 128 * half + j;
            qs[32 * half + j] = (uint8_t)(c[0] | c[32] << 2 | c[64] << 4 | c[96] << 6);
        }
}

/* The scales of the groups, evenly divided. */
static void store_q2_scales(quant_q2_k *block, const affine_groups *a)
{
    const float scale = largest_of(a->scale, 16), min = largest_of(a->min, 16);
    block->d = half_f32_to_f16(scale / 15.0f);
    block->dmin = half_f32_to_f16(min / 15.0f);
    for (int g = 0; g < 16; g++) {
        const int32_t s = scale > 0 ? nearest(15.0f / scale * a->scale[g]) : 0;
        const int32_t m = min > 0 ? nearest(15.0f / min * a->min[g]) : 0;
        block->scales[g] = (uint8_t)(s | m * 16);
    }
}

/* The scales of the groups, searched with weights. */
static void store_q2_scales_weighted(quant_q2_k *block, const affine_groups *a)
{
    uint8_t scales[16], mins[16];
    block->d = half_f32_to_f16(search_positive(scales, a->scale, a->sum_w, 16, 15));
    block->dmin = half_f32_to_f16(search_positive(mins, a->min, a->sum_w, 16, 15));
    for (int g = 0; g < 16; g++)
        block->scales[g] = (uint8_t)(scales[g] | mins[g] << 4);
}

static void encode_one_q2_k(const float *values, const float *weights, quant_q2_k *block)
{
    enum { GROUPS = 16 };
    static const affine_search search = {3, -0.5f, 0.1f, 15, true};
    float x[QUANT_SUPERBLOCK], w[QUANT_SUPERBLOCK], d[GROUPS], dmin[GROUPS];
    affine_groups a;
    uint8_t codes[QUANT_SUPERBLOCK];
    transpose(x, values, GROUPS, 16);
    if (weights == NULL) {
        for (int i = 0; i < QUANT_SUPERBLOCK; i++)
            w[i] = fabsf(x[i]);
        affine_find(&a, x, w, GROUPS, 16, &search);
        store_q2_scales(block, &a);
    } else {
        static const affine_search weighted = {3, WEIGHTED_SEARCH};
        transpose_weights(w, values, weights, 1, GROUPS, 16, GROUPS);
        affine_find(&a, x, w, GROUPS, 16, &weighted);
        store_q2_scales_weighted(block, &a);
    }
    for (int g = 0; g < GROUPS; g++) {
        d[g] = half_f16_to_f32(block->d) * (float)(block->scales[g] & 15);
        dmin[g] = half_f16_to_f32(block->dmin) * (float)(block->scales[g] >> 4);
    }
    affine_codes(a.codes, x, GROUPS, 16, 3, d, dmin);
    codes_in_order(codes, a.codes, GROUPS, 16, 0);
    pack_pairs(block->qs, codes);
}

/* ---- Q4_K, Q5_K ---- */

/* Scales and minimums of 6 bits, in the layout of quant_q4_k. */
static void pack_sixes(uint8_t out[12], const uint8_t *scales, const uint8_t *mins)
{
    for (int g = 0; g < 4; g++) {
        out[g] = (uint8_t)(scales[g] | (scales[g + 4] >> 4) << 6);
        out[g + 4] = (uint8_t)(mins[g] | (mins[g + 4] >> 4) << 6);
        out[g + 8] = (uint8_t)((scales[g + 4] & 15) | (mins[g + 4] & 15) << 4);
    }
}

static uint8_t six_bits(float value)
{
    const uint8_t code = (uint8_t)nearest(value);
    return code < 63 ? code : 63;
}

/* Scales and minimums of one superblock, as they are stored. */
typedef struct stored_scales {
    uint16_t d, dmin;
    uint8_t packed[12];
} stored_scales;

/* Stores the scales of 8 groups; d and dmin are their values after that. */
static void store_scales(stored_scales *out, const float *scale, const float *min, float *d,
                         float *dmin)
{
    uint8_t scales[8], mins[8];
    const float most = largest_of(scale, 8), least = largest_of(min, 8);
    const float per_scale = most > 0 ? 63.0f / most : 0, per_min = least > 0 ? 63.0f / least : 0;
    out->d = half_f32_to_f16(most / 63.0f);
    out->dmin = half_f32_to_f16(least / 63.0f);
    for (int g = 0; g < 8; g++) {
        scales[g] = six_bits(per_scale * scale[g]);
        mins[g] = six_bits(per_min * min[g]);
        d[g] = half_f16_to_f32(out->d) * (float)scales[g];
        dmin[g] = half_f16_to_f32(out->dmin) * (float)mins[g];
    }
    pack_sixes(out->packed, scales, mins);
}

/* The same, with a search for the scales. */
static void store_scales_weighted(stored_scales *out, const float *scale, const float *min,
                                  const float *sum_w, float *d, float *dmin)
{
    uint8_t scales[8], mins[8];
    out->d = half_f32_to_f16(search_positive(scales, scale, sum_w, 8, 63));
    out->dmin = half_f32_to_f16(search_positive(mins, min, sum_w, 8, 63));
    pack_sixes(out->packed, scales, mins);
    for (int g = 0; g < 8; g++) {
        uint8_t s, m;
        quant_q4_k_scale(out->packed, g, &s, &m);
        d[g] = half_f16_to_f32(out->d) * (float)s;
        dmin[g] = half_f16_to_f32(out->dmin) * (float)m;
    }
}

/* Weights without an importance matrix: magnitude, and its root mean square in the group. */
SEARCH void magnitude_weights(float *w, const float *x, int groups)
{
    float mean[MAX_GROUPS] = {0};
    for (int i = 0; i < MAX_VALUES; i += groups)
        for (int g = 0; g < groups; g++)
            mean[g] += x[i + g] * x[i + g];
    for (int g = 0; g < groups; g++)
        mean[g] = sqrtf(mean[g] / 32);
    for (int i = 0; i < MAX_VALUES; i += groups)
        for (int g = 0; g < groups; g++)
            w[i + g] = mean[g] + fabsf(x[i + g]);
}

/* Two superblocks at the same time: sixteen groups fill a vector register of AVX-512. */
SEARCH void encode_with_mins(const float *values, const float *weights, const affine_search *search,
                             stored_scales stored[2], uint8_t codes[MAX_VALUES])
{
    enum { GROUPS = 16, N = 32 };
    float x[MAX_VALUES], w[MAX_VALUES], d[GROUPS], dmin[GROUPS];
    affine_groups a;
    transpose(x, values, GROUPS, N);
    if (weights == NULL)
        magnitude_weights(w, x, GROUPS);
    for (int k = 0; weights != NULL && k < 2; k++)
        transpose_weights(w + 8 * k, values + k * QUANT_SUPERBLOCK, weights + k * QUANT_SUPERBLOCK,
                          2, 8, N, GROUPS);
    affine_find(&a, x, w, GROUPS, N, search);
    for (int k = 0; k < 2; k++) {
        const float *scale = a.scale + 8 * k, *min = a.min + 8 * k;
        if (weights == NULL)
            store_scales(&stored[k], scale, min, d + 8 * k, dmin + 8 * k);
        else
            store_scales_weighted(&stored[k], scale, min, a.sum_w + 8 * k, d + 8 * k, dmin + 8 * k);
    }
    affine_codes(a.codes, x, GROUPS, N, search->largest, d, dmin);
    codes_in_order(codes, a.codes, GROUPS, N, 0);
}

static void put_q4_k(quant_q4_k *block, const stored_scales *s, const uint8_t *codes)
{
    block->d = s->d;
    block->dmin = s->dmin;
    memcpy(block->scales, s->packed, sizeof s->packed);
    for (int quarter = 0; quarter < 4; quarter++)
        for (int j = 0; j < 32; j++) {
            const uint8_t *c = codes + 64 * quarter + j;
            block->qs[32 * quarter + j] = (uint8_t)(c[0] | c[32] << 4);
        }
}

static void put_q5_k(quant_q5_k *block, const stored_scales *s, const uint8_t *codes)
{
    block->d = s->d;
    block->dmin = s->dmin;
    memcpy(block->scales, s->packed, sizeof s->packed);
    memset(block->qh, 0, sizeof block->qh);
    for (int quarter = 0; quarter < 4; quarter++)
        for (int j = 0; j < 32; j++) {
            const uint8_t a = codes[64 * quarter + j], b = codes[64 * quarter + 32 + j];
            block->qs[32 * quarter + j] = (uint8_t)((a & 15) | (b & 15) << 4);
            block->qh[j] |= (uint8_t)(a >> 4 << 2 * quarter | b >> 4 << (2 * quarter + 1));
        }
}

/* The values of two superblocks; of the last one of an odd number, and zeros. */
static const float *pair_of(const float *values, size_t left, float padded[MAX_VALUES])
{
    if (left > 1)
        return values;
    memcpy(padded, values, QUANT_SUPERBLOCK * sizeof *values);
    memset(padded + QUANT_SUPERBLOCK, 0, QUANT_SUPERBLOCK * sizeof *values);
    return padded;
}

#define PAIR_ENCODER(name, largest, ...)                                                           \
    static void encode_##name(const float *values, const float *weights, size_t n_blocks,          \
                              void *blocks)                                                        \
    {                                                                                              \
        static const affine_search search = {largest, __VA_ARGS__, false};                         \
        static const affine_search weighted = {largest, WEIGHTED_SEARCH};                          \
        quant_##name *block = blocks;                                                              \
        float padded[MAX_VALUES], padded_weights[MAX_VALUES];                                      \
        stored_scales stored[2];                                                                   \
        uint8_t codes[MAX_VALUES];                                                                 \
        for (size_t b = 0; b < n_blocks; b += 2) {                                                 \
            const size_t at = b * QUANT_SUPERBLOCK;                                                \
            const float *pair = pair_of(values + at, n_blocks - b, padded);                        \
            if (weights == NULL)                                                                   \
                encode_with_mins(pair, NULL, &search, stored, codes);                              \
            else                                                                                   \
                encode_with_mins(pair, pair_of(weights + at, n_blocks - b, padded_weights),        \
                                 &weighted, stored, codes);                                        \
            for (size_t k = 0; k < 2 && b + k < n_blocks; k++)                                     \
                put_##name(&block[b + k], &stored[k], codes + k * QUANT_SUPERBLOCK);               \
        }                                                                                          \
    }

PAIR_ENCODER(q4_k, 15, -1.0f, 0.1f, 20)
PAIR_ENCODER(q5_k, 31, -0.5f, 0.1f, 15)

/* ---- scale only: value = scale * code; groups of 16 values ---- */

/* The first value with the largest magnitude in each group. */
SEARCH void group_extremes(float *extreme, int32_t *zero, const float *x, int groups)
{
    float largest[MAX_GROUPS] = {0};
    for (int g = 0; g < groups; g++)
        extreme[g] = 0;
    for (int i = 0; i < 16 * groups; i += groups)
        for (int g = 0; g < groups; g++) {
            const float magnitude = fabsf(x[i + g]);
            extreme[g] = magnitude > largest[g] ? x[i + g] : extreme[g];
            largest[g] = magnitude > largest[g] ? magnitude : largest[g];
        }
    for (int g = 0; g < groups; g++)
        zero[g] = largest[g] < GROUP_IS_ZERO;
}

SEARCH void square_weights(float *w, const float *x, int groups)
{
    for (int i = 0; i < 16 * groups; i++)
        w[i] = x[i] * x[i];
}

/* Codes with a given scale, and the weighted sums of least squares. */
SEARCH void scale_sums(int32_t *codes, float *xl, float *l2, const float *x, const float *weights,
                       const float *inverse, int groups, int bound)
{
    for (int g = 0; g < groups; g++)
        xl[g] = l2[g] = 0;
    for (int i = 0; i < 16 * groups; i += groups)
        for (int g = 0; g < groups; g++) {
            const float v = x[i + g], w = weights[i + g];
            const int32_t code = clamp(nearest(inverse[g] * v), -bound, bound - 1);
            codes[i + g] = code;
            xl[g] += w * v * (float)code;
            l2[g] += w * (float)code * (float)code;
        }
}

/* ---- Q6_K ---- */

/* Tries 19 scales; keeps the one with the largest reduction of the error. */
SEARCH void scale_search(float *scale, int32_t *codes, const float *x, const float *w, int groups,
                         int bound)
{
    float extreme[MAX_GROUPS], inverse[MAX_GROUPS], xl[MAX_GROUPS], l2[MAX_GROUPS];
    float best[MAX_GROUPS];
    int32_t zero[MAX_GROUPS], trial[QUANT_SUPERBLOCK], better[MAX_GROUPS];
    group_extremes(extreme, zero, x, groups);
    for (int g = 0; g < groups; g++)
        inverse[g] = (float)-bound / extreme[g];
    scale_sums(codes, xl, l2, x, w, inverse, groups, bound);
    for (int g = 0; g < groups; g++) {
        scale[g] = l2[g] != 0 ? xl[g] / l2[g] : 0;
        best[g] = scale[g] * xl[g];
    }
    for (int step = -9; step <= 9; step++) {
        if (step == 0)
            continue;
        for (int g = 0; g < groups; g++)
            inverse[g] = -((float)bound + 0.1f * (float)step) / extreme[g];
        scale_sums(trial, xl, l2, x, w, inverse, groups, bound);
        for (int g = 0; g < groups; g++) {
            better[g] = l2[g] > 0 && xl[g] * xl[g] > best[g] * l2[g];
            scale[g] = better[g] ? xl[g] / l2[g] : scale[g];
            best[g] = better[g] ? scale[g] * xl[g] : best[g];
        }
        for (int i = 0; i < 16 * groups; i += groups)
            for (int g = 0; g < groups; g++)
                codes[i + g] = better[g] ? trial[i + g] : codes[i + g];
    }
    for (int g = 0; g < groups; g++) {
        scale[g] = zero[g] ? 0 : scale[g];
        for (int i = 0; zero[g] && i < 16 * groups; i += groups)
            codes[i + g] = -bound; /* stored as 0 */
    }
}

/* The scale with the largest magnitude. */
static float extreme_of(const float *scales, int n)
{
    float largest = 0, extreme = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(scales[i]) > largest) {
            largest = fabsf(scales[i]);
            extreme = scales[i];
        }
    return extreme;
}

/* Codes again, with the scales as they are stored. */
SEARCH void scale_codes(int32_t *codes, const float *x, int groups, int bound, const float *d)
{
    for (int i = 0; i < 16 * groups; i += groups)
        for (int g = 0; g < groups; g++) {
            const int32_t code = clamp(nearest(x[i + g] / d[g]), -bound, bound - 1);
            codes[i + g] = d[g] != 0 ? code : codes[i + g];
        }
}

static void encode_one_q6_k(const float *values, const float *weights, quant_q6_k *block)
{
    enum { GROUPS = 16 };
    float x[QUANT_SUPERBLOCK], w[QUANT_SUPERBLOCK], scales[GROUPS], d[GROUPS];
    int32_t found[QUANT_SUPERBLOCK];
    uint8_t codes[QUANT_SUPERBLOCK];
    transpose(x, values, GROUPS, 16);
    if (weights == NULL)
        square_weights(w, x, GROUPS);
    else
        transpose(w, weights, GROUPS, 16);
    scale_search(scales, found, x, w, GROUPS, 32);
    const float extreme = extreme_of(scales, GROUPS);
    memset(block, 0, sizeof *block);
    if (fabsf(extreme) < GROUP_IS_ZERO)
        return;
    const float inverse = -128.0f / extreme;
    block->d = half_f32_to_f16(1 / inverse);
    for (int g = 0; g < GROUPS; g++) {
        const int32_t scale = nearest(inverse * scales[g]);
        block->scales[g] = (int8_t)(scale < 127 ? scale : 127);
        d[g] = half_f16_to_f32(block->d) * (float)block->scales[g];
    }
    scale_codes(found, x, GROUPS, 32, d);
    codes_in_order(codes, found, GROUPS, 16, 32);
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 32; j++) {
            const uint8_t *c = codes + 128 * half + j;
            block->ql[64 * half + j] = (uint8_t)((c[0] & 15) | (c[64] & 15) << 4);
            block->ql[64 * half + 32 + j] = (uint8_t)((c[32] & 15) | (c[96] & 15) << 4);
            block->qh[32 * half + j] =
                (uint8_t)(c[0] >> 4 | c[32] >> 4 << 2 | c[64] >> 4 << 4 | c[96] >> 4 << 6);
        }
}

/* ---- Q3_K ---- */

/* Changes one code at a time while that reduces the error, at most five passes. A group without a
 * change in a pass has none in later ones. */
SEARCH void scale_descend(float *scale, int32_t *codes, const float *x, int groups, int bound)
{
    float extreme[MAX_GROUPS], inverse[MAX_GROUPS], xl[MAX_GROUPS], l2[MAX_GROUPS];
    float squares[MAX_VALUES];
    int32_t zero[MAX_GROUPS];
    square_weights(squares, x, groups);
    group_extremes(extreme, zero, x, groups);
    for (int g = 0; g < groups; g++)
        inverse[g] = (float)-bound / extreme[g];
    scale_sums(codes, xl, l2, x, squares, inverse, groups, bound);
    for (int pass = 0; pass < 5; pass++) {
        int32_t changed = 0;
        for (int i = 0; i < 16 * groups; i += groups)
            for (int g = 0; g < groups; g++) {
                const float v = x[i + g], w = v * v, old = (float)codes[i + g];
                float other_xl = xl[g] - w * v * old, other_l2 = l2[g] - w * old * old;
                const int32_t code = clamp(nearest(v * other_l2 / other_xl), -bound, bound - 1);
                const int32_t possible = (other_xl > 0) & (code != codes[i + g]) & !zero[g];
                other_xl += w * v * (float)code;
                other_l2 += w * (float)code * (float)code;
                const int32_t better = possible & (other_l2 > 0) &
                                       (other_xl * other_xl * l2[g] > xl[g] * xl[g] * other_l2);
                codes[i + g] = better ? code : codes[i + g];
                xl[g] = better ? other_xl : xl[g];
                l2[g] = better ? other_l2 : l2[g];
                changed |= better;
            }
        if (changed == 0)
            break;
    }
    for (int g = 0; g < groups; g++) {
        scale[g] = l2[g] > 0 && !zero[g] ? xl[g] / l2[g] : 0;
        for (int i = 0; zero[g] && i < 16 * groups; i += groups)
            codes[i + g] = -bound; /* stored as 0 */
    }
}

/* Scales of 6 bits: low four in nibbles, high two in the last four bytes. */
static void pack_q3_scales(uint8_t out[12], const uint8_t scales[16])
{
    memset(out, 0, 12);
    for (int g = 0; g < 16; g++) {
        out[g % 8] |= (uint8_t)((scales[g] & 15) << (g < 8 ? 0 : 4));
        out[8 + g % 4] |= (uint8_t)(scales[g] >> 4 << 2 * (g / 4));
    }
}

/* The scales of the groups, evenly divided. */
static void store_q3_scales(quant_q3_k *block, const float scales[16])
{
    const float extreme = extreme_of(scales, 16);
    const float inverse = extreme != 0 ? -32.0f / extreme : 0;
    uint8_t six[16];
    block->d = half_f32_to_f16(extreme != 0 ? 1 / inverse : 0);
    for (int g = 0; g < 16; g++)
        six[g] = (uint8_t)(clamp((int8_t)nearest(inverse * scales[g]), -32, 31) + 32);
    if (extreme != 0)
        pack_q3_scales(block->scales, six);
}

/* The scales of the groups, searched with weights. */
static void store_q3_scales_weighted(quant_q3_k *block, const float scales[16], const float *w)
{
    float sums[16];
    uint8_t six[16];
    sum_weights(sums, w, 16, 16);
    block->d = half_f32_to_f16(search_scale(six, scales, sums, 16, 32));
    pack_q3_scales(block->scales, six);
}

static void put_q3_k(quant_q3_k *block, uint8_t codes[QUANT_SUPERBLOCK])
{
    for (int bit = 0; bit < 8; bit++)
        for (int j = 0; j < 32; j++) {
            block->hmask[j] |= (uint8_t)(codes[32 * bit + j] >> 2 << bit);
            codes[32 * bit + j] &= 3;
        }
    pack_pairs(block->qs, codes);
}

static void q3_group_scales(float d[16], const quant_q3_k *block)
{
    for (int g = 0; g < 16; g++)
        d[g] = half_f16_to_f32(block->d) * (float)quant_q3_k_scale(block->scales, g);
}

/* Two superblocks at the same time: each step of the descent waits for the one before, and two
 * sequences of steps take little more time than one. */
static void encode_pair_q3_k(const float *values, quant_q3_k *blocks, size_t n)
{
    enum { GROUPS = 32 };
    float x[MAX_VALUES], scales[GROUPS], d[GROUPS];
    int32_t found[MAX_VALUES];
    uint8_t codes[MAX_VALUES];
    quant_q3_k pair[2];
    memset(pair, 0, sizeof pair);
    transpose(x, values, GROUPS, 16);
    scale_descend(scales, found, x, GROUPS, 4);
    for (int k = 0; k < 2; k++) {
        store_q3_scales(&pair[k], scales + 16 * k);
        q3_group_scales(d + 16 * k, &pair[k]);
    }
    scale_codes(found, x, GROUPS, 4, d);
    codes_in_order(codes, found, GROUPS, 16, 4);
    for (int k = 0; k < 2; k++)
        put_q3_k(&pair[k], codes + k * QUANT_SUPERBLOCK);
    memcpy(blocks, pair, n * sizeof *blocks);
}

static void encode_weighted_q3_k(const float *values, const float *weights, quant_q3_k *block)
{
    enum { GROUPS = 16 };
    float x[QUANT_SUPERBLOCK], w[QUANT_SUPERBLOCK], scales[GROUPS], d[GROUPS];
    int32_t found[QUANT_SUPERBLOCK];
    uint8_t codes[QUANT_SUPERBLOCK];
    memset(block, 0, sizeof *block);
    transpose(x, values, GROUPS, 16);
    transpose_weights(w, values, weights, 2, GROUPS, 16, GROUPS);
    scale_search(scales, found, x, w, GROUPS, 4);
    store_q3_scales_weighted(block, scales, w);
    q3_group_scales(d, block);
    scale_codes(found, x, GROUPS, 4, d);
    codes_in_order(codes, found, GROUPS, 16, 4);
    put_q3_k(block, codes);
}

static void encode_q3_k(const float *values, const float *weights, size_t n_blocks, void *blocks)
{
    quant_q3_k *block = blocks;
    float padded[MAX_VALUES];
    for (size_t b = 0; weights != NULL && b < n_blocks; b++)
        encode_weighted_q3_k(values + b * QUANT_SUPERBLOCK, weights + b * QUANT_SUPERBLOCK,
                             block + b);
    for (size_t b = 0; weights == NULL && b < n_blocks; b += 2)
        encode_pair_q3_k(pair_of(values + b * QUANT_SUPERBLOCK, n_blocks - b, padded), block + b,
                         n_blocks - b < 2 ? 1 : 2);
}

/* ---- rows ---- */

#define ENCODER(name)                                                                              \
    static void encode_##name(const float *values, const float *weights, size_t n_blocks,          \
                              void *blocks)                                                        \
    {                                                                                              \
        quant_##name *block = blocks;                                                              \
        for (size_t b = 0; b < n_blocks; b++) {                                                    \
            const size_t at = b * QUANT_SUPERBLOCK;                                                \
            encode_one_##name(values + at, weights != NULL ? weights + at : NULL, block + b);      \
        }                                                                                          \
    }

ENCODER(q2_k)
ENCODER(q6_k)

/* The build sets the name for the instruction sets that it compiles this file for. */
#ifndef ENCODE_K_SET
#define ENCODE_K_SET encode_k_baseline
#endif
const encode_k_set ENCODE_K_SET = {encode_q2_k, encode_q3_k, encode_q4_k, encode_q5_k, encode_q6_k};
