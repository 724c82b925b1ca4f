/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_gif.c - GIF with giflib: frames are painted on one canvas.
 *
 * The canvas starts with the first frame's transparent colour, or with colour 0. Transparent
 * pixels of later frames leave the canvas unchanged. Before a frame is painted, the previous one
 * is disposed of as it requested: left, cleared to the background, or restored.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <gif_lib.h>

typedef struct gif_decoder {
    GifFileType *gif;
    str left;                     /* unread bytes of the file */
    media_frame canvas, before;   /* before: for DISPOSE_PREVIOUS */
    uint8_t *line;                /* [width]: colour indexes */
    GraphicsControlBlock control; /* of the next frame */
    bool has_control;
    int disposal; /* of the last frame, and where it was */
    GifImageDesc at;
    uint8_t back[3]; /* background colour */
} gif_decoder;

/* giflib's read function: the file is in memory. */
static int gif_read(GifFileType *gif, GifByteType *to, int wanted)
{
    gif_decoder *d = gif->UserData;
    const size_t n = (size_t)wanted < d->left.n ? (size_t)wanted : d->left.n;
    memcpy(to, d->left.p, n);
    d->left = (str){d->left.p + n, d->left.n - n};
    return (int)n;
}

static mote_status gif_damaged(mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "invalid GIF: damaged or incomplete");
}

static mote_status gif_open(gif_decoder *d, str file, mote_error *err)
{
    int error;
    *d = (gif_decoder){.left = file};
    d->gif = DGifOpen(d, gif_read, &error);
    return d->gif != NULL ? MOTE_OK : gif_damaged(err);
}

static void gif_close(gif_decoder *d)
{
    int error;
    if (d->gif != NULL)
        DGifCloseFile(d->gif, &error);
    media_frame_fini(&d->canvas);
    media_frame_fini(&d->before);
    mem_free(d->line);
}

/* Reads an extension. A control block belongs to the next frame. */
static bool gif_read_extension(gif_decoder *d)
{
    int code;
    GifByteType *block;
    if (DGifGetExtension(d->gif, &code, &block) == GIF_ERROR)
        return false;
    if (code == GRAPHICS_EXT_FUNC_CODE && block != NULL && block[0] >= 4)
        d->has_control = DGifExtensionToGCB(block[0], block + 1, &d->control) != GIF_ERROR;
    while (block != NULL)
        if (DGifGetExtensionNext(d->gif, &block) == GIF_ERROR)
            return false;
    return true;
}

/* ---- painting ---- */

static void canvas_fill(media_frame *canvas, const GifImageDesc *at, const uint8_t colour[3])
{
    for (int y = at->Top; y < at->Top + at->Height && y < (int)canvas->height; y++)
        for (int x = at->Left; x < at->Left + at->Width && x < (int)canvas->width; x++)
            memcpy(canvas->rgb + ((size_t)y * canvas->width + (size_t)x) * 3, colour, 3);
}

static void gif_dispose(gif_decoder *d)
{
    const size_t bytes = (size_t)d->canvas.width * d->canvas.height * 3;
    if (d->disposal == DISPOSE_BACKGROUND)
        canvas_fill(&d->canvas, &d->at, d->back);
    else if (d->disposal == DISPOSE_PREVIOUS)
        memcpy(d->canvas.rgb, d->before.rgb, bytes);
}

static void palette_colour(const ColorMapObject *map, int index, uint8_t out[3])
{
    memset(out, 0, 3);
    if (map == NULL || index < 0 || index >= map->ColorCount)
        return;
    out[0] = map->Colors[index].Red;
    out[1] = map->Colors[index].Green;
    out[2] = map->Colors[index].Blue;
}

static void gif_paint_line(gif_decoder *d, const ColorMapObject *map, int y, int transparent)
{
    const GifImageDesc *at = &d->gif->Image;
    for (int x = 0; x < at->Width; x++) {
        const int column = at->Left + x, index = d->line[x];
        if (index == transparent || y >= (int)d->canvas.height || column >= (int)d->canvas.width)
            continue;
        palette_colour(map, index,
                       d->canvas.rgb + ((size_t)y * d->canvas.width + (size_t)column) * 3);
    }
}

/* Interlaced frames store their lines in four passes. */
static bool gif_paint_lines(gif_decoder *d, const ColorMapObject *map, int transparent)
{
    static const int starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    const GifImageDesc *at = &d->gif->Image;
    for (int pass = 0; pass < (at->Interlace ? 4 : 1); pass++)
        for (int y = at->Interlace ? starts[pass] : 0; y < at->Height;
             y += at->Interlace ? steps[pass] : 1) {
            if (DGifGetLine(d->gif, d->line, at->Width) == GIF_ERROR)
                return false;
            gif_paint_line(d, map, at->Top + y, transparent);
        }
    return true;
}

