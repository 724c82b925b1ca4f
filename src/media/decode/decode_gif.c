/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_gif.c - GIF with giflib: frames are painted on one canvas, as Pillow does.
 *
 * The canvas has the size of the screen, or of the first frame if that is larger. It starts with
 * the first frame's transparent colour, or with colour 0. Transparent pixels of later frames leave
 * the canvas unchanged. Before a frame is painted, the previous one is disposed of as it requested:
 * left, cleared to a colour, or restored. A frame without a request repeats that of the frame
 * before.
 *
 * The first frame shows its transparent colour as white (media_colour_to_white). Later frames show
 * it as it is, unless the palette is a gray ramp: then Pillow keeps the image gray and remembers
 * which gray is transparent.
 *
 * The work per frame is proportional to the area of the frame, not of the canvas.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <gif_lib.h>

/* What happens to the area of a frame before the next one is painted. */
typedef enum gif_clearing { GIF_KEEP, GIF_FILL, GIF_RESTORE } gif_clearing;

typedef struct gif_decoder {
    GifFileType *gif;
    str left; /* unread bytes of the file */
    media_frame canvas;
    media_frame shown;            /* copy of the canvas with white for transparent pixels */
    uint8_t *line;                /* [width]: colour indexes */
    GraphicsControlBlock control; /* of the next frame */
    bool has_control;
    int disposal;          /* requested last */
    gif_clearing clearing; /* of the last frame, and where it was */
    GifImageDesc at;
    uint8_t fill[3];  /* GIF_FILL */
    uint8_t *covered; /* GIF_RESTORE: pixels of the canvas under the frame, row by row */
    int white;        /* index shown as white, or NO_TRANSPARENT_COLOR */
    bool gray;        /* the first frame has a gray ramp */
    uint8_t white_rgb[3];
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
    media_frame_fini(&d->shown);
    mem_free(d->line);
    mem_free(d->covered);
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

/* ---- colours ---- */

/* Returns true if colour i is the gray i for every i, as without a palette. */
static bool palette_is_gray_ramp(const ColorMapObject *map)
{
    for (int i = 0; map != NULL && i < map->ColorCount; i++)
        if (map->Colors[i].Red != i || map->Colors[i].Green != i || map->Colors[i].Blue != i)
            return false;
    return true;
}

/* 256 colours. Indexes after the end of a palette are black, of a gray ramp gray. */
static void palette_read(const ColorMapObject *map, uint8_t out[256][3])
{
    const bool gray = palette_is_gray_ramp(map);
    for (int i = 0; i < 256; i++) {
        memset(out[i], gray ? i : 0, 3);
        if (!gray && i < map->ColorCount) {
            out[i][0] = map->Colors[i].Red;
            out[i][1] = map->Colors[i].Green;
            out[i][2] = map->Colors[i].Blue;
        }
    }
}

/* ---- painting ---- */

/* The part of an area that is on the canvas, in pixels. */
static size_t area_width(const media_frame *canvas, const GifImageDesc *at)
{
    const int end = at->Left + at->Width;
    const int most = end < (int)canvas->width ? end : (int)canvas->width;
    return most > at->Left ? (size_t)(most - at->Left) : 0;
}

static size_t area_height(const media_frame *canvas, const GifImageDesc *at)
{
    const int end = at->Top + at->Height;
    const int most = end < (int)canvas->height ? end : (int)canvas->height;
    return most > at->Top ? (size_t)(most - at->Top) : 0;
}

static uint8_t *area_row(const media_frame *canvas, const GifImageDesc *at, size_t y)
{
    return canvas->rgb + (((size_t)at->Top + y) * canvas->width + (size_t)at->Left) * 3;
}

static void canvas_fill(media_frame *canvas, const GifImageDesc *at, const uint8_t colour[3])
{
    const size_t width = area_width(canvas, at), height = area_height(canvas, at);
    for (size_t y = 0; y < height; y++) {
        uint8_t *row = area_row(canvas, at, y);
        for (size_t x = 0; x < width; x++)
            memcpy(row + x * 3, colour, 3);
    }
}

/* Copies the area from the canvas to `pixels`, or back. */
static void canvas_copy(media_frame *canvas, const GifImageDesc *at, uint8_t *pixels, bool back)
{
    const size_t bytes = area_width(canvas, at) * 3, height = area_height(canvas, at);
    for (size_t y = 0; y < height && bytes > 0; y++, pixels += bytes)
        memcpy(back ? area_row(canvas, at, y) : pixels, back ? pixels : area_row(canvas, at, y),
               bytes);
}

/* Clears the area of the previous frame. */
static void gif_clear(gif_decoder *d)
{
    if (d->clearing == GIF_FILL)
        canvas_fill(&d->canvas, &d->at, d->fill);
    else if (d->clearing == GIF_RESTORE)
        canvas_copy(&d->canvas, &d->at, d->covered, true);
    d->clearing = GIF_KEEP;
}

/* Decides how this frame will be cleared, before it is painted. The first frame has nothing to
 * restore: its transparent colour stands for that. */
static mote_status gif_plan_clearing(gif_decoder *d, uint32_t i, uint8_t colours[256][3],
                                     int transparent, mote_error *err)
{
    const bool restore = d->disposal >= DISPOSE_PREVIOUS;
    const int background = d->gif->SColorMap != NULL ? d->gif->SBackGroundColor : 0;
    d->at = d->gif->Image;
    if (d->disposal < DISPOSE_BACKGROUND ||
        (restore && i == 0 && transparent == NO_TRANSPARENT_COLOR))
        return MOTE_OK;
    if (!restore || i == 0) {
        const int first = d->gray && d->white != NO_TRANSPARENT_COLOR ? d->white : transparent;
        memcpy(d->fill, colours[first != NO_TRANSPARENT_COLOR ? first : background], 3);
        d->clearing = GIF_FILL;
        return MOTE_OK;
    }
    mem_free(d->covered);
    d->covered = mem_new(area_width(&d->canvas, &d->at) * area_height(&d->canvas, &d->at) + 1, 3);
    if (d->covered == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a frame of a GIF");
    canvas_copy(&d->canvas, &d->at, d->covered, false);
    d->clearing = GIF_RESTORE;
    return MOTE_OK;
}

static void gif_paint_line(gif_decoder *d, uint8_t colours[256][3], int y, int transparent)
{
    const GifImageDesc *at = &d->gif->Image;
    const size_t width = area_width(&d->canvas, at);
    if ((size_t)y >= area_height(&d->canvas, at))
        return;
    uint8_t *row = area_row(&d->canvas, at, (size_t)y);
    for (size_t x = 0; x < width; x++)
        if (d->line[x] != transparent)
            memcpy(row + x * 3, colours[d->line[x]], 3);
}

/* Interlaced frames store their lines in four passes. */
static bool gif_paint_lines(gif_decoder *d, uint8_t colours[256][3], int transparent)
{
    static const int starts[] = {0, 4, 2, 1}, steps[] = {8, 8, 4, 2};
    const GifImageDesc *at = &d->gif->Image;
    for (int pass = 0; pass < (at->Interlace ? 4 : 1); pass++)
        for (int y = at->Interlace ? starts[pass] : 0; y < at->Height;
             y += at->Interlace ? steps[pass] : 1) {
            if (DGifGetLine(d->gif, d->line, at->Width) == GIF_ERROR)
                return false;
            gif_paint_line(d, colours, y, transparent);
        }
    return true;
}

/* The screen, enlarged if the frame exceeds it. */
static void gif_extent(const GifFileType *gif, uint32_t *width, uint32_t *height)
{
    const uint32_t right = (uint32_t)gif->Image.Left + (uint32_t)gif->Image.Width;
    const uint32_t bottom = (uint32_t)gif->Image.Top + (uint32_t)gif->Image.Height;
    *width = right > (uint32_t)gif->SWidth ? right : (uint32_t)gif->SWidth;
    *height = bottom > (uint32_t)gif->SHeight ? bottom : (uint32_t)gif->SHeight;
}

/* A canvas for the first frame, in its transparent colour. */
static mote_status gif_make_canvas(gif_decoder *d, uint8_t colours[256][3], int transparent,
                                   mote_error *err)
{
    uint32_t width, height;
    gif_extent(d->gif, &width, &height);
    TRY(media_frame_new(&d->canvas, width, height, err));
    const GifImageDesc all = {.Width = (int)width, .Height = (int)height};
    const ColorMapObject *map =
        d->gif->Image.ColorMap != NULL ? d->gif->Image.ColorMap : d->gif->SColorMap;
    canvas_fill(&d->canvas, &all, colours[transparent != NO_TRANSPARENT_COLOR ? transparent : 0]);
    d->gray = palette_is_gray_ramp(map);
    d->white = transparent;
    if (transparent != NO_TRANSPARENT_COLOR)
        memcpy(d->white_rgb, colours[transparent], 3);
    return MOTE_OK;
}

static mote_status gif_paint_frame(gif_decoder *d, uint32_t i, mote_error *err)
{
    const GifImageDesc *at = &d->gif->Image;
    const int transparent = d->has_control ? d->control.TransparentColor : NO_TRANSPARENT_COLOR;
    uint8_t colours[256][3];
    uint32_t width, height;
    gif_extent(d->gif, &width, &height);
    TRY(media_check_size(width, height, err));
    palette_read(at->ColorMap != NULL ? at->ColorMap : d->gif->SColorMap, colours);
    mem_free(d->line);
    d->line = mem_new((size_t)at->Width + 1, 1);
    if (d->line == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a line of a GIF");
    if (i == 0)
        TRY(gif_make_canvas(d, colours, transparent, err));
    else if (!d->gray)
        d->white = NO_TRANSPARENT_COLOR;
    if (d->has_control && d->control.DisposalMode != DISPOSAL_UNSPECIFIED)
        d->disposal = d->control.DisposalMode;
    d->has_control = false;
    gif_clear(d);
    TRY(gif_plan_clearing(d, i, colours, transparent, err));
    /* nothing is under the first frame: it is painted whole */
    if (!gif_paint_lines(d, colours, i > 0 ? transparent : NO_TRANSPARENT_COLOR))
        return gif_damaged(err);
    return MOTE_OK;
}

/* The canvas as the next frame callback gets it: with white for transparent pixels. */
static mote_status gif_show(gif_decoder *d, const media_frame **out, mote_error *err)
{
    *out = &d->canvas;
    if (d->white == NO_TRANSPARENT_COLOR)
        return MOTE_OK;
    if (d->shown.rgb == NULL)
        TRY(media_frame_new(&d->shown, d->canvas.width, d->canvas.height, err));
    memcpy(d->shown.rgb, d->canvas.rgb, (size_t)d->canvas.width * d->canvas.height * 3);
    media_colour_to_white(&d->shown, d->white_rgb);
    *out = &d->shown;
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
    out->frames = 0;
    while (out->frames < MEDIA_MAX_FRAMES && gif_next_frame(&d, &failed)) {
        if (out->frames == 0)
            gif_extent(d.gif, &out->width, &out->height);
        if (!gif_skip_frame(&d))
            break;
        out->frames++;
        out->pixels += (uint64_t)d.gif->Image.Width * (uint64_t)d.gif->Image.Height;
        seconds += d.has_control ? d.control.DelayTime / 100.0 : 0;
        d.has_control = false;
    }
    gif_close(&d);
    if (out->frames > 1 && seconds > 0)
        out->fps = out->frames / seconds;
    return out->frames > 0 ? MOTE_OK : gif_damaged(err);
}

/* Paints frame i and delivers it if it is wanted. */
static mote_status gif_decode_frame(gif_decoder *d, uint32_t i, media_frame_fn *frame, void *with,
                                    uint32_t *wanted, mote_error *err)
{
    const media_frame *shown;
    TRY(gif_paint_frame(d, i, err));
    if (i < *wanted)
        return MOTE_OK;
    TRY(gif_show(d, &shown, err));
    *wanted = frame(with, i, shown);
    return MOTE_OK;
}

mote_status media_decode_gif(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    gif_decoder d;
    bool failed = false;
    uint32_t wanted = 0;
    TRY(gif_open(&d, file, err));
    mote_status status = MOTE_OK;
    for (uint32_t i = 0; status == MOTE_OK && wanted != MEDIA_NO_MORE && i < MEDIA_MAX_FRAMES;
         i++) {
        if (!gif_next_frame(&d, &failed)) {
            if (i == 0)
                status = gif_damaged(err);
            break; /* the complete frames of a damaged file count */
        }
        status = gif_decode_frame(&d, i, frame, with, &wanted, err);
        if (i > 0 && status == MOTE_E_FORMAT) {
            status = MOTE_OK;
            break;
        }
    }
    gif_close(&d);
    return status;
}
