/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.c - see resize.h.
 *
 * The bicubic filter has two passes, horizontal and vertical, with 8-bit samples between them. An
 * output sample is a weighted sum of the inputs under a cubic of width 4. When the image shrinks,
 * the cubic is widened so that every input counts. Weights are normalised in double and rounded to
 * 22 bits. Sums are exact in 32 bits, rounded once and clamped. The doubles are only added,
 * multiplied and divided, so the weights are the same on every machine.
 */
#include "media/decode/resize.h"

#include "base/ckd.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* ---- sizes ---- */

static double nearest_side(double side)
{
    return rint(side / MEDIA_SIDE) * MEDIA_SIDE; /* ties to even */
}

static double lower_side(double side)
{
    const double whole = floor(side / MEDIA_SIDE) * MEDIA_SIDE;
    return whole < MEDIA_SIDE ? MEDIA_SIDE : whole;
}

static double upper_side(double side)
{
    return ceil(side / MEDIA_SIDE) * MEDIA_SIDE;
}

static mote_status check_ratio(uint32_t width, uint32_t height, mote_error *err)
{
    const uint32_t longer = width > height ? width : height;
    const uint32_t shorter = width > height ? height : width;
    if (shorter == 0)
        return err_set(err, MOTE_E_ARG, "invalid image: width or height is 0");
    if ((double)longer / shorter > MEDIA_RATIO)
        return err_set(err, MOTE_E_ARG,
                       "the image has %u x %u pixels; the longer side must be at most %d times the "
                       "shorter",
                       width, height, MEDIA_RATIO);
    return MOTE_OK;
}

/* `frames`: of the source; `counted`: rounded to an even number, as the limits count them. */
static void fit_to_limits(double frames, double counted, double width, double height,
                          media_limits limits, uint32_t *out_width, uint32_t *out_height)
{
    const double least = (double)limits.min_pixels, most = (double)limits.max_pixels;
    double w = nearest_side(width), h = nearest_side(height);
    if (counted * h * w > most) {
        const double shrink = sqrt(frames * height * width / most);
        w = lower_side(width / shrink);
        h = lower_side(height / shrink);
    } else if (counted * h * w < least) {
        const double grow = sqrt(least / (frames * height * width));
        w = upper_side(width * grow);
        h = upper_side(height * grow);
    }
    *out_width = (uint32_t)w;
    *out_height = (uint32_t)h;
}

mote_status media_resize_image(uint32_t width, uint32_t height, media_limits limits,
                               uint32_t *out_width, uint32_t *out_height, mote_error *err)
{
    TRY(check_ratio(width, height, err));
    if (limits.max_pixels == 0)
        limits.max_pixels = MEDIA_IMAGE_MAX;
    if (limits.min_pixels == 0)
        limits.min_pixels =
            limits.max_pixels < MEDIA_IMAGE_MIN ? limits.max_pixels : MEDIA_IMAGE_MIN;
    fit_to_limits(1, 1, width, height, limits, out_width, out_height);
    return MOTE_OK;
}

mote_status media_resize_video(uint32_t n, uint32_t width, uint32_t height, media_limits limits,
                               uint32_t *out_width, uint32_t *out_height, mote_error *err)
{
    TRY(check_ratio(width, height, err));
    double w = width, h = height;
    if (limits.max_pixels == 0)
        limits.max_pixels = MEDIA_VIDEO_MAX;
    if (limits.min_pixels == 0)
        limits.min_pixels =
            limits.max_pixels < MEDIA_VIDEO_MIN ? limits.max_pixels : MEDIA_VIDEO_MIN;
    if (w < MEDIA_SIDE || h < MEDIA_SIDE) {
        const double grow = fmax(MEDIA_SIDE / w, MEDIA_SIDE / h);
        w = (double)(uint32_t)(w * grow);
        h = (double)(uint32_t)(h * grow);
    }
    fit_to_limits(n, rint(n / 2.0) * 2, w, h, limits, out_width, out_height);
    return MOTE_OK;
}

/* ---- frame sampling ---- */

uint32_t media_frames_wanted(uint32_t total, double fps)
{
    const double n = total / (fps > 0 ? fps : 24.0) * MEDIA_VIDEO_FPS;
    uint32_t wanted = n < MEDIA_FRAMES_MIN   ? MEDIA_FRAMES_MIN
                      : n > MEDIA_FRAMES_MAX ? MEDIA_FRAMES_MAX
                                             : (uint32_t)n;
    return wanted < total ? wanted : total;
}

uint32_t media_frame_at(uint32_t i, uint32_t wanted, uint32_t total)
{
    if (wanted < 2)
        return 0;
    return (uint32_t)rint((double)i * (total - 1) / (wanted - 1));
}

/* ---- bicubic ---- */

enum { WEIGHT_BITS = 22, CHANNELS = 3 };

/* The inputs and weights of each output sample along one axis. */
typedef struct axis {
    uint32_t out;
    uint32_t taps;    /* weights per sample, at most */
    uint32_t *first;  /* [out]: index of the first input */
    uint32_t *n;      /* [out]: number of inputs */
    int32_t *weights; /* [out][taps] */
} axis;

/* Keys' cubic with a = -1/2. */
static double keys_cubic(double t)
{
    const double a = -0.5;
    t = t < 0 ? -t : t;
    if (t < 1)
        return ((a + 2) * t - (a + 3)) * t * t + 1;
    if (t < 2)
        return (((t - 5) * t + 8) * t - 4) * a;
    return 0;
}

