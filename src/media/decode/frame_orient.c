/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_orient.c - which way up: the orientation of EXIF, and turning by it.
 *
 * Of EXIF only one number is wanted, tag 0x0112 of the first directory. Offsets in it are a
 * stranger's: everything that does not lie inside the block is as if it were not there.
 */
#include "media/decode/decode_int.h"

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

typedef struct tiff {
    const unsigned char *p;
    size_t n;
    bool little;
} tiff;

/* 0 if it does not lie inside. */
static uint32_t number(const tiff *t, size_t at, size_t bytes)
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
    if (number(&t, 2, 2) != 42)
        return 1;
    const size_t directory = number(&t, 4, 4);
    const uint32_t entries = number(&t, directory, 2);
    for (uint32_t i = 0; i < entries; i++) {
        const size_t at = directory + 2 + (size_t)i * ENTRY_BYTES;
        if (number(&t, at, 2) != TAG_ORIENTATION)
            continue;
        const uint32_t value = number(&t, at + 8, 2);
        return number(&t, at + 2, 2) == TYPE_SHORT && value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

/* Where pixel (x, y) of the turned picture comes from. */
static void source_of(unsigned orientation, const media_frame *in, uint32_t x, uint32_t y,
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

mote_status media_orient(media_frame *image, unsigned orientation, mote_error *err)
{
    if (orientation < 2 || orientation > 8)
        return MOTE_OK;
    const bool swapped = orientation >= 5;
    media_frame out;
    TRY(media_frame_new(&out, swapped ? image->height : image->width,
                        swapped ? image->width : image->height, err));
    uint8_t *to = out.rgb;
    for (uint32_t y = 0; y < out.height; y++)
        for (uint32_t x = 0; x < out.width; x++, to += 3) {
            uint32_t from_x, from_y;
            source_of(orientation, image, x, y, &from_x, &from_y);
            memcpy(to, image->rgb + ((size_t)from_y * image->width + from_x) * 3, 3);
        }
    media_frame_fini(image);
    *image = out;
    return MOTE_OK;
}
