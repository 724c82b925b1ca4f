/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decoder_client.c - the parent side: sends a file to a decoder, receives pixels. See decoder.h.
 *
 * The decoder runs our own code, but on an untrusted file. So its reply is untrusted too: all
 * sizes are checked before memory is allocated.
 */
#include "media/sandbox/decoder_int.h"

#include "base/mem.h"
#include "base/os_socket.h"

#include <sys/socket.h>
#include <unistd.h>

/* Of a reply. Sides are rounded up to 32, so long videos of narrow frames exceed the model's limit
 * of pixels. */
enum { MAX_REPLY_PIXELS = 4 * MEDIA_VIDEO_MAX };

typedef struct decoder_client {
    fork_server *fs;
    uint64_t generation; /* of the fork server that got the socket */
    int fd;
} decoder_client;

/* The file is at fault, unless the fork server ended: then the decoder may have been killed too. */
static mote_status client_no_reply(const decoder_client *c, mote_error *err)
{
    if (fork_server_was_lost(c->fs, c->generation))
        return err_set(err, MOTE_E_IO,
                       "the media fork server was killed while this file was decoded; try again");
    return err_set(err, MOTE_E_FORMAT,
                   "the decoder exited without a reply: the file is damaged or exceeds %d MB of "
                   "memory",
                   SANDBOX_MEMORY_MB);
}

/* Reads the reply of the decoder. The decoder may be compromised by the file, so every size is
 * checked before it is used. */
static mote_status client_receive(const decoder_client *c, const media_request *request,
                                  media_frames *out, mote_error *err)
{
    decoder_reply h;
    if (!decoder_read(c->fd, &h, sizeof h))
        return client_no_reply(c, err);
    h.text[sizeof h.text - 1] = 0;
    if (h.status != MOTE_OK)
        return err_set(err, h.status <= MOTE_E_MISMATCH ? (mote_status)h.status : MOTE_E_FORMAT,
                       "%s", h.text);
    const uint64_t most = request->video ? MEDIA_FRAMES_MAX : 1;
    if (h.n == 0 || h.n > most || h.width == 0 || h.height == 0 || h.width % MEDIA_SIDE != 0 ||
        h.height % MEDIA_SIDE != 0 || h.width > MEDIA_MAX_SIDE || h.height > MEDIA_MAX_SIDE ||
        (uint64_t)h.n * h.width * h.height > MAX_REPLY_PIXELS)
        return client_no_reply(c, err);
    *out = (media_frames){.n = h.n,
                          .width = h.width,
                          .height = h.height,
                          .stored_width = h.stored_width,
                          .stored_height = h.stored_height};
    out->rgb = mem_new((size_t)h.width * h.height * 3, h.n);
    out->times = mem_new(h.n, sizeof *out->times);
    if (out->rgb == NULL || out->times == NULL)
        return err_set(err, MOTE_E_MEMORY, "out of memory: %u frames of %u x %u pixels", h.n,
                       h.width, h.height);
    if (!decoder_read(c->fd, out->times, h.n * sizeof *out->times) ||
        !decoder_read(c->fd, out->rgb, (size_t)h.n * h.width * h.height * 3))
        return client_no_reply(c, err);
    return MOTE_OK;
}

/* Sends a request to a new decoder and receives its frames. `own` and `decoder_fd` are the ends of
 * a socket pair. Closes decoder_fd. */
static mote_status client_exchange(fork_server *fs, int own, int decoder_fd,
                                   const media_request *request, media_frames *out, mote_error *err)
{
    const decoder_request h = {.file_bytes = request->file.n,
                               .limits = request->limits,
                               .fps = request->fps,
                               .video = request->video,
                               .n_parts = (uint32_t)request->n_parts};
    const bool ffmpeg = media_format_of(request->file) == MEDIA_VIDEO;
    decoder_client c = {.fs = fs, .fd = own};
    const mote_status sent = fork_server_send(
        fs, decoder_fd, ffmpeg ? FORK_SERVER_FFMPEG : FORK_SERVER_BUILT_IN, &c.generation, err);
    close(decoder_fd);
    TRY(sent);
    /* A failed write is not an error yet: the decoder may have replied before it stopped reading.
     */
    if (decoder_write(own, DECODER_PARENT, &h, sizeof h) &&
        decoder_write(own, DECODER_PARENT, request->parts,
                      request->n_parts * sizeof *request->parts))
        decoder_write(own, DECODER_PARENT, request->file.p, request->file.n);
    return client_receive(&c, request, out, err);
}

mote_status media_load(fork_server *fs, const media_request *request, media_frames *out,
                       mote_error *err)
{
    int pair[2];
    *out = (media_frames){0};
    TRY(media_check_bytes(request->file.n, request->video, err));
    if (request->n_parts > MEDIA_MAX_FRAMES)
        return err_set(err, MOTE_E_FULL, "the video has %zu files; at most %d", request->n_parts,
                       MEDIA_MAX_FRAMES);
    if (!os_socket_pair(pair))
        return err_set(err, MOTE_E_IO, "cannot create a socket for the media decoder");
    const mote_status status = client_exchange(fs, pair[0], pair[1], request, out, err);
    close(pair[0]);
    if (status != MOTE_OK)
        media_frames_fini(out);
    return status;
}

/* ---- frame pairs ---- */

size_t media_pairs(const media_frames *frames, bool video)
{
    return video ? (frames->n + 1) / 2 : frames->n;
}

/* With an odd number of frames the last one is paired with itself. */
mote_status media_pair(const media_frames *frames, bool video, size_t i, const mote_model *model,
                       uint32_t threads, mote_image **out, double *seconds, mote_error *err)
{
    const size_t bytes = (size_t)frames->width * frames->height * 3;
    const size_t a = video ? 2 * i : i, b = video && a + 1 < frames->n ? a + 1 : a;
    const mote_pixels pixels = {.rgb = frames->rgb + a * bytes,
                                .second_frame = video ? frames->rgb + b * bytes : NULL,
                                .width = frames->width,
                                .height = frames->height};
    *seconds = (frames->times[a] + frames->times[b]) / 2;
    return mote_image_new(out, model, &pixels, threads, err);
}
