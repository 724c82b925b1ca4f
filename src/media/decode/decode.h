/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - files to pixels: JPEG, PNG, WebP, GIF and AVI with JPEGs in it, recognised by their
 * first bytes. JPEGs one after the other in a file are a film, too.
 *
 * Pixels are what Pillow's open, exif_transpose and convert("RGB") give, because that is what the
 * models were shown: pictures are turned as their EXIF says, transparency is dropped and not
 * blended, 16-bit gray is cut off at 255.
 *
 * Foreign code on strangers' bytes: nothing here runs in a process that has anything to lose; see
 * worker.h. A file is a view of memory; nothing is opened.
 */
#ifndef MOTE_MEDIA_DECODE_DECODE_H
#define MOTE_MEDIA_DECODE_DECODE_H

#include "base/str.h"
#include "media/decode/resize.h"

enum {
    MEDIA_MAX_BYTES = 20 << 20,
    MEDIA_MAX_VIDEO_BYTES = 256 << 20,
    MEDIA_MAX_PIXELS = 40000000, /* of a frame */
    MEDIA_MAX_SIDE = 65535,
    MEDIA_MAX_FRAMES = 4096,   /* of a file; more are not looked at */
    MEDIA_MAX_JPEGS = 1 << 18, /* the same where frames can be passed over */
    MEDIA_UNTOLD_FPS = 24      /* of a film in a format that has no place for it */
};

typedef enum media_format {
    MEDIA_UNKNOWN = 0,
    MEDIA_JPEG,
    MEDIA_PNG,
    MEDIA_WEBP,
    MEDIA_GIF,
    MEDIA_AVI,
    MEDIA_VIDEO /* MP4, MKV, WebM: not built in */
} media_format;

media_format media_format_of(str file);
/* "JPEG" ... */
const char *media_format_name(media_format format);

typedef struct media_info {
    media_format format;
    uint32_t width, height; /* as stored, before it is turned */
    uint32_t frames;        /* 1 for a still picture */
    double fps;             /* 0: a still picture, or a film that does not say */
} media_info;

/* Looks at the file without decoding it. MOTE_E_FORMAT: damaged; MOTE_E_UNSUPPORTED: none of these
 * formats; MOTE_E_FULL: beyond the limits above. */
mote_status media_probe(str file, media_info *out, mote_error *err);
/* MOTE_E_FULL: so many bytes are too much for a picture, or for a film. */
mote_status media_check_bytes(uint64_t bytes, bool video, mote_error *err);

/* Pixels of frame `i`, which the function may change but not keep. Returns which frame it wants
 * next, a later one, or MEDIA_ENOUGH. */
#define MEDIA_ENOUGH UINT32_MAX
typedef uint32_t media_frame_fn(void *with, uint32_t i, const media_frame *frame);

/* Decodes frames one after the other, the first always, others that nobody wants perhaps. Statuses
 * as above. */
mote_status media_decode(str file, media_frame_fn *frame, void *with, mote_error *err);

#endif
