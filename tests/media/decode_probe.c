/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decode_probe.c [FRAMES | video] - decodes files from standard input, for decode_pillow.py and
 * hostile.py. A request is a length of 4 bytes and a file of that length. The reply is the number
 * of frames, at most FRAMES (1), and for each its width, height and pixels; or 0, the length of an
 * error message, and the message. "video" samples and resizes frames for a model.
 */
#include "base/mem.h"
#include "media/decode/decode.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct frames {
    media_frame *list;
    uint32_t n, most;
} frames;

static uint32_t copy_frame(void *with, uint32_t i, const media_frame *frame)
{
    frames *f = with;
    const size_t bytes = (size_t)frame->width * frame->height * 3;
    f->list[f->n] = *frame;
    f->list[f->n].rgb = mem_new(bytes, 1);
    memcpy(f->list[f->n++].rgb, frame->rgb, bytes);
    return f->n < f->most ? i + 1 : MEDIA_NO_MORE;
}

static void write_u32(uint32_t number)
{
    fwrite(&number, sizeof number, 1, stdout);
}

static void write_error(const mote_error *err)
{
    write_u32(0);
    write_u32((uint32_t)strlen(err->text));
    fputs(err->text, stdout);
}

static void reply_video(str file)
{
    mote_error err = {0};
    media_frames got;
    const mote_status status =
        media_load_here(&(media_request){.file = file, .video = true}, &got, &err);
    if (status != MOTE_OK) {
        write_error(&err);
    } else {
        const size_t bytes = (size_t)got.width * got.height * 3;
        write_u32(got.n);
        for (uint32_t i = 0; i < got.n; i++) {
            write_u32(got.width);
            write_u32(got.height);
            fwrite(got.rgb + i * bytes, 1, bytes, stdout);
        }
    }
    media_frames_fini(&got);
    fflush(stdout);
}

static void reply(str file, uint32_t most)
{
    mote_error err = {0};
    media_info info;
    frames f = {.list = mem_new(most, sizeof *f.list), .most = most};
    mote_status status = media_probe(file, &info, &err);
    if (status == MOTE_OK)
        status = media_decode(file, copy_frame, &f, &err);
    if (status == MOTE_OK)
        write_u32(f.n);
    else
        write_error(&err);
    for (uint32_t i = 0; i < f.n; i++) {
        if (status == MOTE_OK) {
            write_u32(f.list[i].width);
            write_u32(f.list[i].height);
            fwrite(f.list[i].rgb, 3, (size_t)f.list[i].width * f.list[i].height, stdout);
        }
        mem_free(f.list[i].rgb);
    }
    mem_free(f.list);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const bool video = argc > 1 && strcmp(argv[1], "video") == 0;
    const uint32_t most = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1;
    uint32_t n;
    while (fread(&n, sizeof n, 1, stdin) == 1) {
        char *file = mem_new((size_t)n + 1, 1);
        if (file == NULL || fread(file, 1, n, stdin) != n)
            return 1;
        if (video)
            reply_video((str){file, n});
        else
            reply((str){file, n}, most);
        mem_free(file);
    }
    return 0;
}
