/* SPDX-License-Identifier: Apache-2.0 */
/* decode_int.h - private to the decoders: the table's functions, frames and EXIF orientation. */
#ifndef MOTE_MEDIA_DECODE_DECODE_INT_H
#define MOTE_MEDIA_DECODE_DECODE_INT_H

#include "media/decode/decode.h"

typedef mote_status media_probe_fn(str file, media_info *out, mote_error *err);
typedef mote_status media_decode_fn(str file, media_frame_fn *frame, void *with, mote_error *err);

media_probe_fn media_probe_jpeg, media_probe_png, media_probe_webp, media_probe_gif,
    media_probe_avi;
media_decode_fn media_decode_jpeg, media_decode_png, media_decode_webp, media_decode_gif,
    media_decode_avi;

/* decode_ffmpeg.c, linked into mote-media-ffmpeg only. */
media_probe_fn media_probe_ffmpeg;
media_decode_fn media_decode_ffmpeg;
/* Sets the decoder of MEDIA_VIDEO. mote-media-ffmpeg calls it at startup. */
void media_set_video_decoder(media_probe_fn *probe, media_decode_fn *decode);

/* ---- frames (frame.c) ---- */

/* MOTE_E_FULL: a frame of this size exceeds the limits. */
mote_status media_check_size(uint64_t width, uint64_t height, mote_error *err);
/* Checks the size and reserves memory. Pages are committed when written: damaged files often claim
 * more pixels than they hold. */
mote_status media_frame_new(media_frame *out, uint32_t width, uint32_t height, mote_error *err);
void media_frame_fini(media_frame *frame);
/* Pixels of this colour become white. The reference remembers the one transparent colour of a PNG
 * or GIF and shows it on white; alpha channels and palettes with several alphas it drops. */
void media_colour_to_white(media_frame *frame, const uint8_t colour[3]);

/* The orientation in a block of EXIF, with or without a leading "Exif\0\0": 1 to 8; 1 if there is
 * none. */
unsigned media_orientation(str exif);
/* Rotates and mirrors the frame. Its pixels may move to other memory. */
mote_status media_orient(media_frame *frame, unsigned orientation, mote_error *err);

/* ---- one JPEG (decode_jpeg.c); bytes after its end are ignored ---- */

mote_status media_jpeg_size(str file, uint32_t *width, uint32_t *height, mote_error *err);
/* Number of scans, found by the markers of the file (decode_mjpeg.c). */
uint32_t media_jpeg_scans(str file);
/* Decodes and orients. On failure *out holds no memory. */
mote_status media_jpeg_frame(str file, media_frame *out, mote_error *err);

#endif
