/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resize_probe.c - resizes images from standard input, for resize_pillow.py. A request is four
 * numbers of 4 bytes (width, height, new width, new height) and the pixels. The reply is the
 * pixels.
 */
#include "base/mem.h"
#include "media/decode/resize.h"

#include <stdio.h>

int main(void)
{
    uint32_t size[4];
    while (fread(size, sizeof size, 1, stdin) == 1) {
        const size_t in_bytes = (size_t)size[0] * size[1] * 3,
                     out_bytes = (size_t)size[2] * size[3] * 3;
        const media_frame in = {mem_new(in_bytes, 1), size[0], size[1]};
        const media_frame out = {mem_new(out_bytes, 1), size[2], size[3]};
        mote_error err = {0};
        if (in.rgb == NULL || out.rgb == NULL || fread(in.rgb, 1, in_bytes, stdin) != in_bytes ||
            media_resize(&in, &out, &err) != MOTE_OK) {
            fprintf(stderr, "resize_probe: %s\n", err.text);
            return 1;
        }
        fwrite(out.rgb, 1, out_bytes, stdout);
        fflush(stdout);
        mem_free(in.rgb);
        mem_free(out.rgb);
    }
    return 0;
}
