/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_jpeg.c - JPEG by libjpeg-turbo, with its defaults, which are Pillow's.
 *
 * Errors of the library come by longjmp to the one setjmp below. A file that ends too early is an
 * error; what is merely odd inside it is not. Four-colour pictures are taken for Adobe's, whose
 * inks are inverted. Films leave out the usual Huffman tables; the library then takes those.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

/* One decompression; the library's structures first, since it hands them back by address. */
typedef struct jpeg_run {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    media_frame image;
    uint8_t *row; /* of samples as the library gives them */
} jpeg_run;

static void on_error(j_common_ptr info)
{
    jpeg_run *run = info->client_data;
    info->err->format_message(info, run->message);
    longjmp(run->escape, 1);
}

static void say_nothing(j_common_ptr info)
{
    (void)info;
}

static void nothing_to_begin(j_decompress_ptr info)
{
    (void)info;
}

static boolean ends_too_early(j_decompress_ptr info)
{
    jpeg_run *run = info->client_data;
    snprintf(run->message, sizeof run->message, "it ends too early");
    longjmp(run->escape, 1);
}

static void skip(j_decompress_ptr info, long bytes)
{
    if (bytes <= 0)
        return;
    if ((size_t)bytes > info->src->bytes_in_buffer)
        ends_too_early(info);
    info->src->next_input_byte += bytes;
    info->src->bytes_in_buffer -= (size_t)bytes;
}

static void set_up(jpeg_run *run, str file)
{
    run->info.err = jpeg_std_error(&run->errors);
    run->errors.error_exit = on_error;
    run->errors.output_message = say_nothing;
    run->info.client_data = run;
    jpeg_create_decompress(&run->info);
    run->source = (struct jpeg_source_mgr){.next_input_byte = (const JOCTET *)file.p,
                                           .bytes_in_buffer = file.n,
                                           .init_source = nothing_to_begin,
                                           .fill_input_buffer = ends_too_early,
                                           .skip_input_data = skip,
                                           .resync_to_restart = jpeg_resync_to_restart,
                                           .term_source = nothing_to_begin};
    run->info.src = &run->source;
    jpeg_save_markers(&run->info, JPEG_APP0 + 1, 0xffff);
}

static unsigned orientation_of(const jpeg_run *run)
{
    for (jpeg_saved_marker_ptr m = run->info.marker_list; m != NULL; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length >= 6 &&
            memcmp(m->data, "Exif\0\0", 6) == 0)
            return media_orientation((str){(const char *)m->data, m->data_length});
    return 1;
}

/* a * b / 255, rounded, in integers. */
static unsigned part_of(unsigned a, unsigned b)
{
    const unsigned t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* Samples of one row to RGB. */
static void convert(const uint8_t *from, uint32_t width, int channels, uint8_t *to)
{
    for (uint32_t x = 0; x < width; x++, from += channels, to += 3) {
        if (channels == 3) {
            memcpy(to, from, 3);
        } else if (channels == 1) {
            memset(to, from[0], 3);
        } else { /* stored as 255 - ink, so these are what the inks leave over */
            for (int c = 0; c < 3; c++) {
                const unsigned ink = 255u - from[c];
                to[c] = (uint8_t)(from[3] - part_of(ink, from[3]));
            }
        }
    }
}

/* Everything between the first header byte and the last row; leaves by longjmp on error. */
static mote_status read_rows(jpeg_run *run, mote_error *err)
{
    struct jpeg_decompress_struct *info = &run->info;
    jpeg_read_header(info, TRUE);
    TRY(media_frame_new(&run->image, info->image_width, info->image_height, err));
    info->out_color_space = info->num_components == 1   ? JCS_GRAYSCALE
                            : info->num_components == 4 ? JCS_CMYK
                                                        : JCS_RGB;
    jpeg_start_decompress(info);
    run->row = mem_new((size_t)info->output_width, (size_t)info->output_components);
    if (run->row == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for a row of a JPEG");
    while (info->output_scanline < info->output_height) {
        uint8_t *to = run->image.rgb + (size_t)info->output_scanline * info->output_width * 3;
        JSAMPROW rows[1] = {run->row};
        jpeg_read_scanlines(info, rows, 1);
        convert(run->row, info->output_width, info->output_components, to);
    }
    return MOTE_OK;
}

static mote_status with_library(jpeg_run *run, str file, bool only_header, mote_error *err)
{
    if (setjmp(run->escape) != 0)
        return err_set(err, MOTE_E_FORMAT, "the JPEG cannot be read: %s", run->message);
    set_up(run, file);
    if (!only_header)
        return read_rows(run, err);
    jpeg_read_header(&run->info, TRUE);
    return MOTE_OK;
}

mote_status media_jpeg_size(str file, uint32_t *width, uint32_t *height, mote_error *err)
{
    jpeg_run run = {0};
    const mote_status status = with_library(&run, file, true, err);
    *width = run.info.image_width;
    *height = run.info.image_height;
    jpeg_destroy_decompress(&run.info);
    return status;
}

mote_status media_jpeg_image(str file, media_frame *out, mote_error *err)
{
    jpeg_run run = {0};
    mote_status status = with_library(&run, file, false, err);
    if (status == MOTE_OK)
        status = media_orient(&run.image, orientation_of(&run), err);
    jpeg_destroy_decompress(&run.info);
    mem_free(run.row);
    if (status != MOTE_OK)
        media_frame_fini(&run.image);
    *out = run.image;
    return status;
}
