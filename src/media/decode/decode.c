/* SPDX-License-Identifier: Apache-2.0 */
/* decode.c - the table of formats, and which decoder reads a file. See decode.h. */
#include "media/decode/decode_int.h"

typedef struct media_decoder {
    const char *name;
    media_probe_fn *probe;
    media_decode_fn *decode;
} media_decoder;

static const media_decoder decoders[] = {
    [MEDIA_UNKNOWN] = {"unknown", NULL, NULL},
    [MEDIA_JPEG] = {"JPEG", media_probe_jpeg, media_decode_jpeg},
    [MEDIA_PNG] = {"PNG", media_probe_png, media_decode_png},
    [MEDIA_WEBP] = {"WebP", media_probe_webp, media_decode_webp},
    [MEDIA_GIF] = {"GIF", media_probe_gif, media_decode_gif},
    [MEDIA_AVI] = {"AVI", media_probe_avi, media_decode_avi},
    [MEDIA_VIDEO] = {"video", NULL, NULL},
};

static media_decoder video_decoder; /* set once, at startup */

void media_set_video_decoder(media_probe_fn *probe, media_decode_fn *decode)
{
    video_decoder = (media_decoder){"video", probe, decode};
}

static bool has_bytes(str file, size_t at, const char *bytes, size_t n)
{
    return file.n >= at + n && memcmp(file.p + at, bytes, n) == 0;
}

media_format media_format_of(str file)
{
    if (has_bytes(file, 0, "\xff\xd8\xff", 3))
        return MEDIA_JPEG;
    if (has_bytes(file, 0, "\x89PNG\r\n\x1a\n", 8))
        return MEDIA_PNG;
    if (has_bytes(file, 0, "RIFF", 4) && has_bytes(file, 8, "WEBP", 4))
        return MEDIA_WEBP;
    if (has_bytes(file, 0, "GIF87a", 6) || has_bytes(file, 0, "GIF89a", 6))
        return MEDIA_GIF;
    if (has_bytes(file, 0, "RIFF", 4) && has_bytes(file, 8, "AVI ", 4))
        return MEDIA_AVI;
    if (has_bytes(file, 4, "ftyp", 4) || has_bytes(file, 0, "\x1a\x45\xdf\xa3", 4))
        return MEDIA_VIDEO;
    return MEDIA_UNKNOWN;
}

const char *media_format_name(media_format format)
{
    return decoders[format].name;
}

mote_status media_check_bytes(uint64_t bytes, bool video, mote_error *err)
{
    const uint64_t most = video ? MEDIA_MAX_VIDEO_BYTES : MEDIA_MAX_BYTES;
    if (bytes > most)
        return err_set(err, MOTE_E_FULL, "the %s has %llu bytes; at most %llu",
                       video ? "video" : "image file", (unsigned long long)bytes,
                       (unsigned long long)most);
    return MOTE_OK;
}

static mote_status find_decoder(str file, const media_decoder **out, mote_error *err)
{
    const media_format format = media_format_of(file);
    *out = format == MEDIA_VIDEO ? &video_decoder : &decoders[format];
    if ((*out)->probe != NULL)
        return MOTE_OK;
    if (format == MEDIA_VIDEO)
        return err_set(err, MOTE_E_UNSUPPORTED,
                       "MP4, MKV and WebM need the program mote-media-ffmpeg (build with "
                       "-DMOTE_FFMPEG=ON); or convert the video: ffmpeg -i VIDEO -c:v mjpeg -q:v 3 "
                       "video.avi");
    return err_set(err, MOTE_E_UNSUPPORTED, "not a JPEG, PNG, WebP, GIF or AVI file");
}

mote_status media_probe(str file, media_info *out, mote_error *err)
{
    const media_decoder *decoder = NULL;
    *out = (media_info){.format = media_format_of(file), .frames = 1};
    TRY(find_decoder(file, &decoder, err));
    TRY(decoder->probe(file, out, err));
    return media_check_size(out->width, out->height, err);
}

mote_status media_decode(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    const media_decoder *decoder = NULL;
    TRY(find_decoder(file, &decoder, err));
    return decoder->decode(file, frame, with, err);
}
