/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.h - the size of model input, frame sampling, and bicubic resizing.
 *
 * Sizes: both sides become multiples of 32, as close to the original as possible, and the number of
 * pixels stays inside the limits. 32 x 32 pixels are one token. The rules, ties to even included,
 * are those of smart_resize in the reference implementation.
 *
 * Resizing equals Pillow's bicubic sample for sample, because the models were trained on images
 * that Pillow resized. Pillow computes in integers, so the result can be reproduced exactly.
 */
#ifndef MOTE_MEDIA_DECODE_RESIZE_H
#define MOTE_MEDIA_DECODE_RESIZE_H

#include "base/err.h"

#include <stdint.h>

/* Default limit of tokens per image. */
#define MEDIA_DEFAULT_TOKENS 1280

enum {
    MEDIA_SIDE = 32,
    MEDIA_TOKEN_PIXELS = MEDIA_SIDE * MEDIA_SIDE,
    MEDIA_RATIO = 200, /* longest side to shortest, at most */
    MEDIA_IMAGE_MIN = 65536,
    MEDIA_IMAGE_MAX = 16777216,
    MEDIA_VIDEO_MIN = 4096,
    MEDIA_VIDEO_MAX = 25165824, /* of all frames together */
    MEDIA_VIDEO_FPS = 2,        /* sampled frames per second */
    MEDIA_FRAMES_MIN = 4,
    MEDIA_FRAMES_MAX = 768
};

/* Limits of the pixels of all frames; 0: the model's own limit. */
typedef struct media_limits {
    uint64_t min_pixels, max_pixels;
} media_limits;

/* The input size of an image. MOTE_E_ARG: one side is more than MEDIA_RATIO times the other. */
mote_status media_resize_image(uint32_t width, uint32_t height, media_limits limits,
                               uint32_t *out_width, uint32_t *out_height, mote_error *err);
/* The input size of n frames of a video. */
mote_status media_resize_video(uint32_t n, uint32_t width, uint32_t height, media_limits limits,
                               uint32_t *out_width, uint32_t *out_height, mote_error *err);

/* How many of `total` frames are sampled; fps 0: unknown, counts as 24. */
uint32_t media_frames_wanted(uint32_t total, double fps);
/* Index of sampled frame i. */
uint32_t media_frame_at(uint32_t i, uint32_t wanted, uint32_t total);

/* 8-bit RGB without padding between rows. */
typedef struct media_frame {
    uint8_t *rgb; /* [height][width][3] */
    uint32_t width, height;
} media_frame;

/* Resizes to out->width x out->height. The caller allocates out->rgb. */
mote_status media_resize(const media_frame *in, const media_frame *out, mote_error *err);

#endif
