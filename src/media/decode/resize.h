/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize.h - pictures of one size to another, sample for sample as Pillow's bicubic does it.
 *
 * The models were trained on pictures that Pillow (or what equals it within two levels) had
 * resized. It works in integers, so the same can be had exactly.
 */
#ifndef MOTE_MEDIA_DECODE_RESIZE_H
#define MOTE_MEDIA_DECODE_RESIZE_H

#include "base/err.h"

#include <stdint.h>

/* 8-bit RGB, rows without gaps. */
typedef struct media_frame {
    uint8_t *rgb; /* [height][width][3] */
    uint32_t width, height;
} media_frame;

/* out->width and height say which size is wanted; out->rgb has room for it. */
mote_status media_resize(const media_frame *in, const media_frame *out, mote_error *err);

#endif
