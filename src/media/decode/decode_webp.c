/* SPDX-License-Identifier: Apache-2.0 */
/* decode_webp.c - still and animated WebP with libwebp. Transparency is dropped. */
#include "media/decode/decode_int.h"

#include "base/mem.h"

#include <webp/demux.h>

static mote_status webp_damaged(mote_error *err)
{
    return err_set(err, MOTE_E_FORMAT, "invalid WebP: damaged or incomplete");
}

mote_status media_probe_webp(str file, media_info *out, mote_error *err)
{
    const WebPData data = {(const uint8_t *)file.p, file.n};
    WebPDemuxer *demuxer = WebPDemux(&data);
    if (demuxer == NULL)
        return webp_damaged(err);
    WebPIterator frame;
    double seconds = 0;
    out->width = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH);
    out->height = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
    out->frames = WebPDemuxGetI(demuxer, WEBP_FF_FRAME_COUNT);
    if (out->frames > MEDIA_MAX_FRAMES)
        out->frames = MEDIA_MAX_FRAMES;
    out->pixels = (uint64_t)out->width * out->height * out->frames;
    if (out->frames > 1 && WebPDemuxGetFrame(demuxer, 1, &frame)) {
        do
            seconds += frame.duration / 1000.0;
        while ((uint32_t)frame.frame_num < out->frames && WebPDemuxNextFrame(&frame));
        WebPDemuxReleaseIterator(&frame);
    }
    WebPDemuxDelete(demuxer);
    if (out->frames > 1 && seconds > 0)
        out->fps = out->frames / seconds;
    return out->frames > 0 ? MOTE_OK : webp_damaged(err);
}

static unsigned webp_orientation(const WebPData *data)
{
    unsigned orientation = 1;
    WebPDemuxer *demuxer = WebPDemux(data);
    WebPChunkIterator chunk;
    if (demuxer != NULL && WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) {
        orientation = media_orientation((str){(const char *)chunk.chunk.bytes, chunk.chunk.size});
        WebPDemuxReleaseChunkIterator(&chunk);
    }
    WebPDemuxDelete(demuxer);
    return orientation;
}

/* Converts a canvas to RGB, orients it and delivers it. */
static mote_status webp_deliver(const uint8_t *rgba, uint32_t i, const WebPAnimInfo *info,
                                unsigned orientation, media_frame_fn *frame, void *with,
                                uint32_t *wanted, mote_error *err)
{
    media_frame image;
    TRY(media_frame_new(&image, info->canvas_width, info->canvas_height, err));
    const size_t n = (size_t)image.width * image.height;
    for (size_t p = 0; p < n; p++)
        memcpy(image.rgb + p * 3, rgba + p * 4, 3);
    const mote_status status = media_orient(&image, orientation, err);
    if (status == MOTE_OK)
        *wanted = frame(with, i, &image);
    media_frame_fini(&image);
    return status;
}

mote_status media_decode_webp(str file, media_frame_fn *frame, void *with, mote_error *err)
{
    const WebPData data = {(const uint8_t *)file.p, file.n};
    WebPAnimDecoderOptions options;
    WebPAnimInfo info;
    media_info probed = {.frames = 1};
    TRY(media_probe_webp(file, &probed, err));
    TRY(media_check_size(probed.width, probed.height, err));
    WebPAnimDecoderOptionsInit(&options);
    options.color_mode = MODE_RGBA;
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(&data, &options);
    if (decoder == NULL || !WebPAnimDecoderGetInfo(decoder, &info)) {
        WebPAnimDecoderDelete(decoder);
        return webp_damaged(err);
    }
    const unsigned orientation = webp_orientation(&data);
    mote_status status = MOTE_OK;
    uint32_t wanted = 0, i = 0;
    for (; status == MOTE_OK && wanted != MEDIA_NO_MORE && i < probed.frames; i++) {
        uint8_t *rgba;
        int until;
        if (!WebPAnimDecoderGetNext(decoder, &rgba, &until))
            status = webp_damaged(err);
        else if (i >= wanted)
            status = webp_deliver(rgba, i, &info, orientation, frame, with, &wanted, err);
    }
    WebPAnimDecoderDelete(decoder);
    return status;
}
