/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decoder_client.h - decoding where nothing can be lost: in another process, one for every file.
 *
 * For each file the nursery (nursery.h) forks a child, which gives up everything it could do but
 * compute (sandbox.h), reads the file from a socket, decodes and resizes, writes the pixels back
 * and ends. What a file does to its decoder is an error of that one file; a decoder that hangs or
 * grows is ended by its limits.
 */
#ifndef MOTE_MEDIA_SANDBOX_DECODER_CLIENT_H
#define MOTE_MEDIA_SANDBOX_DECODER_CLIENT_H

#include "base/str.h"
#include "media/decode/resize_fit.h"
#include "media/sandbox/fork_server.h"

typedef struct media_request {
    str file;
    const uint64_t *parts; /* [n_parts]: bytes of each if the film is several files, one picture
                              each, which stand one after the other in `file` */
    size_t n_parts;
    bool video;          /* all frames that the model wants of it, not only the first */
    double fps;          /* of a film; 0: as the file says */
    media_limits limits; /* pixels */
} media_request;

/* What the tower is given: frames of one size. */
typedef struct media_frames {
    uint32_t n;
    uint32_t width, height;               /* multiples of 32 */
    uint32_t stored_width, stored_height; /* after turning */
    uint8_t *rgb;                         /* [n][height][width][3] */
    double *times;                        /* [n], seconds from the beginning of a film */
} media_frames;

/* Any thread, any number at once. The statuses of media_decode, MOTE_E_FORMAT also if the decoder
 * ended without an answer; MOTE_E_IO: there is no decoder, or it was lost, whatever the file: later
 * there may be one. */
mote_status media_load(fork_server *fs, const media_request *ask, media_frames *out,
                       mote_error *err);
void media_frames_fini(media_frames *seen);

/* The same in this process, without a sandbox: what the child does, and for tests. */
mote_status media_load_here(const media_request *ask, media_frames *out, mote_error *err);

#endif
