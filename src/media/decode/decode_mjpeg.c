/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_mjpeg.c - JPEG files, JPEG streams (several JPEGs in one file), and AVI with JPEG frames.
 *
 * Bytes may follow the end of a JPEG. As an image, only the first JPEG counts and the bytes after
 * it are ignored (cameras store previews there). As a video, every complete JPEG is a frame. Frames
 * are found by walking from marker to marker, so a preview inside a header is not taken for one.
 *
 * An AVI is a RIFF file: headers of the streams, then their chunks in the order of time. The
 * reader uses that order and ignores the indexes. Only the first video stream counts.
 */
#include "media/decode/decode_int.h"

#include "base/cursor.h"

#include <stdio.h>

/* ---- where a JPEG ends ---- */

enum {
    JPEG_MARKER = 0xff,
    JPEG_SOI = 0xd8,
    JPEG_EOI = 0xd9,
    JPEG_RST0 = 0xd0,
    JPEG_RST7 = 0xd7,
    JPEG_SOS = 0xda,
    JPEG_TEM = 0x01
};

/* Moves behind the next marker and returns its code; false: there is none. */
static bool jpeg_next_marker(cursor *c, uint8_t *code)
{
    while (cursor_left(c) >= 2) {
        const unsigned char *at = memchr(c->p + c->pos, JPEG_MARKER, cursor_left(c) - 1);
        if (at == NULL)
            break;
        c->pos = (size_t)(at - c->p) + 1;
        *code = c->p[c->pos];
        if (*code != 0 && *code != JPEG_MARKER)
            return cursor_skip(c, 1);
    }
    c->pos = c->n;
    return false;
}

static bool jpeg_skip_segment(cursor *c)
{
    const unsigned char *length;
    if (!cursor_view(c, 2, &length))
        return false;
    const unsigned bytes = (unsigned)length[0] << 8 | length[1];
    return bytes >= 2 && cursor_skip(c, bytes - 2);
}

/* Moves from the start of a JPEG behind its end and counts its scans. False: the next JPEG starts
 * before an end. */
static bool jpeg_skip(cursor *c, uint32_t *scans)
{
    uint8_t code;
    *scans = 0;
    cursor_skip(c, 2);
    while (jpeg_next_marker(c, &code)) {
        if (code == JPEG_EOI)
            return true;
        if (code == JPEG_SOI) {
            c->pos -= 2;
            return false;
        }
        *scans += code == JPEG_SOS;
        const bool no_segment = code == JPEG_TEM || (code >= JPEG_RST0 && code <= JPEG_RST7);
        if (!no_segment && !jpeg_skip_segment(c))
            return false;
    }
    return false;
}

uint32_t media_jpeg_scans(str file)
{
    cursor c = {.p = (const unsigned char *)file.p, .n = file.n};
    uint32_t scans;
    jpeg_skip(&c, &scans);
    return scans;
}

typedef struct jpeg_stream {
    cursor c;
    bool started;
} jpeg_stream;

static jpeg_stream jpeg_stream_open(str file)
{
    return (jpeg_stream){.c = {.p = (const unsigned char *)file.p, .n = file.n}};
}

/* The first JPEG is the whole file, as the library reads it. After it only complete ones count.
 * Every byte is read once, so the cost is linear for hostile files too. */
static bool jpeg_stream_next(void *from, str *out)
{
    jpeg_stream *s = from;
    cursor *c = &s->c;
    uint8_t code;
    uint32_t scans;
    if (!s->started) {
        s->started = true;
        *out = (str){(const char *)c->p, c->n};
        jpeg_skip(c, &scans);
        return true;
    }
    while (jpeg_next_marker(c, &code)) {
        if (code != JPEG_SOI)
            continue;
        c->pos -= 2;
        const size_t at = c->pos;
        if (jpeg_skip(c, &scans)) {
            *out = (str){(const char *)c->p + at, c->pos - at};
            return true;
        }
    }
    return false;
}

/* ---- RIFF chunks ---- */

enum { AVI_MAX_DEPTH = 4 }; /* RIFF, movi, rec; deeper lists are skipped */

typedef struct avi_video {
    cursor c;
    size_t ends[AVI_MAX_DEPTH]; /* of the lists around the cursor */
    unsigned depth;
    unsigned streams; /* described so far */
    bool found;       /* a video stream */
    unsigned stream;
    char coding[5];  /* its FourCC */
    uint32_t height; /* of a frame, as the header says */
    double fps;      /* 0: unknown */
    str last;        /* the previous frame: an empty chunk repeats it */
} avi_video;