static mote_status gif_make_canvas(gif_decoder *d, mote_error *err)
{
    const GifFileType *gif = d->gif;
    TRY(media_frame_new(&d->canvas, (uint32_t)gif->SWidth, (uint32_t)gif->SHeight, err));
    TRY(media_frame_new(&d->before, (uint32_t)gif->SWidth, (uint32_t)gif->SHeight, err));
    return MOTE_OK;
}

static mote_status gif_paint_frame(gif_decoder *d, uint32_t i, mote_error *err)
{
    const GifImageDesc *at = &d->gif->Image;
    const ColorMapObject *map = at->ColorMap != NULL ? at->ColorMap : d->gif->SColorMap;
    int transparent = d->has_control ? d->control.TransparentColor : NO_TRANSPARENT_COLOR;
    const GifImageDesc all = {.Width = d->gif->SWidth, .Height = d->gif->SHeight};
    mem_free(d->line);
    d->line = mem_new((size_t)at->Width + 1, 1);
    if (d->line == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a line of a GIF");
    if (i == 0) {
        palette_colour(map, transparent != NO_TRANSPARENT_COLOR ? transparent : 0, d->back);
        canvas_fill(&d->canvas, &all, d->back);
        transparent = NO_TRANSPARENT_COLOR; /* painted: nothing is under the first frame */
    }
    gif_dispose(d);
    memcpy(d->before.rgb, d->canvas.rgb, (size_t)d->canvas.width * d->canvas.height * 3);
    if (!gif_paint_lines(d, map, transparent))
        return gif_damaged(err);
    d->disposal = d->has_control ? d->control.DisposalMode : DISPOSAL_UNSPECIFIED;
    d->at = *at;
    d->has_control = false;
    return MOTE_OK;
}

/* ---- records ---- */

/* Reads up to the next image descriptor; false: no further frame, or the file is damaged. */
static bool gif_next_frame(gif_decoder *d, bool *failed)
{
    GifRecordType kind;
    for (;;) {
        if (DGifGetRecordType(d->gif, &kind) == GIF_ERROR)
            break;
        if (kind == TERMINATE_RECORD_TYPE)
            return false;
        if (kind == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(d->gif) != GIF_ERROR || (*failed = true, false);
        if (kind == EXTENSION_RECORD_TYPE && !gif_read_extension(d))
            break;
    }
    *failed = true;
    return false;
}

/* Skips the data of a frame without decoding it. */
static bool gif_skip_frame(gif_decoder *d)
{
    int size;
    GifByteType *block;
    if (DGifGetCode(d->gif, &size, &block) == GIF_ERROR)
        return false;
    while (block != NULL)
        if (DGifGetCodeNext(d->gif, &block) == GIF_ERROR)
            return false;
    return true;
}

mote_status media_probe_gif(str file, media_info *out, mote_error *err)
{
    gif_decoder d;
    bool failed = false;
    double seconds = 0;
    TRY(gif_open(&d, file, err));
    out->width = (uint32_t)d.gif->SWidth;
    out->height = (uint32_t)d.gif->SHeight;
    out->frames = 0;
    while (out->frames < MEDIA_MAX_FRAMES && gif_next_frame(&d, &failed) && gif_skip_frame(&d)) {
        out->frames++;
        seconds += d.has_control ? d.control.DelayTime / 100.0 : 0;
        d.has_control = false;
    }
    gif_close(&d);
    if (out->frames > 1 && seconds > 0)
        out->fps = out->frames / seconds;
    return out->frames > 0 ? MOTE_OK : gif_damaged(err);
}

mote_status media_decode_gif(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    gif_decoder d;
    bool failed = false;
    uint32_t wanted = 0;
    TRY(gif_open(&d, file, err));
    mote_status status = gif_make_canvas(&d, err);
    for (uint32_t i = 0; status == MOTE_OK && wanted != MEDIA_NO_MORE && i < MEDIA_MAX_FRAMES;
         i++) {
        if (!gif_next_frame(&d, &failed)) {
            if (i == 0)
                status = gif_damaged(err);
            break; /* the complete frames of a damaged file count */
        }
        status = gif_paint_frame(&d, i, err);
        if (status == MOTE_OK)
            wanted = frame(with, i, &d.canvas);
        else if (i > 0 && status == MOTE_E_FORMAT) {
            status = MOTE_OK;
            break;
        }
    }
    gif_close(&d);
    return status;
}
