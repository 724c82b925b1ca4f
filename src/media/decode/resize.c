/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c - see resize.h.
 *
 * Two passes, across and down, with 8-bit samples between them. An output sample is a
 * weighted sum of the inputs under a cubic of width 4, stretched when the picture shrinks so that
 * every input counts. Weights are normalised in doubles and then rounded to 22 bits; sums are
 * exact in 32 bits, rounded once and clamped. Doubles are only added, multiplied and divided, so
 * the weights are the same everywhere.
 */
#include "media/decode/resize.h"

#include "base/ckd.h"
#include "base/mem.h"

#include <string.h>

enum { WEIGHT_BITS = 22, CHANNELS = 3 };

/* Where each output sample looks, along one axis. */
typedef struct axis {
    uint32_t out;
    uint32_t taps;    /* room for the weights of one sample */
    uint32_t *first;  /* [out]: the first input */
    uint32_t *n;      /* [out]: how many follow it, it included */
    int32_t *weights; /* [out][taps] */
} axis;

/* Keys' cubic with a = -1/2. */
static double cubic(double t)
{
    const double a = -0.5;
    t = t < 0 ? -t : t;
    if (t < 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    if (t < 2)
        return (((t - 5) * t + 8) * t - 4) * a;
    return 0;
}

static int32_t fixed(double weight)
{
    const double scaled = weight * (1 << WEIGHT_BITS);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

static void fill_sample(axis *a, uint32_t i, uint32_t in, double scale, double *weights)
{
    const double stretch = scale < 1 ? 1 : scale;
    const double centre = (i + 0.5) * scale, reach = 2 * stretch;
    const double low = centre - reach + 0.5, high = centre + reach + 0.5;
    const uint32_t first = low < 0 ? 0 : (uint32_t)low;
    const uint32_t end = high > in ? in : (uint32_t)high;
    const double narrow = 1 / stretch;
    double sum = 0;
    for (uint32_t j = first; j < end; j++) {
        const double w = cubic((j - centre + 0.5) * narrow);
        weights[j - first] = w;
        sum += w;
    }
    a->first[i] = first;
    a->n[i] = end - first;
    for (uint32_t j = 0; j < a->n[i]; j++)
        a->weights[(size_t)i * a->taps + j] = fixed(sum != 0 ? weights[j] * (1 / sum) : weights[j]);
}

static void axis_fini(axis *a)
{
    mem_free(a->first);
    mem_free(a->n);
    mem_free(a->weights);
}

static mote_status axis_make(axis *a, uint32_t in, uint32_t out, mote_error *err)
{
    const double scale = (double)in / out, stretch = scale < 1 ? 1 : scale;
    const uint32_t taps = (uint32_t)(2 * stretch + 1) * 2 + 1;
    size_t n_weights;
    *a = (axis){.out = out, .taps = taps};
    double *weights = mem_new(taps, sizeof *weights);
    a->first = mem_new(out, sizeof *a->first);
    a->n = mem_new(out, sizeof *a->n);
    a->weights =
        ckd_mul_size(out, taps, &n_weights) ? mem_new(n_weights, sizeof *a->weights) : NULL;
    mote_status status = MOTE_OK;
    if (weights == NULL || a->first == NULL || a->n == NULL || a->weights == NULL)
        status = err_set(err, MOTE_E_MEMORY, "no memory to resize a picture");
    for (uint32_t i = 0; status == MOTE_OK && i < out; i++)
        fill_sample(a, i, in, scale, weights);
    mem_free(weights);
    if (status != MOTE_OK)
        axis_fini(a);
    return status;
}

static uint8_t rounded(int32_t sum)
{
    const int32_t value = sum >> WEIGHT_BITS; /* half was added at the start */
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* One row across. */
static void across(const axis *a, const uint8_t *in, uint8_t *out)
{
    for (uint32_t i = 0; i < a->out; i++) {
        const int32_t *w = a->weights + (size_t)i * a->taps;
        const uint8_t *at = in + (size_t)a->first[i] * CHANNELS;
        int32_t sum[CHANNELS] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1),
                                 1 << (WEIGHT_BITS - 1)};
        for (uint32_t j = 0; j < a->n[i]; j++, at += CHANNELS)
            for (int c = 0; c < CHANNELS; c++)
                sum[c] += at[c] * w[j];
        for (int c = 0; c < CHANNELS; c++)
            *out++ = rounded(sum[c]);
    }
}

/* One row of the result from the rows it looks at: all its samples at once, row after row. */
static void down(const axis *a, uint32_t i, const uint8_t *in, size_t row_bytes, int32_t *sums,
                 uint8_t *out)
{
    const int32_t *w = a->weights + (size_t)i * a->taps;
    const uint8_t *row = in + a->first[i] * row_bytes;
    for (size_t x = 0; x < row_bytes; x++)
        sums[x] = 1 << (WEIGHT_BITS - 1);
    for (uint32_t j = 0; j < a->n[i]; j++, row += row_bytes)
        for (size_t x = 0; x < row_bytes; x++)
            sums[x] += row[x] * w[j];
    for (size_t x = 0; x < row_bytes; x++)
        out[x] = rounded(sums[x]);
}

static mote_status no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "no memory to resize a picture");
}

