/* SPDX-License-Identifier: Apache-2.0 */
/* decode_int.h - what the decoders share. */
#ifndef MOTE_MEDIA_DECODE_DECODE_INT_H
#define MOTE_MEDIA_DECODE_DECODE_INT_H

#include "media/decode/decode.h"

typedef mote_status media_probe_fn(str file, media_info *out, mote_error *err);
typedef mote_status media_decode_fn(str file, media_frame_fn *frame, void *with, mote_error *err);

media_probe_fn media_probe_jpeg, media_probe_png, media_probe_webp, media_probe_gif,
    media_probe_avi;
media_decode_fn media_decode_jpeg, media_decode_png, media_decode_webp, media_decode_gif,
    media_decode_avi;

/* Decoders for MEDIA_VIDEO, brought by a program of its own (ffmpeg_main.c). */
void media_set_foreign(media_probe_fn *probe, media_decode_fn *decode);

/* MOTE_E_FULL if a frame of this size is beyond the limits. */
mote_status media_check_size(uint64_t width, uint64_t height, mote_error *err);
/* Room for a frame, checked. It takes memory as it is filled: many files claim more than they hold.
 */
mote_status media_frame_new(media_frame *out, uint32_t width, uint32_t height, mote_error *err);
void media_frame_fini(media_frame *image);

/* ---- one JPEG (decode_jpeg.c); what stands behind its end is not looked at ---- */

mote_status media_jpeg_size(str file, uint32_t *width, uint32_t *height, mote_error *err);
/* Turned as it says. After an error there is no picture to give back. */
mote_status media_jpeg_image(str file, media_frame *out, mote_error *err);

/* ---- turning (orient.c) ---- */

/* The orientation a block of EXIF (with or without "Exif\0\0" before it) speaks of: 1 to 8; 1 if it
 * speaks of none. */
unsigned media_orientation(str exif);
/* Turns the picture, whose pixels may move to other memory. */
mote_status media_orient(media_frame *image, unsigned orientation, mote_error *err);

#endif
