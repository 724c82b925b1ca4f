/* SPDX-License-Identifier: Apache-2.0 */
/* media_load.c - from a file to the frames a tower is given: decode, choose, resize. See worker.h.
 */
#include "media/decode/decode.h"
#include "media/sandbox/decoder_client.h"

#include "base/mem.h"

#include <stdio.h>

/* Frames on their way from the decoder. */
typedef struct seeing {
    const media_request *ask;
    media_info info;
    media_frames *out;
    uint32_t wanted; /* frames */
    double fps;
    uint32_t part; /* of a film of several files: which one is being decoded */
    mote_status status;
    mote_error *err;
} seeing;

static mote_status make_room(seeing *s, const media_frame *frame)
{
    media_frames *out = s->out;
    const media_limits limits = s->ask->limits;
    TRY(s->ask->video ? media_resize_video(s->wanted, frame->width, frame->height, limits,
                                           &out->width, &out->height, s->err)
                      : media_resize_image(frame->width, frame->height, limits, &out->width,
                                           &out->height, s->err));
    out->stored_width = frame->width;
    out->stored_height = frame->height;
    out->rgb = mem_new((size_t)out->width * out->height * 3, s->wanted);
    out->times = mem_new(s->wanted, sizeof *out->times);
    if (out->rgb == NULL || out->times == NULL)
        return err_set(s->err, MOTE_E_MEMORY, "no memory for %u frames of %u x %u", s->wanted,
                       out->width, out->height);
    return MOTE_OK;
}

/* Number of the next frame that is wanted. */
static uint32_t next_wanted(const seeing *s)
{
    return s->status == MOTE_OK && s->out->n < s->wanted
               ? media_frame_at(s->out->n, s->wanted, s->info.frames)
               : MEDIA_ENOUGH;
}

static mote_status check_same(const seeing *s, uint32_t i, const media_frame *frame)
{
    const media_frames *out = s->out;
    if (frame->width == out->stored_width && frame->height == out->stored_height)
        return MOTE_OK;
    return err_set(s->err, MOTE_E_FORMAT, "frame %u is %u x %u, the first %u x %u", i + 1,
                   frame->width, frame->height, out->stored_width, out->stored_height);
}

/* Frame i of the file, as often as it was chosen. */
static uint32_t take(void *with, uint32_t i, const media_frame *frame)
{
    seeing *s = with;
    media_frames *out = s->out;
    if (i == 0)
        s->status = make_room(s, frame);
    while (next_wanted(s) == i) {
        const media_frame to = {out->rgb + (size_t)out->n * out->width * out->height * 3,
                                out->width, out->height};
        s->status = check_same(s, i, frame);
        if (s->status == MOTE_OK)
            s->status = media_resize(frame, &to, s->err);
        out->times[out->n++] = s->fps > 0 ? i / s->fps : 0;
    }
    return next_wanted(s);
}

/* ---- a film of several files ---- */

/* Of a part only the first frame counts. */
static uint32_t take_part(void *with, uint32_t i, const media_frame *frame)
{
    seeing *s = with;
    (void)i;
    take(s, s->part, frame);
    return MEDIA_ENOUGH;
}

static mote_status see_part(seeing *s, str file)
{
    char where[32];
    const mote_status status = media_decode(file, take_part, s, s->err);
    snprintf(where, sizeof where, "frame %u", s->part + 1);
    if (status != MOTE_OK)
        err_prefix(s->err, where);
    return status;
}

static mote_status see_parts(seeing *s)
{
    const media_request *ask = s->ask;
    str left = ask->file;
    for (; s->part < ask->n_parts && next_wanted(s) != MEDIA_ENOUGH; s->part++) {
        const uint64_t bytes = ask->parts[s->part];
        if (bytes > left.n)
            return err_set(s->err, MOTE_E_ARG, "the files of a film are more than its bytes");
        if (s->part == next_wanted(s))
            TRY(see_part(s, (str){left.p, (size_t)bytes}));
        left = (str){left.p + bytes, left.n - (size_t)bytes};
    }
    return MOTE_OK;
}

/* ---- */

static mote_status look_at(seeing *s)
{
    const media_request *ask = s->ask;
    TRY(media_check_bytes(ask->file.n, ask->video, s->err));
    if (ask->n_parts > 0)
        s->info = (media_info){.frames = (uint32_t)ask->n_parts};
    else
        TRY(media_probe(ask->file, &s->info, s->err));
    if (ask->video) {
        s->fps = ask->fps > 0 ? ask->fps : s->info.fps > 0 ? s->info.fps : MEDIA_VIDEO_FPS;
        s->wanted = media_frames_wanted(s->info.frames, s->fps);
    }
    return MOTE_OK;
}

mote_status media_load_here(const media_request *ask, media_frames *out, mote_error *err)
{
    *out = (media_frames){0};
    seeing s = {.ask = ask, .out = out, .wanted = 1, .err = err};
    mote_status status = look_at(&s);
    if (status == MOTE_OK)
        status = ask->n_parts > 0 ? see_parts(&s) : media_decode(ask->file, take, &s, err);
    if (status == MOTE_OK)
        status = s.status;
    if (status == MOTE_OK && out->n < s.wanted)
        status = err_set(err, MOTE_E_FORMAT, "only %u of %u frames can be read", out->n, s.wanted);
    if (status != MOTE_OK)
        media_frames_fini(out);
    return status;
}

void media_frames_fini(media_frames *seen)
{
    mem_free(seen->rgb);
    mem_free(seen->times);
    *seen = (media_frames){0};
}
