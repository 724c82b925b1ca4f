/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - which decoder a file belongs to: see codec.h. */
#include "media/decode/decode_int.h"

#include "base/mem.h"

typedef struct media_codec {
    const char *name;
    media_probe_fn *probe;
    media_decode_fn *decode;
} media_codec;

static const media_codec codecs[] = {
    [MEDIA_UNKNOWN] = {"unknown", NULL, NULL},
    [MEDIA_JPEG] = {"JPEG", media_probe_jpeg, media_decode_jpeg},
    [MEDIA_PNG] = {"PNG", media_probe_png, media_decode_png},
    [MEDIA_WEBP] = {"WebP", media_probe_webp, media_decode_webp},
    [MEDIA_GIF] = {"GIF", media_probe_gif, media_decode_gif},
    [MEDIA_AVI] = {"AVI", media_probe_avi, media_decode_avi},
    [MEDIA_VIDEO] = {"film", NULL, NULL},
};

static media_codec foreign; /* set once, at the start of the program that has one */

void media_set_foreign(media_probe_fn *probe, media_decode_fn *decode)
{
    foreign = (media_codec){"film", probe, decode};
}

static bool begins(str file, size_t at, const char *bytes, size_t n)
{
    return file.n >= at + n && memcmp(file.p + at, bytes, n) == 0;
}

media_format media_format_of(str file)
{
    if (begins(file, 0, "\xff\xd8\xff", 3))
        return MEDIA_JPEG;
    if (begins(file, 0, "\x89PNG\r\n\x1a\n", 8))
        return MEDIA_PNG;
    if (begins(file, 0, "RIFF", 4) && begins(file, 8, "WEBP", 4))
        return MEDIA_WEBP;
    if (begins(file, 0, "GIF87a", 6) || begins(file, 0, "GIF89a", 6))
        return MEDIA_GIF;
    if (begins(file, 0, "RIFF", 4) && begins(file, 8, "AVI ", 4))
        return MEDIA_AVI;
    if (begins(file, 4, "ftyp", 4) || begins(file, 0, "\x1a\x45\xdf\xa3", 4))
        return MEDIA_VIDEO;
    return MEDIA_UNKNOWN;
}

const char *media_format_name(media_format format)
{
    return codecs[format].name;
}

mote_status media_check_size(uint64_t width, uint64_t height, mote_error *err)
{
    if (width == 0 || height == 0)
        return err_set(err, MOTE_E_FORMAT, "a picture without pixels");
    if (width > MEDIA_MAX_SIDE || height > MEDIA_MAX_SIDE || width * height > MEDIA_MAX_PIXELS)
        return err_set(err, MOTE_E_FULL, "a picture of %llu x %llu; the most is %d million pixels",
                       (unsigned long long)width, (unsigned long long)height,
                       MEDIA_MAX_PIXELS / 1000000);
    return MOTE_OK;
}

static size_t image_bytes(const media_frame *image)
{
    return (size_t)image->width * image->height * 3;
}

void media_frame_fini(media_frame *image)
{
    mem_unmap(image->rgb, 0, image_bytes(image));
    image->rgb = NULL;
}

mote_status media_frame_new(media_frame *out, uint32_t width, uint32_t height, mote_error *err)
{
    *out = (media_frame){.width = width, .height = height};
    TRY(media_check_size(width, height, err));
    out->rgb = mem_map(0, image_bytes(out));
    return out->rgb != NULL
               ? MOTE_OK
               : err_set(err, MOTE_E_MEMORY, "no memory for a picture of %u x %u", width, height);
}

mote_status media_check_bytes(uint64_t bytes, bool video, mote_error *err)
{
    const uint64_t most = video ? MEDIA_MAX_VIDEO_BYTES : MEDIA_MAX_BYTES;
    if (bytes > most)
        return err_set(err, MOTE_E_FULL, "a %s of %llu bytes; the most is %llu",
                       video ? "film" : "picture file", (unsigned long long)bytes,
                       (unsigned long long)most);
    return MOTE_OK;
}

static mote_status find_codec(str file, const media_codec **out, mote_error *err)
{
    const media_format format = media_format_of(file);
    *out = format == MEDIA_VIDEO ? &foreign : &codecs[format];
    if ((*out)->probe != NULL)
        return MOTE_OK;
    if (format == MEDIA_VIDEO)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "MP4, MKV and WebM need mote-media-ffmpeg beside mote, which a build with "
                       "-DMOTE_FFMPEG=ON has; or ffmpeg -i FILM -c:v mjpeg -q:v 3 film.avi makes a "
                       "film that can be read");
    return err_set(err, MOTE_E_UNSUPPORTED, "not a JPEG, PNG, WebP, GIF or AVI");
}

mote_status media_probe(str file, media_info *out, mote_error *err)
{
    const media_codec *codec = NULL;
    *out = (media_info){.format = media_format_of(file), .frames = 1};
    TRY(find_codec(file, &codec, err));
    TRY(codec->probe(file, out, err));
    return media_check_size(out->width, out->height, err);
}

mote_status media_decode(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    const media_codec *codec = NULL;
    TRY(find_codec(file, &codec, err));
    return codec->decode(file, frame, with, err);
}
