/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_mjpeg.c - JPEGs one after the other: a picture, a stream of them, or an AVI.
 *
 * A JPEG file may go on behind its end. As a picture only the first counts, and what follows it is
 * nobody's business (cameras keep previews there); as a film all whole ones do. A frame is found by
 * walking from marker to marker, so that a preview inside a header is not taken for one.
 */
#include "media/decode/avi.h"
#include "media/decode/decode_int.h"

#include "base/cursor.h"

#include <stdio.h>

enum { MARK = 0xff, START = 0xd8, END = 0xd9, RESTART_0 = 0xd0, RESTART_7 = 0xd7, ALONE = 0x01 };

/* ---- where a JPEG ends ---- */

/* To the byte behind the next marker, over whatever is before it; false: there is none. */
static bool next_marker(cursor *c, uint8_t *code)
{
    while (cursor_left(c) >= 2) {
        const unsigned char *at = memchr(c->p + c->pos, MARK, cursor_left(c) - 1);
        if (at == NULL)
            break;
        c->pos = (size_t)(at - c->p) + 1;
        *code = c->p[c->pos];
        if (*code != 0 && *code != MARK)
            return cursor_skip(c, 1);
    }
    c->pos = c->n;
    return false;
}

static bool skip_segment(cursor *c)
{
    const unsigned char *length;
    if (!cursor_view(c, 2, &length))
        return false;
    const unsigned bytes = (unsigned)length[0] << 8 | length[1];
    return bytes >= 2 && cursor_skip(c, bytes - 2);
}

/* From the start of a JPEG to behind its end. False: it has none before the next one starts. */
static bool walk(cursor *c)
{
    uint8_t code;
    cursor_skip(c, 2);
    while (next_marker(c, &code)) {
        if (code == END)
            return true;
        if (code == START) {
            c->pos -= 2;
            return false;
        }
        const bool alone = code == ALONE || (code >= RESTART_0 && code <= RESTART_7);
        if (!alone && !skip_segment(c))
            return false;
    }
    return false;
}

typedef struct jpeg_stream {
    cursor c;
    bool begun;
} jpeg_stream;

static jpeg_stream stream_of(str file)
{
    return (jpeg_stream){.c = {.p = (const unsigned char *)file.p, .n = file.n}};
}

/* The first JPEG is whatever the library makes of the file; behind it only whole ones count. Every
 * byte is looked at once, so a hostile file costs no more than a long one. */
static bool next_jpeg(void *from, str *out)
{
    jpeg_stream *s = from;
    cursor *c = &s->c;
    uint8_t code;
    if (!s->begun) {
        s->begun = true;
        *out = (str){(const char *)c->p, c->n};
        walk(c);
        return true;
    }
    while (next_marker(c, &code)) {
        if (code != START)
            continue;
        c->pos -= 2;
        const size_t at = c->pos;
        if (walk(c)) {
            *out = (str){(const char *)c->p + at, c->pos - at};
            return true;
        }
    }
    return false;
}

/* ---- frames ---- */

typedef bool next_frame_fn(void *from, str *jpeg);

static uint32_t count_frames(next_frame_fn *next, void *from)
{
    uint32_t n = 0;
    str jpeg;
    while (n < MEDIA_MAX_JPEGS && next(from, &jpeg))
        n++;
    return n;
}

static mote_status in_frame(uint32_t i, mote_status status, mote_error *err)
{
    char where[32];
    snprintf(where, sizeof where, "frame %u", i + 1);
    if (i > 0 && status != MOTE_OK)
        err_prefix(err, where);
    return status;
}

static mote_status no_image(mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "an AVI without a whole picture");
}

/* Frames that nobody wants are passed over: each stands for itself. */
static mote_status decode_frames(next_frame_fn *next, void *from, media_frame_fn *frame, void *with,
                                 mote_error *err)
{
    uint32_t wanted = 0, i = 0;
    str jpeg;
    for (; wanted != MEDIA_ENOUGH && i < MEDIA_MAX_JPEGS && next(from, &jpeg); i++) {
        media_frame image;
        if (i < wanted)
            continue;
        TRY(in_frame(i, media_jpeg_image(jpeg, &image, err), err));
        wanted = frame(with, i, &image);
        media_frame_fini(&image);
    }
    return i > 0 ? MOTE_OK : no_image(err);
}

/* ---- JPEG ---- */

mote_status media_probe_jpeg(str file, media_info *out, mote_error *err)
{
    jpeg_stream stream = stream_of(file);
    TRY(media_jpeg_size(file, &out->width, &out->height, err));
    out->frames = count_frames(next_jpeg, &stream);
    if (out->frames > 1)
        out->fps = MEDIA_UNTOLD_FPS;
    return MOTE_OK;
}

mote_status media_decode_jpeg(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    jpeg_stream stream = stream_of(file);
    return decode_frames(next_jpeg, &stream, frame, with, err);
}

/* ---- AVI ---- */

/* Two half pictures in a frame, one above the other's lines: the header's height is twice theirs.
 */
static mote_status check_halves(const avi_video *video, uint32_t height, mote_error *err)
{
    if (video->height / 2 >= height)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "an interlaced AVI: its pictures have %u lines, its film %u", height,
                       video->height);
    return MOTE_OK;
}

mote_status media_probe_avi(str file, media_info *out, mote_error *err)
{
    avi_video video, again;
    str first;
    TRY(avi_open(&video, file, err));
    again = video;
    if (!avi_next(&again, &first))
        return no_image(err);
    TRY(media_jpeg_size(first, &out->width, &out->height, err));
    TRY(check_halves(&video, out->height, err));
    out->frames = count_frames(avi_next, &video);
    out->fps = video.fps > 0 ? video.fps : MEDIA_UNTOLD_FPS;
    return MOTE_OK;
}

mote_status media_decode_avi(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    avi_video video;
    TRY(avi_open(&video, file, err));
    return decode_frames(avi_next, &video, frame, with, err);
}
