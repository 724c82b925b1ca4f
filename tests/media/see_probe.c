/* SPDX-License-Identifier: Apache-2.0 */
/*
 * see_probe.c - asks the worker for films, for films_pillow.py. A request is the speed as 8 bytes,
 * the number of files (0: one) and of bytes as 4 each, the bytes of each file as 8, and the files.
 * The answer is the number of frames, width, height, times and pixels; or 0, the length of a
 * message, and the message.
 */
#include "base/mem.h"
#include "media/worker.h"

#include <stdio.h>

static void put(uint32_t number)
{
    fwrite(&number, sizeof number, 1, stdout);
}

static void answer(media_nursery *nursery, const media_ask *ask)
{
    media_seen seen;
    mote_error err = {0};
    const mote_status status = media_see(nursery, ask, &seen, &err);
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
    media_seen_fini(&seen);
}

int main(int argc, char **argv)
{
    media_nursery_begin(argc, argv);
    struct {
        double fps;
        uint32_t parts, bytes;
    } head;
    media_nursery *nursery;
    mote_error err;
    if (media_nursery_start(&nursery, &err) != MOTE_OK)
        return 1;
    while (fread(&head, sizeof head, 1, stdin) == 1) {
        uint64_t *parts = mem_new((size_t)head.parts + 1, sizeof *parts);
        char *file = mem_new((size_t)head.bytes + 1, 1);
        if (parts == NULL || file == NULL ||
            fread(parts, sizeof *parts, head.parts, stdin) != head.parts ||
            fread(file, 1, head.bytes, stdin) != head.bytes)
            return 1;
        answer(nursery, &(media_ask){.file = {file, head.bytes},
                                     .parts = parts,
                                     .n_parts = head.parts,
                                     .film = true,
                                     .fps = head.fps});
        mem_free(parts);
        mem_free(file);
    }
    media_nursery_stop(nursery);
    return 0;
}