/* A pass across, to a picture of the same height. */
static mote_status pass_across(const media_frame *in, const media_frame *out, mote_error *err)
{
    axis a;
    TRY(axis_make(&a, in->width, out->width, err));
    for (uint32_t y = 0; y < in->height; y++)
        across(&a, in->rgb + (size_t)y * in->width * CHANNELS,
               out->rgb + (size_t)y * out->width * CHANNELS);
    axis_fini(&a);
    return MOTE_OK;
}

/* A pass down, to a picture of the same width. */
static mote_status pass_down(const media_frame *in, const media_frame *out, mote_error *err)
{
    const size_t row_bytes = (size_t)out->width * CHANNELS;
    axis a;
    int32_t *sums = mem_new(row_bytes, sizeof *sums);
    if (sums == NULL)
        return no_memory(err);
    mote_status status = axis_make(&a, in->height, out->height, err);
    for (uint32_t y = 0; status == MOTE_OK && y < out->height; y++)
        down(&a, y, in->rgb, row_bytes, sums, out->rgb + y * row_bytes);
    if (status == MOTE_OK)
        axis_fini(&a);
    mem_free(sums);
    return status;
}

/* Pillow's rule since version 13: what loses much more height than width loses the height first.
 * Before, and for all other pictures, the pass across comes first. */
static bool goes_down_first(const media_frame *in, const media_frame *out)
{
    const int64_t less_high = (int64_t)in->height - out->height;
    const int64_t less_wide = (int64_t)in->width - out->width;
    return less_high > 0 && less_high > 2 * less_wide;
}

mote_status media_resize(const media_frame *in, const media_frame *out, mote_error *err)
{
    if (in->width == 0 || in->height == 0 || out->width == 0 || out->height == 0)
        return err_set(err, MOTE_E_ARG, "a picture without pixels cannot be resized");
    if (in->width == out->width && in->height == out->height) {
        memcpy(out->rgb, in->rgb, (size_t)in->width * in->height * CHANNELS);
        return MOTE_OK;
    }
    if (in->width == out->width)
        return pass_down(in, out, err);
    if (in->height == out->height)
        return pass_across(in, out, err);
    const bool down_first = goes_down_first(in, out);
    media_frame between = {.width = down_first ? in->width : out->width,
                           .height = down_first ? out->height : in->height};
    size_t bytes;
    if (!ckd_mul_size((size_t)between.width * CHANNELS, between.height, &bytes))
        return no_memory(err);
    between.rgb = mem_new(bytes, 1);
    if (between.rgb == NULL)
        return no_memory(err);
    mote_status status = (down_first ? pass_down : pass_across)(in, &between, err);
    if (status == MOTE_OK)
        status = (down_first ? pass_across : pass_down)(&between, out, err);
    mem_free(between.rgb);
    return status;
}
