/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.c - RGB frames: memory, size limits, transparent colour, EXIF orientation.
 *
 * Of EXIF only tag 0x0112 of the first directory is read. Offsets are untrusted: a number outside
 * the block reads as 0.
 */
#include "media/decode/decode_int.h"

#include "base/mem.h"

mote_status media_check_size(uint64_t width, uint64_t height, mote_error *err)
{
    if (width == 0 || height == 0)
        return err_set(err, MOTE_E_FORMAT, "invalid image: width or height is 0");
    if (width > MEDIA_MAX_SIDE || height > MEDIA_MAX_SIDE || width * height > MEDIA_MAX_PIXELS)
        return err_set(err, MOTE_E_FULL,
                       "the image has %llu x %llu pixels; at most %d million, and %d per side",
                       (unsigned long long)width, (unsigned long long)height,
                       MEDIA_MAX_PIXELS / 1000000, MEDIA_MAX_SIDE);
    return MOTE_OK;
}

static size_t frame_bytes(const media_frame *frame)
{
    return (size_t)frame->width * frame->height * 3;
}

void media_frame_fini(media_frame *frame)
{
    mem_unmap(frame->rgb, 0, frame_bytes(frame));
    frame->rgb = NULL;
}

mote_status media_frame_new(media_frame *out, uint32_t width, uint32_t height, mote_error *err)
{
    *out = (media_frame){.width = width, .height = height};
    TRY(media_check_size(width, height, err));
    out->rgb = mem_map(0, frame_bytes(out));
    if (out->rgb == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %zu bytes for an image",
                       frame_bytes(out));
    return MOTE_OK;
}

void media_colour_to_white(media_frame *frame, const uint8_t colour[3])
{
    const uint8_t r = colour[0], g = colour[1], b = colour[2];
    const uint8_t *end = frame->rgb + frame_bytes(frame);
    for (uint8_t *p = frame->rgb; p < end; p += 3)
        if (p[0] == r && p[1] == g && p[2] == b)
            memset(p, 255, 3);
}

/* ---- EXIF orientation ---- */

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

typedef struct tiff {
    const unsigned char *p;
    size_t n;
    bool little;
} tiff;

/* An integer of 1 to 4 bytes; 0 if it is outside the block. */
static uint32_t tiff_number(const tiff *t, size_t at, size_t bytes)
{
    uint32_t value = 0;
    if (at > t->n || t->n - at < bytes)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | t->p[at + (t->little ? bytes - 1 - i : i)];
    return value;
}

unsigned media_orientation(str exif)
{
    if (exif.n >= 6 && memcmp(exif.p, "Exif\0\0", 6) == 0)
        exif = (str){exif.p + 6, exif.n - 6};
    tiff t = {(const unsigned char *)exif.p, exif.n, exif.n > 0 && exif.p[0] == 'I'};
    if (tiff_number(&t, 2, 2) != 42)
        return 1;
    const size_t directory = tiff_number(&t, 4, 4);
    const uint32_t entries = tiff_number(&t, directory, 2);
    for (uint32_t i = 0; i < entries; i++) {
        const size_t at = directory + 2 + (size_t)i * ENTRY_BYTES;
        if (tiff_number(&t, at, 2) != TAG_ORIENTATION)
            continue;
        const uint32_t value = tiff_number(&t, at + 8, 2);
        return tiff_number(&t, at + 2, 2) == TYPE_SHORT && value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

/* The source of pixel (x, y) of the oriented frame. */
static void orient_source(unsigned orientation, const media_frame *in, uint32_t x, uint32_t y,
                          uint32_t *from_x, uint32_t *from_y)
{
    const bool swapped = orientation >= 5;
    const uint32_t a = swapped ? y : x, b = swapped ? x : y;
    const bool mirror_x =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool mirror_y =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    *from_x = mirror_x ? in->width - 1 - a : a;
    *from_y = mirror_y ? in->height - 1 - b : b;
}

mote_status media_orient(media_frame *frame, unsigned orientation, mote_error *err)
{
    if (orientation < 2 || orientation > 8)
        return MOTE_OK;
    const bool swapped = orientation >= 5;
    media_frame out;
    TRY(media_frame_new(&out, swapped ? frame->height : frame->width,
                        swapped ? frame->width : frame->height, err));
    uint8_t *to = out.rgb;
    for (uint32_t y = 0; y < out.height; y++)
        for (uint32_t x = 0; x < out.width; x++, to += 3) {
            uint32_t from_x, from_y;
            orient_source(orientation, frame, x, y, &from_x, &from_y);
            memcpy(to, frame->rgb + ((size_t)from_y * frame->width + from_x) * 3, 3);
        }
    media_frame_fini(frame);
    *frame = out;
    return MOTE_OK;
}
