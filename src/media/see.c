/* SPDX-License-Identifier: Apache-2.0 */
/* see.c - from a file to the frames a tower is given: decode, choose, resize. See worker.h. */
#include "media/codec.h"
#include "media/worker.h"

#include "base/mem.h"

/* Frames on their way from the decoder. */
typedef struct seeing {
    const media_ask *ask;
    media_info info;
    media_seen *out;
    uint32_t wanted; /* frames */
    double fps;
    mote_status status;
    mote_error *err;
} seeing;

static mote_status make_room(seeing *s, const media_picture *frame)
{
    media_seen *out = s->out;
    const media_limits limits = s->ask->limits;
    TRY(s->ask->film ? media_fit_film(s->wanted, frame->width, frame->height, limits, &out->width,
                                      &out->height, s->err)
                     : media_fit_picture(frame->width, frame->height, limits, &out->width,
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

/* Frame i of the file, as often as it was chosen. */
static bool take(void *with, uint32_t i, const media_picture *frame)
{
    seeing *s = with;
    media_seen *out = s->out;
    if (i == 0)
        s->status = make_room(s, frame);
    while (s->status == MOTE_OK && out->n < s->wanted &&
           media_frame_at(out->n, s->wanted, s->info.frames) == i) {
        const media_picture to = {out->rgb + (size_t)out->n * out->width * out->height * 3,
                                  out->width, out->height};
        s->status = media_resize(frame, &to, s->err);
        out->times[out->n++] = s->fps > 0 ? i / s->fps : 0;
    }
    return s->status == MOTE_OK && out->n < s->wanted;
}

mote_status media_see_here(const media_ask *ask, media_seen *out, mote_error *err)
{
    *out = (media_seen){0};
    seeing s = {.ask = ask, .out = out, .wanted = 1, .err = err};
    TRY(media_probe(ask->file, &s.info, err));
    if (ask->film) {
        s.fps = ask->fps > 0         ? ask->fps
                : s.info.seconds > 0 ? s.info.frames / s.info.seconds
                                     : MEDIA_FILM_FPS;
        s.wanted = media_frames_wanted(s.info.frames, s.fps);
    }
    mote_status status = media_decode(ask->file, take, &s, err);
    if (status == MOTE_OK)
        status = s.status;
    if (status == MOTE_OK && out->n < s.wanted)
        status = err_set(err, MOTE_E_FORMAT, "only %u of %u frames can be read", out->n, s.wanted);
    if (status != MOTE_OK)
        media_seen_fini(out);
    return status;
}

void media_seen_fini(media_seen *seen)
{
    mem_free(seen->rgb);
    mem_free(seen->times);
    *seen = (media_seen){0};
}
