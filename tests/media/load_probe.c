/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load_probe.c - loads videos through the fork server, for videos_pillow.py. A request is the frame
 * rate as 8 bytes, the number of files (0: one) and of bytes as 4 bytes each, the size of each file
 * as 8 bytes, and the files. The reply is the number of frames, width, height, times and pixels; or
 * 0, the length of an error message, and the message.
 */
#include "base/mem.h"
#include "media/sandbox/decoder.h"

#include <stdio.h>

static void write_u32(uint32_t number)
{
    fwrite(&number, sizeof number, 1, stdout);
}

static void reply(fork_server *fs, const media_request *request)
{
    media_frames frames;
    mote_error err = {0};
    const mote_status status = media_load(fs, request, &frames, &err);
    write_u32(status == MOTE_OK ? frames.n : 0);
    if (status == MOTE_OK) {
        write_u32(frames.width);
        write_u32(frames.height);
        fwrite(frames.times, sizeof *frames.times, frames.n, stdout);
        fwrite(frames.rgb, 3, (size_t)frames.n * frames.width * frames.height, stdout);
    } else {
        write_u32((uint32_t)strlen(err.text));
        fputs(err.text, stdout);
    }
    fflush(stdout);
    media_frames_fini(&frames);
}

int main(int argc, char **argv)
{
    fork_server_begin(argc, argv);
    struct {
        double fps;
        uint32_t parts, bytes;
    } head;
    fork_server *fs;
    mote_error err;
    if (fork_server_start(&fs, &err) != MOTE_OK)
        return 1;
    while (fread(&head, sizeof head, 1, stdin) == 1) {
        uint64_t *parts = mem_new((size_t)head.parts + 1, sizeof *parts);
        char *file = mem_new((size_t)head.bytes + 1, 1);
        if (parts == NULL || file == NULL ||
            fread(parts, sizeof *parts, head.parts, stdin) != head.parts ||
            fread(file, 1, head.bytes, stdin) != head.bytes)
            return 1;
        reply(fs, &(media_request){.file = {file, head.bytes},
                                   .parts = parts,
                                   .n_parts = head.parts,
                                   .video = true,
                                   .fps = head.fps});
        mem_free(parts);
        mem_free(file);
    }
    fork_server_stop(fs);
    return 0;
}
