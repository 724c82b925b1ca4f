/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_gif.c - GIF by giflib: frames painted one over the other on one canvas.
 *
 * The first frame's surroundings have its transparent colour, or colour 0. A later frame leaves
 * what is under its transparent pixels; before it is painted, the one before is disposed of as
 * that one said: left, cleared, or taken back.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <gif_lib.h>

typedef struct gif_run {
    GifFileType *gif;
    str left;                     /* of the file */
    media_frame canvas, before;   /* before: to take a frame back to */
    uint8_t *line;                /* [width] colour numbers */
    GraphicsControlBlock control; /* of the next frame */
    bool has_control;
    int disposal; /* of the last frame, and where it was */
    GifImageDesc at;
    uint8_t back[3]; /* what cleared pixels become */
} gif_run;

static int read_bytes(GifFileType *gif, GifByteType *to, int wanted)
{
    gif_run *run = gif->UserData;
    const size_t n = (size_t)wanted < run->left.n ? (size_t)wanted : run->left.n;
    memcpy(to, run->left.p, n);
    run->left = (str){run->left.p + n, run->left.n - n};
    return (int)n;
}

static mote_status damaged(mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "the GIF cannot be read");
}

static mote_status open_gif(gif_run *run, str file, mote_error *err)
{
    int error;
    *run = (gif_run){.left = file};
    run->gif = DGifOpen(run, read_bytes, &error);
    return run->gif != NULL ? MOTE_OK : damaged(err);
}

static void close_gif(gif_run *run)
{
    int error;
    if (run->gif != NULL)
        DGifCloseFile(run->gif, &error);
    media_frame_fini(&run->canvas);
    media_frame_fini(&run->before);
    mem_free(run->line);
}

/* Reads an extension; a control block is kept for the frame it precedes. */
static bool read_extension(gif_run *run)
{
    int code;
    GifByteType *block;
    if (DGifGetExtension(run->gif, &code, &block) == GIF_ERROR)
        return false;
    if (code == GRAPHICS_EXT_FUNC_CODE && block != NULL && block[0] >= 4)
        run->has_control = DGifExtensionToGCB(block[0], block + 1, &run->control) != GIF_ERROR;
    while (block != NULL)
        if (DGifGetExtensionNext(run->gif, &block) == GIF_ERROR)
            return false;
    return true;
}

/* ---- painting ---- */

static void fill(media_frame *canvas, const GifImageDesc *at, const uint8_t colour[3])
{
    for (int y = at->Top; y < at->Top + at->Height && y < (int)canvas->height; y++)
        for (int x = at->Left; x < at->Left + at->Width && x < (int)canvas->width; x++)
            memcpy(canvas->rgb + ((size_t)y * canvas->width + (size_t)x) * 3, colour, 3);
}

static void dispose(gif_run *run)
{
    const size_t bytes = (size_t)run->canvas.width * run->canvas.height * 3;
    if (run->disposal == DISPOSE_BACKGROUND)
        fill(&run->canvas, &run->at, run->back);
    else if (run->disposal == DISPOSE_PREVIOUS)
        memcpy(run->canvas.rgb, run->before.rgb, bytes);
}

static void colour_of(const ColorMapObject *map, int index, uint8_t out[3])
{
    memset(out, 0, 3);
    if (map == NULL || index < 0 || index >= map->ColorCount)
        return;
    out[0] = map->Colors[index].Red;
    out[1] = map->Colors[index].Green;
    out[2] = map->Colors[index].Blue;
}

static void paint_line(gif_run *run, const ColorMapObject *map, int y, int transparent)
{
    const GifImageDesc *at = &run->gif->Image;
    for (int x = 0; x < at->Width; x++) {
        const int column = at->Left + x, index = run->line[x];
        if (index == transparent || y >= (int)run->canvas.height ||
            column >= (int)run->canvas.width)
            continue;
        colour_of(map, index,
                  run->canvas.rgb + ((size_t)y * run->canvas.width + (size_t)column) * 3);
    }
}

/* Lines of an interlaced frame come in four passes. */
static bool paint_lines(gif_run *run, const ColorMapObject *map, int transparent)
{
    static const int starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    const GifImageDesc *at = &run->gif->Image;
    for (int pass = 0; pass < (at->Interlace ? 4 : 1); pass++)
        for (int y = at->Interlace ? starts[pass] : 0; y < at->Height;
             y += at->Interlace ? steps[pass] : 1) {
            if (DGifGetLine(run->gif, run->line, at->Width) == GIF_ERROR)
                return false;
            paint_line(run, map, at->Top + y, transparent);
        }
    return true;
}

