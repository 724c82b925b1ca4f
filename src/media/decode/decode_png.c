/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_png.c - PNG with libpng.
 *
 * Colours equal those of the reference (decode.h): palettes are expanded, gray below 8 bits is
 * scaled to 8 bits, 16-bit colours lose their low byte, and 16-bit gray is clipped to 255. Alpha is
 * dropped; a single transparent colour becomes white.
 * The library reports errors by longjmp to the one setjmp below.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdio.h>

#include <png.h>

typedef struct png_decoder {
    png_structp png;
    png_infop info;
    str left; /* unread bytes of the file */
    jmp_buf escape;
    char message[128];
    media_frame image;
    uint8_t *rows; /* [height][row_bytes]: samples of the library */
    size_t rows_bytes;
    png_bytep *row_starts; /* [height] */
    bool clip_gray;        /* 16-bit gray: two bytes per pixel, high byte first */
    bool has_white;        /* white_rgb is the transparent colour */
    uint8_t white_rgb[3];
} png_decoder;

static void on_png_error(png_structp png, png_const_charp message)
{
    png_decoder *d = png_get_error_ptr(png);
    snprintf(d->message, sizeof d->message, "%s", message);
    longjmp(d->escape, 1);
}

static void ignore_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void png_read_bytes(png_structp png, png_bytep to, png_size_t n)
{
    png_decoder *d = png_get_io_ptr(png);
    if (d->left.n < n)
        png_error(png, "the file is truncated");
    memcpy(to, d->left.p, n);
    d->left = (str){d->left.p + n, d->left.n - n};
}

static void png_open(png_decoder *d, str file)
{
    d->left = file;
    d->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, d, on_png_error, ignore_warning);
    d->info = d->png != NULL ? png_create_info_struct(d->png) : NULL;
    if (d->info == NULL) {
        snprintf(d->message, sizeof d->message, "out of memory");
        longjmp(d->escape, 1);
    }
    png_set_read_fn(d->png, d, png_read_bytes);
    png_set_user_limits(d->png, MEDIA_MAX_SIDE, MEDIA_MAX_SIDE);
    png_set_chunk_malloc_max(d->png, MEDIA_MAX_BYTES);
    /* not needed, and compressed: a small chunk can hold many bytes */
    png_set_keep_unknown_chunks(d->png, PNG_HANDLE_CHUNK_NEVER,
                                (png_const_bytep) "zTXt\0iTXt\0tEXt\0iCCP\0sPLT", 5);
    png_read_info(d->png, d->info);
}

/* The transparent index if one is transparent and all others are opaque; -1: not so. */
static int png_transparent_index(const png_byte *alpha, int n)
{
    int index = -1;
    for (int i = 0; i < n; i++)
        if (alpha[i] == 0 && index < 0)
            index = i;
        else if (alpha[i] != 255)
            return -1;
    return index;
}

/* Finds the transparent colour of tRNS. Numbers are taken as Pillow takes them: compared with
 * 8-bit samples without scaling. Of 1- and 16-bit gray it compares only red, so only black can be
 * transparent. */
static void png_find_transparent(png_decoder *d)
{
    png_bytep alpha = NULL;
    png_color_16p colour = NULL;
    int n = 0;
    png_colorp palette;
    int n_palette = 0;
    if (png_get_tRNS(d->png, d->info, &alpha, &n, &colour) == 0)
        return;
    const png_byte depth = png_get_bit_depth(d->png, d->info);
    switch (png_get_color_type(d->png, d->info)) {
    case PNG_COLOR_TYPE_PALETTE: {
        const int index = png_transparent_index(alpha, n);
        d->has_white = index >= 0 && png_get_PLTE(d->png, d->info, &palette, &n_palette) != 0;
        if (d->has_white && index < n_palette)
            memcpy(d->white_rgb,
                   (uint8_t[]){palette[index].red, palette[index].green, palette[index].blue}, 3);
        break;
    }
    case PNG_COLOR_TYPE_GRAY:
        d->has_white = true;
        if (depth == 1 || depth == 16)
            d->has_white = (colour->gray & 0xff) == 0;
        else
            memset(d->white_rgb, colour->gray < 255 ? colour->gray : 255, 3);
        break;
    case PNG_COLOR_TYPE_RGB:
        d->has_white = true;
        d->white_rgb[0] = colour->red & 0xff;
        d->white_rgb[1] = colour->green & 0xff;
        d->white_rgb[2] = colour->blue & 0xff;
        break;
    default: break;
    }
}

