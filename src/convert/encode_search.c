/* SPDX-License-Identifier: Apache-2.0 */
/* encode_search.c - see encode_search.h. */
#include "convert/encode_search.h"

#include <math.h>
#include <stdbool.h>

/* ---- scale ---- */

/* Codes for one scale, and the weighted sums of least squares. */
static void scale_sums(uint8_t *codes, float *xl, float *l2, const float *x, const float *w,
                       size_t n, int bound, float inverse)
{
    *xl = *l2 = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t l = clamp(nearest(inverse * x[i]), -bound, bound - 1);
        codes[i] = (uint8_t)(l + bound);
        *xl += w[i] * x[i] * (float)l;
        *l2 += w[i] * (float)l * (float)l;
    }
}

float search_scale(uint8_t *codes, const float *x, const float *w, size_t n, int bound)
{
    float largest = 0, extreme = 0, xl, l2;
    uint8_t trial[32];
    for (size_t i = 0; i < n; i++)
        if (fabsf(x[i]) > largest) {
            largest = fabsf(x[i]);
            extreme = x[i];
        }
    memset(codes, 0, n);
    if (largest < GROUP_IS_ZERO)
        return 0;
    scale_sums(codes, &xl, &l2, x, w, n, bound, (float)-bound / extreme);
    float scale = l2 != 0 ? xl / l2 : 0, best = scale * xl;
    for (int step = -9; step <= 9; step++) {
        if (step == 0)
            continue;
        scale_sums(trial, &xl, &l2, x, w, n, bound, -((float)bound + 0.1f * (float)step) / extreme);
        if (l2 > 0 && xl * xl > best * l2) {
            memcpy(codes, trial, n);
            scale = xl / l2;
            best = scale * xl;
        }
    }
    return scale;
}

/* ---- positive values ---- */

/* Error of codes that are the nearest for one scale. Of the first scale, codes are not limited and
 * have 8 bits. */
static float positive_error(const float *x, const float *w, size_t n, float inverse, int largest)
{
    const float scale = 1 / inverse;
    float error = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t l = nearest(inverse * x[i]);
        l = largest == 0 ? (uint8_t)l : l < largest ? l : largest;
        const float diff = x[i] - scale * (float)l;
        error += w[i] * diff * diff;
    }
    return error;
}

/* Changes one code at a time while that reduces the error, at most five passes. */
static void positive_descend(uint8_t *codes, const float *x, const float *w, size_t n, int largest,
                             float *xl, float *l2)
{
    bool changed = true;
    for (int pass = 0; pass < 5 && changed; pass++) {
        changed = false;
        for (size_t i = 0; i < n; i++) {
            const float old = (float)codes[i];
            float other_xl = *xl - w[i] * x[i] * old, other_l2 = *l2 - w[i] * old * old;
            if (!(other_xl > 0 && other_l2 > 0))
                continue;
            int32_t l = nearest(x[i] * other_l2 / other_xl);
            l = l < largest ? l : largest;
            if (l == codes[i])
                continue;
            other_xl += w[i] * x[i] * (float)l;
            other_l2 += w[i] * (float)l * (float)l;
            if (!(other_xl * other_xl * *l2 > *xl * *xl * other_l2))
                continue;
            codes[i] = (uint8_t)l;
            *xl = other_xl;
            *l2 = other_l2;
            changed = true;
        }
    }
}

float search_positive(uint8_t *codes, const float *x, const float *w, size_t n, int largest)
{
    float most = 0, xl = 0, l2 = 0;
    for (size_t i = 0; i < n; i++)
        most = most > x[i] ? most : x[i];
    memset(codes, 0, n);
    if (most < GROUP_IS_ZERO)
        return 0;
    float inverse = (float)largest / most, best = positive_error(x, w, n, inverse, 0);
    for (int step = -4; step <= 4; step++) {
        const float other = (0.1f * (float)step + (float)largest) / most;
        const float error = step != 0 ? positive_error(x, w, n, other, largest) : best;
        if (error < best) {
            best = error;
            inverse = other;
        }
    }
    for (size_t i = 0; i < n; i++) {
        int32_t l = nearest(inverse * x[i]);
        l = l < largest ? l : largest;
        codes[i] = (uint8_t)l;
        xl += w[i] * x[i] * (float)l;
        l2 += w[i] * (float)l * (float)l;
    }
    positive_descend(codes, x, w, n, largest, &xl, &l2);
    return l2 > 0 ? xl / l2 : 0;
}

/* ---- scale and minimum ---- */

static float affine_error(const uint8_t *codes, const float *x, const float *w, size_t n,
                          float scale, float min)
{
    float error = 0;
    for (size_t i = 0; i < n; i++) {
        const float diff = scale * (float)codes[i] + min - x[i];
        error += w[i] * (diff * diff);
    }
    return error;
}

/* Codes for one division of the range; least squares give scale and minimum for them. False: they
 * have none. */
static bool affine_try(uint8_t *codes, const float *x, const float *w, size_t n, int largest,
                       float inverse, const float sums[2], float low, float *scale, float *min)
{
    float l = 0, l2 = 0, xl = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t code = clamp(nearest(inverse * (x[i] - low)), 0, largest);
        codes[i] = (uint8_t)code;
        l += w[i] * (float)code;
        l2 += w[i] * (float)code * (float)code;
        xl += w[i] * (float)code * x[i];
    }
    const float d = sums[0] * l2 - l * l;
    if (!(d > 0))
        return false;
    *scale = (sums[0] * xl - sums[1] * l) / d;
    *min = (l2 * sums[1] - l * xl) / d;
    if (*min > 0) {
        *min = 0;
        *scale = xl / l2;
    }
    return true;
}

float search_affine(uint8_t *codes, float *min, const float *x, const float *w, size_t n,
                    int largest)
{
    float low = x[0], high = x[0], sums[2] = {w[0], w[0] * x[0]}, other_scale, other_min;
    uint8_t trial[32];
    for (size_t i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        sums[0] += w[i];
        sums[1] += w[i] * x[i];
    }
    low = low > 0 ? 0 : low;
    memset(codes, 0, n);
    *min = -low;
    if (high <= low)
        return 0;
    float inverse = (float)largest / (high - low), scale = 1 / inverse, least = low;
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)clamp(nearest(inverse * (x[i] - low)), 0, largest);
    float best = affine_error(codes, x, w, n, scale, low);
    for (int step = 0; step <= 36; step++) {
        /* The range begins at the minimum that is the best so far. */
        inverse = (-0.9f + 0.05f * (float)step + (float)largest) / (high - least);
        if (!affine_try(trial, x, w, n, largest, inverse, sums, least, &other_scale, &other_min))
            continue;
        const float error = affine_error(trial, x, w, n, other_scale, other_min);
        if (error < best) {
            memcpy(codes, trial, n);
            best = error;
            scale = other_scale;
            least = other_min;
        }
    }
    *min = -least;
    return scale;
}