static mote_status make_canvas(gif_run *run, mote_error *err)
{
    const GifFileType *gif = run->gif;
    TRY(media_frame_new(&run->canvas, (uint32_t)gif->SWidth, (uint32_t)gif->SHeight, err));
    TRY(media_frame_new(&run->before, (uint32_t)gif->SWidth, (uint32_t)gif->SHeight, err));
    return MOTE_OK;
}

static mote_status paint_frame(gif_run *run, uint32_t i, mote_error *err)
{
    const GifImageDesc *at = &run->gif->Image;
    const ColorMapObject *map = at->ColorMap != NULL ? at->ColorMap : run->gif->SColorMap;
    int transparent = run->has_control ? run->control.TransparentColor : NO_TRANSPARENT_COLOR;
    const GifImageDesc all = {.Width = run->gif->SWidth, .Height = run->gif->SHeight};
    mem_free(run->line);
    run->line = mem_new((size_t)at->Width + 1, 1);
    if (run->line == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a line of a GIF");
    if (i == 0) {
        colour_of(map, transparent != NO_TRANSPARENT_COLOR ? transparent : 0, run->back);
        fill(&run->canvas, &all, run->back);
        transparent = NO_TRANSPARENT_COLOR; /* its colour is seen: there is nothing under it */
    }
    dispose(run);
    memcpy(run->before.rgb, run->canvas.rgb, (size_t)run->canvas.width * run->canvas.height * 3);
    if (!paint_lines(run, map, transparent))
        return damaged(err);
    run->disposal = run->has_control ? run->control.DisposalMode : DISPOSAL_UNSPECIFIED;
    run->at = *at;
    run->has_control = false;
    return MOTE_OK;
}

/* ---- walking ---- */

/* To the next frame's description; false: there is none, or the file is damaged. */
static bool next_frame(gif_run *run, bool *failed)
{
    GifRecordType kind;
    for (;;) {
        if (DGifGetRecordType(run->gif, &kind) == GIF_ERROR)
            break;
        if (kind == TERMINATE_RECORD_TYPE)
            return false;
        if (kind == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(run->gif) != GIF_ERROR || (*failed = true, false);
        if (kind == EXTENSION_RECORD_TYPE && !read_extension(run))
            break;
    }
    *failed = true;
    return false;
}

/* Walks over a frame's data without decoding it. */
static bool skip_frame(gif_run *run)
{
    int size;
    GifByteType *block;
    if (DGifGetCode(run->gif, &size, &block) == GIF_ERROR)
        return false;
    while (block != NULL)
        if (DGifGetCodeNext(run->gif, &block) == GIF_ERROR)
            return false;
    return true;
}

mote_status media_probe_gif(str file, media_info *out, mote_error *err)
{
    gif_run run;
    bool failed = false;
    double seconds = 0;
    TRY(open_gif(&run, file, err));
    out->width = (uint32_t)run.gif->SWidth;
    out->height = (uint32_t)run.gif->SHeight;
    out->frames = 0;
    while (out->frames < MEDIA_MAX_FRAMES && next_frame(&run, &failed) && skip_frame(&run)) {
        out->frames++;
        seconds += run.has_control ? run.control.DelayTime / 100.0 : 0;
        run.has_control = false;
    }
    close_gif(&run);
    if (out->frames > 1 && seconds > 0)
        out->fps = out->frames / seconds;
    return out->frames > 0 ? MOTE_OK : damaged(err);
}

mote_status media_decode_gif(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    gif_run run;
    bool failed = false;
    uint32_t wanted = 0;
    TRY(open_gif(&run, file, err));
    mote_status status = make_canvas(&run, err);
    for (uint32_t i = 0; status == MOTE_OK && wanted != MEDIA_ENOUGH && i < MEDIA_MAX_FRAMES; i++) {
        if (!next_frame(&run, &failed)) {
            if (i == 0)
                status = damaged(err);
            break; /* what is whole of a damaged file counts */
        }
        status = paint_frame(&run, i, err);
        if (status == MOTE_OK)
            wanted = frame(with, i, &run.canvas);
        else if (i > 0 && status == MOTE_E_FORMAT) {
            status = MOTE_OK;
            break;
        }
    }
    close_gif(&run);
    return status;
}
