/* SPDX-License-Identifier: Apache-2.0 */
/*
 * see_probe.c - asks the worker for films, for videos_pillow.py. A request is the speed as 8 bytes,
 * the number of files (0: one) and of bytes as 4 each, the bytes of each file as 8, and the files.
 * The answer is the number of frames, width, height, times and pixels; or 0, the length of a
 * message, and the message.
 */
#include "base/mem.h"
#include "media/sandbox/decoder.h"

#include <stdio.h>

static void put(uint32_t number)
{
    fwrite(&number, sizeof number, 1, stdout);
}

static void answer(fork_server *fs, const media_request *ask)
{
    media_frames seen;
    mote_error err = {0};
    const mote_status status = media_load(fs, ask, &seen, &err);
    put(status == MOTE_OK ? seen.n : 0);
    if (status == MOTE_OK) {
        put(seen.width);
        put(seen.height);
        fwrite(seen.times, sizeof *seen.times, seen.n, stdout);
        fwrite(seen.rgb, 3, (size_t)seen.n * seen.width * seen.height, stdout);
    } else {
        put((uint32_t)strlen(err.text));
        fputs(err.text, stdout);
    }
    fflush(stdout);
    media_frames_fini(&seen);
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
        answer(fs, &(media_request){.file = {file, head.bytes},
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
