/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize_fit.h - which size a picture or film is given to the model in.
 *
 * Sides become multiples of 32, as near to the original as can be, with a number of pixels
 * inside the limits; a square of 32 x 32 is one token. These are the reference's rules, ties
 * to even and all.
 */
#ifndef MOTE_MEDIA_DECODE_RESIZE_FIT_H
#define MOTE_MEDIA_DECODE_RESIZE_FIT_H

#include "base/err.h"

#include <stdint.h>

/* Tokens of a picture, unless somebody says otherwise. */
#define MEDIA_USUAL_TOKENS 1280

enum {
    MEDIA_SIDE = 32,
    MEDIA_TOKEN_PIXELS = MEDIA_SIDE * MEDIA_SIDE,
    MEDIA_RATIO = 200, /* the longest side against the shortest */
    MEDIA_IMAGE_MIN = 65536,
    MEDIA_IMAGE_MAX = 16777216,
    MEDIA_VIDEO_MIN = 4096,
    MEDIA_VIDEO_MAX = 25165824, /* of all frames together */
    MEDIA_VIDEO_FPS = 2,
    MEDIA_FRAMES_MIN = 4,
    MEDIA_FRAMES_MAX = 768
};

/* Pixels, in all; 0: the model's own limits. */
typedef struct media_limits {
    uint64_t least, most;
} media_limits;

/* MOTE_E_ARG: one side is more than MEDIA_RATIO times the other. */
mote_status media_resize_image(uint32_t width, uint32_t height, media_limits limits,
                               uint32_t *out_width, uint32_t *out_height, mote_error *err);
/* So with n frames of a film. */
mote_status media_resize_video(uint32_t n, uint32_t width, uint32_t height, media_limits limits,
                               uint32_t *out_width, uint32_t *out_height, mote_error *err);

/* How many of `total` frames at `fps` (0: not known, 24) are looked at; then number i of them. */
uint32_t media_frames_wanted(uint32_t total, double fps);
uint32_t media_frame_at(uint32_t i, uint32_t wanted, uint32_t total);

#endif
