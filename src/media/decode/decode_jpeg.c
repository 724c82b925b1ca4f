/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_jpeg.c - one JPEG with libjpeg-turbo and its defaults, which Pillow uses too.
 *
 * The library reports errors by longjmp to the one setjmp below. A truncated file is an error;
 * warnings of the library are not. A scan of a few bytes can cover the whole image, so scans are
 * limited: they are counted before decoding, and while the library finds them. CMYK is taken as
 * Adobe's, which stores inverted inks. Frames of a video often omit the standard Huffman tables;
 * the library then uses its defaults.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

/* One decompression. */
typedef struct jpeg_decoder {
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    uint32_t max_scans, scans; /* scans > max_scans: refused */
    media_frame image;
    uint8_t *row; /* samples of the library */
} jpeg_decoder;

static void on_jpeg_error(j_common_ptr info)
{
    jpeg_decoder *d = info->client_data;
    info->err->format_message(info, d->message);
    longjmp(d->escape, 1);
}

static void ignore_message(j_common_ptr info)
{
    (void)info;
}

static void source_no_op(j_decompress_ptr info)
{
    (void)info;
}

static boolean source_truncated(j_decompress_ptr info)
{
    jpeg_decoder *d = info->client_data;
    snprintf(d->message, sizeof d->message, "the file is truncated");
    longjmp(d->escape, 1);
}

static void source_skip(j_decompress_ptr info, long bytes)
{
    if (bytes <= 0)
        return;
    if ((size_t)bytes > info->src->bytes_in_buffer)
        source_truncated(info);
    info->src->next_input_byte += bytes;
    info->src->bytes_in_buffer -= (size_t)bytes;
}

/* The library calls this for every row of blocks. */
static void on_jpeg_progress(j_common_ptr info)
{
    jpeg_decoder *d = info->client_data;
    d->scans = (uint32_t)d->info.input_scan_number;
    if (d->scans > d->max_scans)
        longjmp(d->escape, 1);
}

static mote_status jpeg_too_many_scans(const jpeg_decoder *d, mote_error *err)
{
    return err_set(err, MOTE_E_FULL,
                   "the JPEG has at least %u scans; at most %u for %u x %u pixels: save it as a "
                   "baseline JPEG",
                   d->scans, d->max_scans, d->image.width, d->image.height);
}

static void jpeg_open(jpeg_decoder *d, str file)
{
    d->info.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_jpeg_error;
    d->errors.output_message = ignore_message;
    d->info.client_data = d;
    jpeg_create_decompress(&d->info);
    d->source = (struct jpeg_source_mgr){.next_input_byte = (const JOCTET *)file.p,
                                         .bytes_in_buffer = file.n,
                                         .init_source = source_no_op,
                                         .fill_input_buffer = source_truncated,
                                         .skip_input_data = source_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_no_op};
    d->info.src = &d->source;
    d->progress.progress_monitor = on_jpeg_progress;
    d->info.progress = &d->progress;
    jpeg_save_markers(&d->info, JPEG_APP0 + 1, 0xffff);
}

static unsigned jpeg_orientation(const jpeg_decoder *d)
{
    for (jpeg_saved_marker_ptr m = d->info.marker_list; m != NULL; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length >= 6 &&
            memcmp(m->data, "Exif\0\0", 6) == 0)
            return media_orientation((str){(const char *)m->data, m->data_length});
    return 1;
}

/* a * b / 255, rounded, in integers. */
static unsigned scale_255(unsigned a, unsigned b)
{
    const unsigned t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

/* Converts one row to RGB. */
static void jpeg_row_to_rgb(const uint8_t *from, uint32_t width, int channels, uint8_t *to)
{
    for (uint32_t x = 0; x < width; x++, from += channels, to += 3) {
        if (channels == 3) {
            memcpy(to, from, 3);
        } else if (channels == 1) {
            memset(to, from[0], 3);
        } else { /* stored as 255 - ink */
            for (int c = 0; c < 3; c++) {
                const unsigned ink = 255u - from[c];
                to[c] = (uint8_t)(from[3] - scale_255(ink, from[3]));
            }
        }
    }
}

/* Reads the whole file. Errors of the library leave by longjmp. */
static mote_status jpeg_decode_rows(jpeg_decoder *d, str file, mote_error *err)
{
    struct jpeg_decompress_struct *info = &d->info;
    jpeg_read_header(info, TRUE);
    TRY(media_frame_new(&d->image, info->image_width, info->image_height, err));
    const uint32_t most = MEDIA_MAX_SCAN_PIXELS / (d->image.width * d->image.height);
    d->max_scans = most < MEDIA_MAX_SCANS ? most : MEDIA_MAX_SCANS;
    d->scans = media_jpeg_scans(file);
    if (d->scans > d->max_scans)
        return jpeg_too_many_scans(d, err);
    info->out_color_space = info->num_components == 1   ? JCS_GRAYSCALE
                            : info->num_components == 4 ? JCS_CMYK
                                                        : JCS_RGB;
    jpeg_start_decompress(info);
    d->row = mem_new((size_t)info->output_width, (size_t)info->output_components);
    if (d->row == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory for a row of a JPEG");
    while (info->output_scanline < info->output_height) {
        uint8_t *to = d->image.rgb + (size_t)info->output_scanline * info->output_width * 3;
        JSAMPROW rows[1] = {d->row};
        jpeg_read_scanlines(info, rows, 1);
        jpeg_row_to_rgb(d->row, info->output_width, info->output_components, to);
    }
    return MOTE_OK;
}

static mote_status jpeg_run(jpeg_decoder *d, str file, bool only_header, mote_error *err)
{
    if (setjmp(d->escape) != 0)
        return d->scans > d->max_scans
                   ? jpeg_too_many_scans(d, err)
                   : err_set(err, MOTE_E_FORMAT, "invalid JPEG: %s", d->message);
    jpeg_open(d, file);
    if (!only_header)
        return jpeg_decode_rows(d, file, err);
    jpeg_read_header(&d->info, TRUE);
    return MOTE_OK;
}

mote_status media_jpeg_size(str file, uint32_t *width, uint32_t *height, mote_error *err)
{
    jpeg_decoder d = {0};
    const mote_status status = jpeg_run(&d, file, true, err);
    *width = d.info.image_width;
    *height = d.info.image_height;
    jpeg_destroy_decompress(&d.info);
    return status;
}

mote_status media_jpeg_frame(str file, media_frame *out, mote_error *err)
{
    jpeg_decoder d = {0};
    mote_status status = jpeg_run(&d, file, false, err);
    if (status == MOTE_OK)
        status = media_orient(&d.image, jpeg_orientation(&d), err);
    jpeg_destroy_decompress(&d.info);
    mem_free(d.row);
    if (status != MOTE_OK)
        media_frame_fini(&d.image);
    *out = d.image;
    return status;
}
