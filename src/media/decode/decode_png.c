/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_png.c - PNG by libpng.
 *
 * Colours as Pillow sees them: palettes are looked up, thin grays stretched to 8 bits,
 * transparency dropped, 16-bit colours lose their low byte, and 16-bit gray is cut off at 255.
 * Errors of the library come by longjmp to the one setjmp below.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdio.h>

#include <png.h>

typedef struct png_run {
    png_structp png;
    png_infop info;
    str left; /* of the file */
    jmp_buf escape;
    char message[128];
    media_frame image;
    uint8_t *rows; /* [height][row_bytes], as the library gives them */
    size_t rows_bytes;
    png_bytep *row_starts; /* [height] */
    bool cut_gray;         /* 16-bit gray: two bytes a pixel, the high one first */
} png_run;

static void on_error(png_structp png, png_const_charp message)
{
    png_run *run = png_get_error_ptr(png);
    snprintf(run->message, sizeof run->message, "%s", message);
    longjmp(run->escape, 1);
}

static void say_nothing(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

static void read_bytes(png_structp png, png_bytep to, png_size_t n)
{
    png_run *run = png_get_io_ptr(png);
    if (run->left.n < n)
        png_error(png, "it ends too early");
    memcpy(to, run->left.p, n);
    run->left = (str){run->left.p + n, run->left.n - n};
}

static void set_up(png_run *run, str file)
{
    run->left = file;
    run->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, run, on_error, say_nothing);
    run->info = run->png != NULL ? png_create_info_struct(run->png) : NULL;
    if (run->info == NULL) {
        snprintf(run->message, sizeof run->message, "no memory");
        longjmp(run->escape, 1);
    }
    png_set_read_fn(run->png, run, read_bytes);
    png_set_user_limits(run->png, MEDIA_MAX_SIDE, MEDIA_MAX_SIDE);
    png_set_chunk_malloc_max(run->png, MEDIA_MAX_BYTES);
    png_read_info(run->png, run->info);
}

static void choose_form(png_run *run)
{
    const png_byte kind = png_get_color_type(run->png, run->info);
    const png_byte depth = png_get_bit_depth(run->png, run->info);
    run->cut_gray = kind == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (kind == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(run->png);
    if (kind == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(run->png);
    if (depth == 16 && !run->cut_gray)
        png_set_strip_16(run->png);
    png_set_strip_alpha(run->png);
    png_set_interlace_handling(run->png);
    png_read_update_info(run->png, run->info);
}

static void convert(const png_run *run, const uint8_t *from, size_t channels, uint8_t *to)
{
    for (uint32_t x = 0; x < run->image.width; x++, to += 3) {
        if (run->cut_gray) {
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

static mote_status read_rows(png_run *run, mote_error *err)
{
    const uint32_t width = png_get_image_width(run->png, run->info);
    const uint32_t height = png_get_image_height(run->png, run->info);
    TRY(media_frame_new(&run->image, width, height, err));
    choose_form(run);
    const size_t row_bytes = png_get_rowbytes(run->png, run->info);
    const size_t channels = png_get_channels(run->png, run->info);
    run->rows_bytes = height * row_bytes;
    run->rows = mem_map(0, run->rows_bytes);
    run->row_starts = mem_new(height, sizeof *run->row_starts);
    if (run->rows == NULL || run->row_starts == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for the rows of a PNG");
    for (uint32_t y = 0; y < height; y++)
        run->row_starts[y] = run->rows + y * row_bytes;
    png_read_image(run->png, run->row_starts);
    png_read_end(run->png, run->info);
    for (uint32_t y = 0; y < height; y++)
        convert(run, run->row_starts[y], channels, run->image.rgb + (size_t)y * width * 3);
    return MOTE_OK;
}

static mote_status with_library(png_run *run, str file, media_info *only_header, mote_error *err)
{
    if (setjmp(run->escape) != 0)
        return err_set(err, MOTE_E_FORMAT, "the PNG cannot be read: %s", run->message);
    set_up(run, file);
    if (only_header == NULL)
        return read_rows(run, err);
    only_header->width = png_get_image_width(run->png, run->info);
    only_header->height = png_get_image_height(run->png, run->info);
    return MOTE_OK;
}

static unsigned orientation_of(png_run *run)
{
    png_bytep exif = NULL;
    png_uint_32 n = 0;
    if (png_get_eXIf_1(run->png, run->info, &n, &exif) == 0)
        return 1;
    return media_orientation((str){(const char *)exif, n});
}

mote_status media_probe_png(str file, media_info *out, mote_error *err)
{
    png_run run = {0};
    const mote_status status = with_library(&run, file, out, err);
    png_destroy_read_struct(&run.png, &run.info, NULL);
    return status;
}

mote_status media_decode_png(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    png_run run = {0};
    mote_status status = with_library(&run, file, NULL, err);
    mem_unmap(run.rows, 0, run.rows_bytes);
    mem_free(run.row_starts);
    if (status == MOTE_OK)
        status = media_orient(&run.image, orientation_of(&run), err);
    png_destroy_read_struct(&run.png, &run.info, NULL);
    if (status == MOTE_OK)
        frame(with, 0, &run.image);
    media_frame_fini(&run.image);
    return status;
}