static int32_t fixed_point(double weight)
{
    const double scaled = weight * (1 << WEIGHT_BITS);
    return (int32_t)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

/* Inputs and weights of output sample i. `in`: number of inputs; `scale`: inputs per output;
 * `weights`: buffer of a->taps entries. */
static void axis_fill_sample(axis *a, uint32_t i, uint32_t in, double scale, double *weights)
{
    const double widening = scale < 1 ? 1 : scale;
    const double centre = (i + 0.5) * scale, reach = 2 * widening;
    const double low = centre - reach + 0.5, high = centre + reach + 0.5;
    const uint32_t first = low < 0 ? 0 : (uint32_t)low;
    const uint32_t end = high > in ? in : (uint32_t)high;
    const double narrow = 1 / widening;
    double sum = 0;
    for (uint32_t j = first; j < end; j++) {
        const double w = keys_cubic((j - centre + 0.5) * narrow);
        weights[j - first] = w;
        sum += w;
    }
    a->first[i] = first;
    a->n[i] = end - first;
    for (uint32_t j = 0; j < a->n[i]; j++)
        a->weights[(size_t)i * a->taps + j] =
            fixed_point(sum != 0 ? weights[j] * (1 / sum) : weights[j]);
}

static mote_status resize_no_memory(mote_error *err)
{
    return err_set(err, MOTE_E_MEMORY, "out of memory while resizing an image");
}

static void axis_fini(axis *a)
{
    mem_free(a->first);
    mem_free(a->n);
    mem_free(a->weights);
}

static mote_status axis_make(axis *a, uint32_t in, uint32_t out, mote_error *err)
{
    const double scale = (double)in / out, widening = scale < 1 ? 1 : scale;
    const uint32_t taps = (uint32_t)(2 * widening + 1) * 2 + 1;
    size_t n_weights;
    *a = (axis){.out = out, .taps = taps};
    double *weights = mem_new(taps, sizeof *weights);
    a->first = mem_new(out, sizeof *a->first);
    a->n = mem_new(out, sizeof *a->n);
    a->weights =
        ckd_mul_size(out, taps, &n_weights) ? mem_new(n_weights, sizeof *a->weights) : NULL;
    mote_status status = MOTE_OK;
    if (weights == NULL || a->first == NULL || a->n == NULL || a->weights == NULL)
        status = resize_no_memory(err);
    for (uint32_t i = 0; status == MOTE_OK && i < out; i++)
        axis_fill_sample(a, i, in, scale, weights);
    mem_free(weights);
    if (status != MOTE_OK)
        axis_fini(a);
    return status;
}

static uint8_t sum_to_sample(int32_t sum)
{
    const int32_t value = sum >> WEIGHT_BITS; /* the sum starts with one half */
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* One row of the horizontal pass. */
static void resize_row(const axis *a, const uint8_t *in, uint8_t *out)
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
            *out++ = sum_to_sample(sum[c]);
    }
}

/* One output row of the vertical pass: adds weighted input rows. */
static void sum_rows(const axis *a, uint32_t i, const uint8_t *in, size_t row_bytes, int32_t *sums,
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
        out[x] = sum_to_sample(sums[x]);
}

/* Changes the width. */
static mote_status resize_width(const media_frame *in, const media_frame *out, mote_error *err)
{
    axis a;
    TRY(axis_make(&a, in->width, out->width, err));
    for (uint32_t y = 0; y < in->height; y++)
        resize_row(&a, in->rgb + (size_t)y * in->width * CHANNELS,
                   out->rgb + (size_t)y * out->width * CHANNELS);
    axis_fini(&a);
    return MOTE_OK;
}

/* Changes the height. */
static mote_status resize_height(const media_frame *in, const media_frame *out, mote_error *err)
{
    const size_t row_bytes = (size_t)out->width * CHANNELS;
    axis a;
    int32_t *sums = mem_new(row_bytes, sizeof *sums);
    if (sums == NULL)
        return resize_no_memory(err);
    mote_status status = axis_make(&a, in->height, out->height, err);
    for (uint32_t y = 0; status == MOTE_OK && y < out->height; y++)
        sum_rows(&a, y, in->rgb, row_bytes, sums, out->rgb + y * row_bytes);
    if (status == MOTE_OK)
        axis_fini(&a);
    mem_free(sums);
    return status;
}

/* Pillow 13 and later: if much more height than width is lost, the vertical pass comes first.
 * Otherwise, and in older versions, the horizontal pass does. */
static bool height_first(const media_frame *in, const media_frame *out)
{
    const int64_t less_high = (int64_t)in->height - out->height;
    const int64_t less_wide = (int64_t)in->width - out->width;
    return less_high > 0 && less_high > 2 * less_wide;
}

mote_status media_resize(const media_frame *in, const media_frame *out, mote_error *err)
{
    if (in->width == 0 || in->height == 0 || out->width == 0 || out->height == 0)
        return err_set(err, MOTE_E_ARG, "invalid image: width or height is 0");
    if (in->width == out->width && in->height == out->height) {
        memcpy(out->rgb, in->rgb, (size_t)in->width * in->height * CHANNELS);
        return MOTE_OK;
    }
    if (in->width == out->width)
        return resize_height(in, out, err);
    if (in->height == out->height)
        return resize_width(in, out, err);
    const bool vertical_first = height_first(in, out);
    media_frame between = {.width = vertical_first ? in->width : out->width,
                           .height = vertical_first ? out->height : in->height};
    size_t bytes;
    if (!ckd_mul_size((size_t)between.width * CHANNELS, between.height, &bytes))
        return resize_no_memory(err);
    between.rgb = mem_new(bytes, 1);
    if (between.rgb == NULL)
        return resize_no_memory(err);
    mote_status status = (vertical_first ? resize_height : resize_width)(in, &between, err);
    if (status == MOTE_OK)
        status = (vertical_first ? resize_width : resize_height)(&between, out, err);
    mem_free(between.rgb);
    return status;
}