typedef struct avi_chunk {
    char name[4];
    cursor body;
    bool list; /* a list was entered; name is the list's */
} avi_chunk;

static bool name_is(const char name[4], const char *wanted)
{
    return memcmp(name, wanted, 4) == 0;
}

static size_t avi_list_end(const avi_video *v)
{
    return v->depth > 0 ? v->ends[v->depth - 1] : v->c.n;
}

static bool avi_enters(const char name[4])
{
    return name_is(name, "AVI ") || name_is(name, "AVIX") || name_is(name, "hdrl") ||
           name_is(name, "strl") || name_is(name, "movi") || name_is(name, "rec ");
}

/* Enters the list at the cursor, or skips it. `bytes` includes its name. */
static bool avi_read_list(avi_video *v, size_t bytes, avi_chunk *out)
{
    const size_t end = v->c.pos + bytes;
    if (bytes < 4 || !cursor_copy(&v->c, out->name, 4))
        return false;
    out->list = v->depth < AVI_MAX_DEPTH && avi_enters(out->name);
    if (out->list) {
        v->ends[v->depth++] = end;
    } else {
        v->c.pos = end;
        memset(out->name, 0, sizeof out->name); /* a list may have the name of a chunk */
    }
    return true;
}

/* False: end of file, or an incomplete chunk. A list that claims more bytes than the list around
 * it, or 0 bytes because recording was interrupted, ends with the list around it. */
static bool avi_next_chunk(avi_video *v, avi_chunk *out)
{
    uint32_t bytes;
    while (v->depth > 0 && v->c.pos >= v->ends[v->depth - 1])
        v->depth--;
    *out = (avi_chunk){.list = false};
    if (!cursor_copy(&v->c, out->name, 4) || !cursor_u32(&v->c, &bytes) ||
        v->c.pos > avi_list_end(v))
        return false;
    const size_t left = avi_list_end(v) - v->c.pos;
    if (name_is(out->name, "RIFF") || name_is(out->name, "LIST"))
        return avi_read_list(v, bytes == 0 || bytes > left ? left : bytes, out);
    if (bytes > left)
        return false;
    out->body = (cursor){.p = v->c.p + v->c.pos, .n = bytes};
    v->c.pos += bytes;
    if (bytes % 2 != 0 && v->c.pos < avi_list_end(v))
        v->c.pos++; /* chunks start at even offsets */
    return true;
}

/* ---- AVI headers ---- */

/* "strh": the kind and the rate of a stream. */
static bool avi_read_stream_header(avi_video *v, cursor body)
{
    char kind[4];
    uint32_t scale, rate;
    const unsigned number = v->streams++;
    if (!cursor_copy(&body, kind, 4) || !cursor_skip(&body, 16) || !cursor_u32(&body, &scale) ||
        !cursor_u32(&body, &rate))
        return false;
    if (v->found || !name_is(kind, "vids"))
        return true;
    v->found = true;
    v->stream = number;
    if (scale > 0 && rate > 0)
        v->fps = (double)rate / scale;
    return true;
}

/* "strf" of the video stream: height, negative if rows start at the top, and FourCC. */
static bool avi_read_stream_format(avi_video *v, cursor body)
{
    int32_t height;
    if (!v->found || v->stream + 1 != v->streams || v->coding[0] != '\0')
        return true;
    if (!cursor_skip(&body, 8) || !cursor_copy(&body, &height, sizeof height) ||
        !cursor_skip(&body, 4) || !cursor_copy(&body, v->coding, 4))
        return false;
    v->height = height < 0 ? 0u - (uint32_t)height : (uint32_t)height;
    return true;
}

static mote_status avi_check_coding(avi_video *v, mote_error *err)
{
    const char *coding = v->coding;
    if (!v->found)
        return err_set(err, MOTE_E_UNSUPPORTED, "the AVI has no video stream");
    if (name_is(coding, "MJPG") || name_is(coding, "mjpg") || name_is(coding, "JPEG") ||
        name_is(coding, "jpeg"))
        return MOTE_OK;
    for (size_t i = 0; i < 4; i++) /* untrusted bytes in a message */
        if (v->coding[i] <= ' ' || v->coding[i] > '~')
            v->coding[i] = '?';
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "AVI with %s frames is not supported; supported: MJPG. Convert it: ffmpeg -i "
                   "VIDEO -c:v mjpeg -q:v 3 video.avi",
                   v->coding);
}