static void png_choose_output(png_decoder *d)
{
    const png_byte kind = png_get_color_type(d->png, d->info);
    const png_byte depth = png_get_bit_depth(d->png, d->info);
    d->clip_gray = kind == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (kind == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(d->png);
    if (kind == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(d->png);
    if (depth == 16 && !d->clip_gray)
        png_set_strip_16(d->png);
    png_set_strip_alpha(d->png);
    png_set_interlace_handling(d->png);
    png_read_update_info(d->png, d->info);
}

static void png_row_to_rgb(const png_decoder *d, const uint8_t *from, size_t channels, uint8_t *to)
{
    for (uint32_t x = 0; x < d->image.width; x++, to += 3) {
        if (d->clip_gray) {
            memset(to, from[0] != 0 ? 255 : from[1], 3);
            from += 2;
        } else if (channels == 1) {
            memset(to, *from++, 3);
        } else {
            memcpy(to, from, 3);
            from += 3;
        }
    }
}

static mote_status png_decode_rows(png_decoder *d, mote_error *err)
{
    const uint32_t width = png_get_image_width(d->png, d->info);
    const uint32_t height = png_get_image_height(d->png, d->info);
    TRY(media_frame_new(&d->image, width, height, err));
    png_find_transparent(d);
    png_choose_output(d);
    const size_t row_bytes = png_get_rowbytes(d->png, d->info);
    const size_t channels = png_get_channels(d->png, d->info);
    d->rows_bytes = height * row_bytes;
    d->rows = mem_map(0, d->rows_bytes);
    d->row_starts = mem_new(height, sizeof *d->row_starts);
    if (d->rows == NULL || d->row_starts == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for the rows of a PNG");
    for (uint32_t y = 0; y < height; y++)
        d->row_starts[y] = d->rows + y * row_bytes;
    png_read_image(d->png, d->row_starts);
    png_read_end(d->png, d->info);
    for (uint32_t y = 0; y < height; y++)
        png_row_to_rgb(d, d->row_starts[y], channels, d->image.rgb + (size_t)y * width * 3);
    if (d->has_white)
        media_colour_to_white(&d->image, d->white_rgb);
    return MOTE_OK;
}

/* Reads the header, or decodes the whole file if only_header is NULL. */
static mote_status png_run(png_decoder *d, str file, media_info *only_header, mote_error *err)
{
    if (setjmp(d->escape) != 0)
        return err_set(err, MOTE_E_FORMAT, "invalid PNG: %s", d->message);
    png_open(d, file);
    if (only_header == NULL)
        return png_decode_rows(d, err);
    only_header->width = png_get_image_width(d->png, d->info);
    only_header->height = png_get_image_height(d->png, d->info);
    return MOTE_OK;
}

static unsigned png_orientation(png_decoder *d)
{
    png_bytep exif = NULL;
    png_uint_32 n = 0;
    if (png_get_eXIf_1(d->png, d->info, &n, &exif) == 0)
        return 1;
    return media_orientation((str){(const char *)exif, n});
}

mote_status media_probe_png(str file, media_info *out, mote_error *err)
{
    png_decoder d = {0};
    const mote_status status = png_run(&d, file, out, err);
    png_destroy_read_struct(&d.png, &d.info, NULL);
    return status;
}

mote_status media_decode_png(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    png_decoder d = {0};
    mote_status status = png_run(&d, file, NULL, err);
    mem_unmap(d.rows, 0, d.rows_bytes);
    mem_free(d.row_starts);
    if (status == MOTE_OK)
        status = media_orient(&d.image, png_orientation(&d), err);
    png_destroy_read_struct(&d.png, &d.info, NULL);
    if (status == MOTE_OK)
        frame(with, 0, &d.image);
    media_frame_fini(&d.image);
    return status;
}
