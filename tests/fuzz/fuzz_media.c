/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_media.c - arbitrary bytes as a file of FUZZ_FORMAT are rejected, or give frames inside the
 * limits. Built once per format, so that a run covers one decoder.
 */
#include "fuzz/fuzz.h"
#include "media/decode/decode.h"

#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 8 }; /* enough to paint frames over each other */

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_media: %s\n", what);
    abort();
}

typedef struct watch {
    uint32_t n, last;
    uint64_t sum; /* reads every pixel, so that a sanitizer finds missing ones */
} watch;

static uint32_t check_frame(void *with, uint32_t i, const media_frame *frame)
{
    watch *w = with;
    const size_t bytes = (size_t)frame->width * frame->height * 3;
    demand(frame->width > 0 && frame->height > 0 && frame->width <= MEDIA_MAX_SIDE &&
               frame->height <= MEDIA_MAX_SIDE && bytes / 3 <= MEDIA_MAX_PIXELS,
           "a frame exceeds the limits");
    demand(w->n == 0 ? i == 0 : i > w->last, "frames out of order");
    for (size_t b = 0; b < bytes; b++)
        w->sum += frame->rgb[b];
    w->last = i;
    return ++w->n < FRAMES ? i + 1 : MEDIA_NO_MORE;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const str file = {(const char *)data, size};
    mote_error err = {0};
    media_info info;
    watch w = {0};
    if (media_format_of(file) != FUZZ_FORMAT)
        return 0;
    const mote_status probed = media_probe(file, &info, &err);
    const mote_status decoded = media_decode(file, check_frame, &w, &err);
    demand(decoded != MOTE_OK || w.n > 0, "decoded without a frame");
    demand(probed != MOTE_OK || decoded != MOTE_OK || w.last < info.frames,
           "a frame that was not counted");
    return 0;
}
