/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_media.c - any bytes as a file of FUZZ_FORMAT: refused, or frames inside the limits. Built
 * once for each format, so that a search spends its time on one decoder.
 */
#include "fuzz/fuzz.h"
#include "media/decode/decode.h"

#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 8 }; /* enough for one frame to be painted over another */

static void demand(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_media: %s\n", what);
    abort();
}

typedef struct watch {
    uint32_t n, last;
    uint64_t sum; /* so that every pixel is read, and a sanitizer sees those that are not there */
} watch;

static uint32_t look(void *with, uint32_t i, const media_frame *frame)
{
    watch *w = with;
    const size_t bytes = (size_t)frame->width * frame->height * 3;
    demand(frame->width > 0 && frame->height > 0 && frame->width <= MEDIA_MAX_SIDE &&
               frame->height <= MEDIA_MAX_SIDE && bytes / 3 <= MEDIA_MAX_PIXELS,
           "a frame beyond the limits");
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
    const mote_status decoded = media_decode(file, look, &w, &err);
    demand(decoded != MOTE_OK || w.n > 0, "decoded, and no frame");
    demand(probed != MOTE_OK || decoded != MOTE_OK || w.last < info.frames,
           "a frame that was not counted");
    return 0;
}
