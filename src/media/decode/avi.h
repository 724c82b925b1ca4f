/* SPDX-License-Identifier: Apache-2.0 */
/*
 * avi.h - the pictures of an AVI film, if they are JPEGs.
 *
 * An AVI is a RIFF file: headers of its streams, then their pieces in the order of time. That order
 * is enough; its indexes are not looked at. Only the first stream of pictures counts.
 */
#ifndef MOTE_MEDIA_DECODE_AVI_H
#define MOTE_MEDIA_DECODE_AVI_H

#include "base/cursor.h"
#include "base/err.h"
#include "base/str.h"

enum { AVI_DEPTH = 4 }; /* RIFF, movi, rec: a file that goes deeper is passed over there */

typedef struct avi_video {
    cursor c;
    size_t ends[AVI_DEPTH]; /* of the lists that it stands in */
    unsigned depth;
    unsigned streams; /* described so far */
    bool found;       /* the pictures' stream */
    unsigned stream;
    char coding[5];
    uint32_t height; /* of a frame, as the header says */
    double fps;      /* 0: it does not say */
    str last;        /* the frame before, for those that say "as before" */
} avi_video;

/* Reads the headers. MOTE_E_FORMAT: damaged; MOTE_E_UNSUPPORTED: its pictures are not JPEGs. The
 * film looks into `file` and holds nothing else. */
mote_status avi_open(avi_video *video, str file, mote_error *err);
/* The JPEG of the next frame; false: that was the last whole one. `film` is an avi_video. */
bool avi_next(void *video, str *jpeg);

#endif
