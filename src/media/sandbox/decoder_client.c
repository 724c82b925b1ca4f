/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decoder_client.c - see worker.h.
 *
 * On a pair of sockets travel the request (a header and the file) and the answer (a header, the
 * times and the pixels). Both ends are our own program, but the child has read a stranger's file:
 * what it says is checked before it is believed.
 */
#define _GNU_SOURCE
#include "media/sandbox/decoder_client.h"

#include "base/mem.h"
#include "media/decode/decode.h"
#include "media/sandbox/decoder_worker.h"

#include <sys/socket.h>
#include <unistd.h>

/* Of an answer. Sides are rounded up to 32, so that long films of narrow pictures have more than
 * the model's limit says. */
enum { MOST_PIXELS = 4 * MEDIA_VIDEO_MAX };

/* An answer that is waited for. */
typedef struct waiting {
    fork_server *fs;
    uint64_t which; /* nursery it was given to */
    int fd;
} waiting;

/* The file's fault, unless the nursery went: then it may have been killed with it. */
static mote_status no_answer(const waiting *w, mote_error *err)
{
    if (fork_server_was_lost(w->fs, w->which))
        return err_set(err, MOTE_E_IO,
                       "the process that decodes pictures ended while this one was with it: ask "
                       "again");
    return err_set(err, MOTE_E_FORMAT,
                   "the picture's decoder ended without an answer: the file is damaged or too much "
                   "for its limits");
}

/* A stranger's bytes have been in the child: sizes are checked as if it had made them up. */
static mote_status receive(const waiting *w, const media_request *ask, media_frames *out,
                           mote_error *err)
{
    wire_reply h;
    if (!wire_read(w->fd, &h, sizeof h))
        return no_answer(w, err);
    h.text[sizeof h.text - 1] = 0;
    if (h.status != MOTE_OK)
        return err_set(err, h.status <= MOTE_E_MISMATCH ? (mote_status)h.status : MOTE_E_FORMAT,
                       "%s", h.text);
    const uint64_t most = ask->video ? MEDIA_FRAMES_MAX : 1;
    if (h.n == 0 || h.n > most || h.width == 0 || h.height == 0 || h.width % MEDIA_SIDE != 0 ||
        h.height % MEDIA_SIDE != 0 || h.width > MEDIA_MAX_SIDE || h.height > MEDIA_MAX_SIDE ||
        (uint64_t)h.n * h.width * h.height > MOST_PIXELS)
        return no_answer(w, err);
    *out = (media_frames){.n = h.n,
                          .width = h.width,
                          .height = h.height,
                          .stored_width = h.stored_width,
                          .stored_height = h.stored_height};
    out->rgb = mem_new((size_t)h.width * h.height * 3, h.n);
    out->times = mem_new(h.n, sizeof *out->times);
    if (out->rgb == NULL || out->times == NULL)
        return err_set(err, MOTE_E_MEMORY, "no memory for %u frames of %u x %u", h.n, h.width,
                       h.height);
    if (!wire_read(w->fd, out->times, h.n * sizeof *out->times) ||
        !wire_read(w->fd, out->rgb, (size_t)h.n * h.width * h.height * 3))
        return no_answer(w, err);
    return MOTE_OK;
}

static mote_status exchange_with_child(fork_server *fs, int own, int its, const media_request *ask,
                                       media_frames *out, mote_error *err)
{
    const wire_request h = {.file_bytes = ask->file.n,
                            .limits = ask->limits,
                            .fps = ask->fps,
                            .video = ask->video,
                            .n_parts = (uint32_t)ask->n_parts};
    const bool video = media_format_of(ask->file) == MEDIA_VIDEO;
    waiting w = {.fs = fs, .fd = own};
    const mote_status sent =
        fork_server_send(fs, its, video ? FORK_SERVER_HELPER : FORK_SERVER_BUILT_IN, &w.which, err);
    close(its);
    TRY(sent);
    /* Who stops reading has said why, or says nothing: either is read afterwards. */
    if (wire_write(own, WIRE_PROGRAM, &h, sizeof h) &&
        wire_write(own, WIRE_PROGRAM, ask->parts, ask->n_parts * sizeof *ask->parts))
        wire_write(own, WIRE_PROGRAM, ask->file.p, ask->file.n);
    return receive(&w, ask, out, err);
}

mote_status media_load(fork_server *fs, const media_request *ask, media_frames *out,
                       mote_error *err)
{
    int pair[2];
    *out = (media_frames){0};
    TRY(media_check_bytes(ask->file.n, ask->video, err));
    if (ask->n_parts > MEDIA_MAX_FRAMES)
        return err_set(err, MOTE_E_FULL, "a film of %zu files; the most is %d", ask->n_parts,
                       MEDIA_MAX_FRAMES);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return err_set(err, MOTE_E_IO, "no socket to the decoder of pictures");
    const mote_status status = exchange_with_child(fs, pair[0], pair[1], ask, out, err);
    close(pair[0]);
    if (status != MOTE_OK)
        media_frames_fini(out);
    return status;
}
