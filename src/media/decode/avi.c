/* SPDX-License-Identifier: Apache-2.0 */
/*
 * avi.c - see avi.h.
 *
 * One loop goes from piece to piece and keeps the ends of the lists it is in; a list that claims to
 * go beyond the one around it, or claims nothing because its recorder was cut off, ends with that.
 */
#include "media/decode/avi.h"

typedef struct avi_piece {
    char name[4];
    cursor body;
    bool list; /* entered: what follows is inside; name is that of the list */
} avi_piece;

static bool is(const char name[4], const char *wanted)
{
    return memcmp(name, wanted, 4) == 0;
}

static size_t end_here(const avi_video *f)
{
    return f->depth > 0 ? f->ends[f->depth - 1] : f->c.n;
}

static bool worth_entering(const char name[4])
{
    return is(name, "AVI ") || is(name, "AVIX") || is(name, "hdrl") || is(name, "strl") ||
           is(name, "movi") || is(name, "rec ");
}

/* The list at hand, of `bytes` bytes with its name: into it, or behind it. */
static bool take_list(avi_video *f, size_t bytes, avi_piece *out)
{
    const size_t end = f->c.pos + bytes;
    if (bytes < 4 || !cursor_copy(&f->c, out->name, 4))
        return false;
    out->list = f->depth < AVI_DEPTH && worth_entering(out->name);
    if (out->list) {
        f->ends[f->depth++] = end;
    } else {
        f->c.pos = end;
        memset(out->name, 0, sizeof out->name); /* a list may be called like a piece, and is none */
    }
    return true;
}

/* False: the file ends, or what follows is not whole. */
static bool next_piece(avi_video *f, avi_piece *out)
{
    uint32_t bytes;
    while (f->depth > 0 && f->c.pos >= f->ends[f->depth - 1])
        f->depth--;
    *out = (avi_piece){.list = false};
    if (!cursor_copy(&f->c, out->name, 4) || !cursor_u32(&f->c, &bytes) || f->c.pos > end_here(f))
        return false;
    const size_t left = end_here(f) - f->c.pos;
    if (is(out->name, "RIFF") || is(out->name, "LIST"))
        return take_list(f, bytes == 0 || bytes > left ? left : bytes, out);
    if (bytes > left)
        return false;
    out->body = (cursor){.p = f->c.p + f->c.pos, .n = bytes};
    f->c.pos += bytes;
    if (bytes % 2 != 0 && f->c.pos < end_here(f))
        f->c.pos++; /* pieces begin at even places */
    return true;
}

/* ---- headers ---- */

/* "strh": what a stream is and how fast. */
static bool read_stream(avi_video *f, cursor body)
{
    char kind[4];
    uint32_t scale, rate;
    const unsigned number = f->streams++;
    if (!cursor_copy(&body, kind, 4) || !cursor_skip(&body, 16) || !cursor_u32(&body, &scale) ||
        !cursor_u32(&body, &rate))
        return false;
    if (f->found || !is(kind, "vids"))
        return true;
    f->found = true;
    f->stream = number;
    if (scale > 0 && rate > 0)
        f->fps = (double)rate / scale;
    return true;
}

/* "strf" of the pictures: their height, which is negative where lines begin at the top, and their
 * coding. */
static bool read_form(avi_video *f, cursor body)
{
    int32_t height;
    if (!f->found || f->stream + 1 != f->streams || f->coding[0] != '\0')
        return true;
    if (!cursor_skip(&body, 8) || !cursor_copy(&body, &height, sizeof height) ||
        !cursor_skip(&body, 4) || !cursor_copy(&body, f->coding, 4))
        return false;
    f->height = height < 0 ? 0u - (uint32_t)height : (uint32_t)height;
    return true;
}

static bool is_jpeg(const char coding[4])
{
    return is(coding, "MJPG") || is(coding, "mjpg") || is(coding, "JPEG") || is(coding, "jpeg");
}

static mote_status check_coding(avi_video *f, mote_error *err)
{
    if (!f->found)
        return err_set(err, MOTE_E_UNSUPPORTED, "an AVI without pictures");
    if (is_jpeg(f->coding))
        return MOTE_OK;
    for (size_t i = 0; i < 4; i++) /* a stranger's letters, shown to people */
        if (f->coding[i] <= ' ' || f->coding[i] > '~')
            f->coding[i] = '?';
    return err_set(err, MOTE_E_UNSUPPORTED,
                   "an AVI with %s pictures, where only JPEGs (MJPG) can be read; ffmpeg -i FILM "
                   "-c:v mjpeg -q:v 3 film.avi makes one",
                   f->coding);
}

mote_status avi_open(avi_video *f, str file, mote_error *err)
{
    avi_piece piece;
    bool whole = true;
    *f = (avi_video){.c = {.p = (const unsigned char *)file.p, .n = file.n}};
    while (whole && next_piece(f, &piece)) {
        if (piece.list && is(piece.name, "movi"))
            return check_coding(f, err);
        if (is(piece.name, "strh"))
            whole = read_stream(f, piece.body);
        else if (is(piece.name, "strf"))
            whole = read_form(f, piece.body);
    }
    return err_set(err, MOTE_E_FORMAT, "the AVI cannot be read");
}

/* ---- frames ---- */

/* "00dc": two digits for the stream, then what it is; "db" means the same here. */
static bool is_frame(const avi_video *f, const avi_piece *piece)
{
    const char *n = piece->name;
    return !piece->list && n[0] == (char)('0' + f->stream / 10 % 10) &&
           n[1] == (char)('0' + f->stream % 10) && n[2] == 'd' && (n[3] == 'c' || n[3] == 'b');
}

bool avi_next(void *video, str *jpeg)
{
    avi_video *f = video;
    avi_piece piece;
    while (next_piece(f, &piece)) {
        if (!is_frame(f, &piece))
            continue;
        if (piece.body.n > 0)
            f->last = (str){(const char *)piece.body.p, piece.body.n};
        if (f->last.n == 0)
            continue; /* "as before" before anything */
        *jpeg = f->last;
        return true;
    }
    return false;
}
