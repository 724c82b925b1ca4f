/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode.h - image and video files to RGB frames.
 *
 * Formats: JPEG, PNG, WebP, GIF, AVI with JPEG frames, and JPEG streams (several JPEGs in one
 * file). The first bytes of the file select the decoder.
 *
 * Pixels equal those of the reference, transformers' load_image and image processor with Pillow:
 * images are rotated as EXIF says, alpha is dropped and not blended, 16-bit gray is clipped to 255.
 * A single transparent colour (PNG tRNS, GIF) becomes white.
 *
 * This code runs third-party libraries on untrusted bytes. Call it only in a decoder process (see
 * media/sandbox/decoder.h). A file is a view of memory; nothing is opened. Thread-safe.
 */
#ifndef MOTE_MEDIA_DECODE_DECODE_H
#define MOTE_MEDIA_DECODE_DECODE_H

#include "base/str.h"
#include "media/decode/resize.h"

/* Of all frames that a video decodes: every frame of GIF and WebP, the sampled ones otherwise. */
#define MEDIA_MAX_VIDEO_PIXELS UINT64_C(3000000000)

enum {
    MEDIA_MAX_BYTES = 20 << 20,
    MEDIA_MAX_VIDEO_BYTES = 256 << 20,
    MEDIA_MAX_PIXELS = 40000000, /* of a frame */
    MEDIA_MAX_SIDE = 65535,
    MEDIA_MAX_SCANS = 100,                /* of a JPEG; encoders write about 10 */
    MEDIA_MAX_SCAN_PIXELS = 1000000000,   /* scans of a JPEG times its pixels */
    MEDIA_MAX_FRAMES = 4096,              /* of a file; further frames are ignored */
    MEDIA_MAX_SKIPPABLE_FRAMES = 1 << 18, /* the same if frames can be skipped undecoded */
    MEDIA_DEFAULT_FPS = 24                /* of a video format that does not store it */
};

typedef enum media_format {
    MEDIA_UNKNOWN = 0,
    MEDIA_JPEG,
    MEDIA_PNG,
    MEDIA_WEBP,
    MEDIA_GIF,
    MEDIA_AVI,
    MEDIA_VIDEO /* MP4, MKV, WebM: decoded by mote-media-ffmpeg */
} media_format;

media_format media_format_of(str file);
/* "JPEG" ... */
const char *media_format_name(media_format format);

typedef struct media_info {
    media_format format;
    uint32_t width, height; /* as stored, before rotation */
    uint32_t frames;        /* 1 for a still image */
    double fps;             /* 0: a still image, or unknown */
    uint64_t pixels;        /* of all frames, if later frames need the earlier ones; else 0 */
} media_info;

/* Reads the headers without decoding pixels. MOTE_E_FORMAT: damaged; MOTE_E_UNSUPPORTED: none of
 * the formats above; MOTE_E_FULL: exceeds a limit above. */
mote_status media_probe(str file, media_info *out, mote_error *err);
/* MOTE_E_FULL: the file is too large for an image or a video. */
mote_status media_check_bytes(uint64_t bytes, bool video, mote_error *err);

/* Receives frame `i`. The function may change the pixels but not keep the pointer. Returns the
 * index of the next frame it wants, which must be larger, or MEDIA_NO_MORE. */
#define MEDIA_NO_MORE UINT32_MAX
typedef uint32_t media_frame_fn(void *with, uint32_t i, const media_frame *frame);

/* Decodes frames in order. Frame 0 is always delivered. Unwanted frames may be delivered too.
 * Returns the statuses of media_probe. */
mote_status media_decode(str file, media_frame_fn *frame, void *with, mote_error *err);

/* ---- from a file to the frames of one model input (media_load.c) ---- */

/* Called when the headers are read, before frames are decoded: how many pixels they have. */
typedef void media_planned_fn(uint64_t pixels);

typedef struct media_request {
    str file;
    const uint64_t *parts; /* [n_parts]: the video is several image files, concatenated in `file`;
                              their sizes in bytes */
    size_t n_parts;
    bool video;                /* sample frames as a video; false: the first frame only */
    double fps;                /* of a video; 0: as the file says */
    media_limits limits;       /* pixels */
    media_planned_fn *planned; /* NULL: none */
} media_request;

/* Frames of one size, ready for the vision encoder. */
typedef struct media_frames {
    uint32_t n;
    uint32_t width, height;               /* multiples of 32 */
    uint32_t stored_width, stored_height; /* after rotation, before resizing */
    uint8_t *rgb;                         /* [n][height][width][3] */
    double *times;                        /* [n]: seconds from the start of the video */
} media_frames;

/* Decodes, samples and resizes in this process, without a sandbox. For the decoder process and for
 * tests; other code calls media_load of decoder.h. */
mote_status media_load_here(const media_request *request, media_frames *out, mote_error *err);
void media_frames_fini(media_frames *frames);

#endif
