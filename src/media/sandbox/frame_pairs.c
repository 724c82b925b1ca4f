/* SPDX-License-Identifier: Apache-2.0 */
/* frame_pairs.c - see frame_pairs.h. */
#include "media/sandbox/frame_pairs.h"

size_t media_pairs(const media_frames *seen, bool video)
{
    return video ? (seen->n + 1) / 2 : seen->n;
}

/* The last one of an odd number of frames is its own second. */
mote_status media_pair(const media_frames *seen, bool video, size_t i, const mote_model *model,
                       uint32_t threads, mote_image **out, double *seconds, mote_error *err)
{
    const size_t frame = (size_t)seen->width * seen->height * 3;
    const size_t a = video ? 2 * i : i, b = video && a + 1 < seen->n ? a + 1 : a;
    const mote_pixels pixels = {.rgb = seen->rgb + a * frame,
                                .second_frame = video ? seen->rgb + b * frame : NULL,
                                .width = seen->width,
                                .height = seen->height};
    *seconds = (seen->times[a] + seen->times[b]) / 2;
    return mote_image_new(out, model, &pixels, threads, err);
}