/* Reads the headers. MOTE_E_FORMAT: damaged; MOTE_E_UNSUPPORTED: frames are not JPEGs. */
static mote_status avi_open(avi_video *v, str file, mote_error *err)
{
    avi_chunk chunk;
    bool complete = true;
    *v = (avi_video){.c = {.p = (const unsigned char *)file.p, .n = file.n}};
    while (complete && avi_next_chunk(v, &chunk)) {
        if (chunk.list && name_is(chunk.name, "movi"))
            return avi_check_coding(v, err);
        if (name_is(chunk.name, "strh"))
            complete = avi_read_stream_header(v, chunk.body);
        else if (name_is(chunk.name, "strf"))
            complete = avi_read_stream_format(v, chunk.body);
    }
    return err_set(err, MOTE_E_FORMAT, "invalid AVI: damaged or incomplete headers");
}

/* Names such as "00dc": two digits for the stream, then "dc" or "db". */
static bool avi_is_frame(const avi_video *v, const avi_chunk *chunk)
{
    const char *n = chunk->name;
    return !chunk->list && n[0] == (char)('0' + v->stream / 10 % 10) &&
           n[1] == (char)('0' + v->stream % 10) && n[2] == 'd' && (n[3] == 'c' || n[3] == 'b');
}

/* The JPEG of the next frame; false: no further complete frame. */
static bool avi_next(void *from, str *jpeg)
{
    avi_video *v = from;
    avi_chunk chunk;
    while (avi_next_chunk(v, &chunk)) {
        if (!avi_is_frame(v, &chunk))
            continue;
        if (chunk.body.n > 0)
            v->last = (str){(const char *)chunk.body.p, chunk.body.n};
        if (v->last.n == 0)
            continue; /* an empty chunk before the first frame */
        *jpeg = v->last;
        return true;
    }
    return false;
}

/* ---- frames of either kind ---- */

typedef bool next_frame_fn(void *from, str *jpeg);

static uint32_t count_frames(next_frame_fn *next, void *from)
{
    uint32_t n = 0;
    str jpeg;
    while (n < MEDIA_MAX_SKIPPABLE_FRAMES && next(from, &jpeg))
        n++;
    return n;
}

static mote_status avi_no_frame(mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "invalid AVI: no complete frame");
}

/* Frames are independent, so unwanted ones are skipped undecoded. */
static mote_status decode_frames(next_frame_fn *next, void *from, media_frame_fn *frame, void *with,
                                 mote_error *err)
{
    uint32_t wanted = 0, i = 0;
    str jpeg;
    for (; wanted != MEDIA_NO_MORE && i < MEDIA_MAX_SKIPPABLE_FRAMES && next(from, &jpeg); i++) {
        media_frame image;
        if (i < wanted)
            continue;
        const mote_status status = media_jpeg_frame(jpeg, &image, err);
        if (status != MOTE_OK && i > 0) {
            char where[32];
            snprintf(where, sizeof where, "frame %u", i + 1);
            err_prefix(err, where);
        }
        TRY(status);
        wanted = frame(with, i, &image);
        media_frame_fini(&image);
    }
    return i > 0 ? MOTE_OK : avi_no_frame(err);
}

/* ---- JPEG ---- */

mote_status media_probe_jpeg(str file, media_info *out, mote_error *err)
{
    jpeg_stream stream = jpeg_stream_open(file);
    TRY(media_jpeg_size(file, &out->width, &out->height, err));
    out->frames = count_frames(jpeg_stream_next, &stream);
    if (out->frames > 1)
        out->fps = MEDIA_DEFAULT_FPS;
    return MOTE_OK;
}

mote_status media_decode_jpeg(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    jpeg_stream stream = jpeg_stream_open(file);
    return decode_frames(jpeg_stream_next, &stream, frame, with, err);
}

/* ---- AVI ---- */

/* Interlaced video stores two fields per frame: the header's height is twice that of a JPEG. */
static mote_status avi_check_interlaced(const avi_video *video, uint32_t height, mote_error *err)
{
    if (video->height / 2 >= height)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "interlaced AVI is not supported: frames of %u rows in a video of %u",
                       height, video->height);
    return MOTE_OK;
}

mote_status media_probe_avi(str file, media_info *out, mote_error *err)
{
    avi_video video, copy;
    str first;
    TRY(avi_open(&video, file, err));
    copy = video;
    if (!avi_next(&copy, &first))
        return avi_no_frame(err);
    TRY(media_jpeg_size(first, &out->width, &out->height, err));
    TRY(avi_check_interlaced(&video, out->height, err));
    out->frames = count_frames(avi_next, &video);
    out->fps = video.fps > 0 ? video.fps : MEDIA_DEFAULT_FPS;
    return MOTE_OK;
}

mote_status media_decode_avi(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    avi_video video;
    TRY(avi_open(&video, file, err));
    return decode_frames(avi_next, &video, frame, with, err);
}
