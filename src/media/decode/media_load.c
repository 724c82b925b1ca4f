/* SPDX-License-Identifier: Apache-2.0 */
/* media_load.c - from a file to resized frames: decode, sample frames, resize. See decode.h. */
#include "media/decode/decode.h"

#include "base/mem.h"

#include <stdio.h>

typedef struct loader {
    const media_request *request;
    media_info info;
    media_frames *out;
    uint32_t wanted; /* frames */
    double fps;
    uint32_t part; /* index of the file in decoding, if the video is several files */
    mote_status status;
    mote_error *err;
} loader;

static mote_status loader_alloc(loader *l, const media_frame *frame)
{
    media_frames *out = l->out;
    const media_limits limits = l->request->limits;
    TRY(l->request->video ? media_resize_video(l->wanted, frame->width, frame->height, limits,
                                               &out->width, &out->height, l->err)
                          : media_resize_image(frame->width, frame->height, limits, &out->width,
                                               &out->height, l->err));
    out->stored_width = frame->width;
    out->stored_height = frame->height;
    out->rgb = mem_new((size_t)out->width * out->height * 3, l->wanted);
    out->times = mem_new(l->wanted, sizeof *out->times);
    if (out->rgb == NULL || out->times == NULL)
        return err_set(l->err, MOTE_E_MEMORY, "out of memory: %u frames of %u x %u pixels",
                       l->wanted, out->width, out->height);
    return MOTE_OK;
}

/* Index of the next sampled frame, or MEDIA_NO_MORE after an error or the last one. */
static uint32_t loader_next(const loader *l)
{
    return l->status == MOTE_OK && l->out->n < l->wanted
               ? media_frame_at(l->out->n, l->wanted, l->info.frames)
               : MEDIA_NO_MORE;
}

static mote_status loader_check_size(const loader *l, uint32_t i, const media_frame *frame)
{
    const media_frames *out = l->out;
    if (frame->width == out->stored_width && frame->height == out->stored_height)
        return MOTE_OK;
    return err_set(l->err, MOTE_E_FORMAT, "frame %u is %u x %u, the first is %u x %u", i + 1,
                   frame->width, frame->height, out->stored_width, out->stored_height);
}

/* Resizes frame i of the file. It may be sampled more than once. */
static uint32_t loader_take(void *with, uint32_t i, const media_frame *frame)
{
    loader *l = with;
    media_frames *out = l->out;
    if (i == 0)
        l->status = loader_alloc(l, frame);
    while (loader_next(l) == i) {
        const media_frame to = {out->rgb + (size_t)out->n * out->width * out->height * 3,
                                out->width, out->height};
        l->status = loader_check_size(l, i, frame);
        if (l->status == MOTE_OK)
            l->status = media_resize(frame, &to, l->err);
        out->times[out->n++] = l->fps > 0 ? i / l->fps : 0;
    }
    return loader_next(l);
}

/* ---- a video of several files ---- */

/* The first frame of each file counts. */
static uint32_t loader_take_part(void *with, uint32_t i, const media_frame *frame)
{
    loader *l = with;
    (void)i;
    loader_take(l, l->part, frame);
    return MEDIA_NO_MORE;
}

static mote_status loader_decode_part(loader *l, str file)
{
    char where[32];
    const mote_status status = media_decode(file, loader_take_part, l, l->err);
    snprintf(where, sizeof where, "frame %u", l->part + 1);
    if (status != MOTE_OK)
        err_prefix(l->err, where);
    return status;
}

/* A video of several files, one per frame: decodes the sampled ones. */
static mote_status loader_decode_parts(loader *l)
{
    const media_request *request = l->request;
    str left = request->file;
    for (; l->part < request->n_parts && loader_next(l) != MEDIA_NO_MORE; l->part++) {
        const uint64_t bytes = request->parts[l->part];
        if (bytes > left.n)
            return err_set(l->err, MOTE_E_ARG, "the sizes of the video's files exceed its bytes");
        if (l->part == loader_next(l))
            TRY(loader_decode_part(l, (str){left.p, (size_t)bytes}));
        left = (str){left.p + bytes, left.n - (size_t)bytes};
    }
    return MOTE_OK;
}

/* ---- all of it ---- */

/* Reads the headers; of a video of several files, those of the first one. */
static mote_status loader_probe(loader *l)
{
    const media_request *request = l->request;
    str file = request->file;
    TRY(media_check_bytes(file.n, request->video, l->err));
    if (request->n_parts > 0 && request->parts[0] < file.n)
        file.n = (size_t)request->parts[0];
    const mote_status status = media_probe(file, &l->info, l->err);
    if (status != MOTE_OK && request->n_parts > 0)
        err_prefix(l->err, "frame 1");
    TRY(status);
    if (request->n_parts > 0)
        l->info = (media_info){
            .width = l->info.width, .height = l->info.height, .frames = (uint32_t)request->n_parts};
    if (request->video) {
        l->fps = request->fps > 0 ? request->fps : l->info.fps > 0 ? l->info.fps : MEDIA_VIDEO_FPS;
        l->wanted = media_frames_wanted(l->info.frames, l->fps);
    }
    return MOTE_OK;
}

/* Counts the pixels to decode and to resize. A video for FFmpeg may have more: it skips most frames
 * of a long video, and its time is limited. */
static mote_status loader_plan(const loader *l)
{
    const media_info *info = &l->info;
    const uint64_t pixels =
        (uint64_t)info->width * info->height * l->wanted + (l->request->video ? info->pixels : 0);
    if (info->format != MEDIA_VIDEO && pixels > MEDIA_MAX_VIDEO_PIXELS)
        return err_set(l->err, MOTE_E_FULL,
                       "the video needs %llu million pixels (%u frames of %u x %u); at most %llu "
                       "million: send fewer or smaller frames",
                       (unsigned long long)(pixels / 1000000), info->frames, info->width,
                       info->height, (unsigned long long)(MEDIA_MAX_VIDEO_PIXELS / 1000000));
    if (l->request->planned != NULL)
        l->request->planned(pixels);
    return MOTE_OK;
}

mote_status media_load_here(const media_request *request, media_frames *out, mote_error *err)
{
    *out = (media_frames){0};
    loader l = {.request = request, .out = out, .wanted = 1, .err = err};
    mote_status status = loader_probe(&l);
    if (status == MOTE_OK)
        status = loader_plan(&l);
    if (status == MOTE_OK)
        status = request->n_parts > 0 ? loader_decode_parts(&l)
                                      : media_decode(request->file, loader_take, &l, err);
    if (status == MOTE_OK)
        status = l.status;
    if (status == MOTE_OK && out->n < l.wanted)
        status = err_set(err, MOTE_E_FORMAT, "damaged video: only %u of %u frames can be decoded",
                         out->n, l.wanted);
    if (status != MOTE_OK)
        media_frames_fini(out);
    return status;
}

void media_frames_fini(media_frames *frames)
{
    mem_free(frames->rgb);
    mem_free(frames->times);
    *frames = (media_frames){0};
}
