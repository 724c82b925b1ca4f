/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec.h - files to pixels: JPEG, PNG, WebP and GIF, recognised by their first bytes.
 *
 * Pixels are what Pillow's open, exif_transpose and convert("RGB") give, because that is what the
 * models were shown: pictures are turned as their EXIF says, transparency is dropped and not
 * blended, 16-bit gray is cut off at 255.
 *
 * Foreign code on strangers' bytes: nothing here runs in a process that has anything to lose; see
 * worker.h. A file is a view of memory; nothing is opened.
 */
#ifndef MOTE_MEDIA_CODEC_H
#define MOTE_MEDIA_CODEC_H

#include "base/str.h"
#include "media/resize.h"

enum {
    MEDIA_MAX_BYTES = 20 << 20,
    MEDIA_MAX_PIXELS = 40000000, /* of a frame */
    MEDIA_MAX_SIDE = 65535,
    MEDIA_MAX_FRAMES = 4096 /* of a file; more are not looked at */
};

typedef enum media_format {
    MEDIA_UNKNOWN = 0,
    MEDIA_JPEG,
    MEDIA_PNG,
    MEDIA_WEBP,
    MEDIA_GIF
} media_format;

media_format media_format_of(str file);
/* "JPEG" ... */
const char *media_format_name(media_format format);

typedef struct media_info {
    media_format format;
    uint32_t width, height; /* as stored, before it is turned */
    uint32_t frames;        /* 1 for a still picture */
    double seconds;         /* of all frames; 0 for a still picture */
} media_info;

/* Looks at the file without decoding it. MOTE_E_FORMAT: damaged; MOTE_E_UNSUPPORTED: none of these
 * formats; MOTE_E_FULL: beyond the limits above. */
mote_status media_probe(str file, media_info *out, mote_error *err);

/* Pixels of frame `i`, which the function may change but not keep; false: enough. */
typedef bool media_frame_fn(void *with, uint32_t i, const media_picture *frame);

/* Decodes frames one after the other. Statuses as above. */
mote_status media_decode(str file, media_frame_fn *frame, void *with, mote_error *err);

#endif
