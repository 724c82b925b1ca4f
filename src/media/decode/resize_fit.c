/* SPDX-License-Identifier: Apache-2.0 */
/* resize_fit.c - see fit.h. */
#include "media/decode/resize_fit.h"

#include <math.h>

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

static mote_status check_sides(uint32_t width, uint32_t height, mote_error *err)
{
    const uint32_t longer = width > height ? width : height;
    const uint32_t shorter = width > height ? height : width;
    if (shorter == 0)
        return err_set(err, MOTE_E_ARG, "a picture without pixels");
    if ((double)longer / shorter > MEDIA_RATIO)
        return err_set(err, MOTE_E_ARG,
                       "a picture of %u x %u: one side must not be more than %d times the other",
                       width, height, MEDIA_RATIO);
    return MOTE_OK;
}

/* `frames`: of the source; `counted`: as the limits count them. */
static void fit(double frames, double counted, double width, double height, media_limits limits,
                uint32_t *out_width, uint32_t *out_height)
{
    const double least = (double)limits.least, most = (double)limits.most;
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
    TRY(check_sides(width, height, err));
    if (limits.most == 0)
        limits.most = MEDIA_IMAGE_MAX;
    if (limits.least == 0)
        limits.least = limits.most < MEDIA_IMAGE_MIN ? limits.most : MEDIA_IMAGE_MIN;
    fit(1, 1, width, height, limits, out_width, out_height);
    return MOTE_OK;
}

mote_status media_resize_video(uint32_t n, uint32_t width, uint32_t height, media_limits limits,
                               uint32_t *out_width, uint32_t *out_height, mote_error *err)
{
    TRY(check_sides(width, height, err));
    double w = width, h = height;
    if (limits.most == 0)
        limits.most = MEDIA_VIDEO_MAX;
    if (limits.least == 0)
        limits.least = limits.most < MEDIA_VIDEO_MIN ? limits.most : MEDIA_VIDEO_MIN;
    if (w < MEDIA_SIDE || h < MEDIA_SIDE) {
        const double grow = fmax(MEDIA_SIDE / w, MEDIA_SIDE / h);
        w = (double)(uint32_t)(w * grow);
        h = (double)(uint32_t)(h * grow);
    }
    fit(n, rint(n / 2.0) * 2, w, h, limits, out_width, out_height);
    return MOTE_OK;
}

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
