/* SPDX-License-Identifier: Apache-2.0 */
/* decoder_worker.c - the decoder process, and the protocol of both ends. See decoder_int.h. */
#include "media/sandbox/decoder_int.h"

#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- protocol ---- */

bool decoder_write(int fd, decoder_end end, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        const ssize_t done = end == DECODER_PARENT ? send(fd, p, n, MSG_NOSIGNAL) : write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

bool decoder_read(int fd, void *data, size_t n)
{
    char *p = data;
    while (n > 0) {
        const ssize_t done = read(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

void decoder_send_error(int fd, decoder_end end, mote_status status, const char *text)
{
    decoder_reply h = {.status = (uint32_t)status};
    snprintf(h.text, sizeof h.text, "%.*s", (int)sizeof h.text - 1, text);
    decoder_write(fd, end, &h, sizeof h);
}

/* ---- time limit ---- */

static int timeout_fd;
static uint64_t timeout_bytes;      /* of the file */
static decoder_reply timeout_reply; /* prepared: the signal may arrive anywhere */
static volatile sig_atomic_t has_replied;

static void on_timeout(int signal_number)
{
    (void)signal_number;
    if (!has_replied)
        decoder_write(timeout_fd, DECODER_CHILD, &timeout_reply, sizeof timeout_reply);
    _exit(1);
}

static void timeout_set(double seconds)
{
    timeout_reply.status = MOTE_E_FULL;
    snprintf(timeout_reply.text, sizeof timeout_reply.text,
             "decoding takes more than %.3g s; send a smaller image, a shorter video, or single "
             "frames of it (ffmpeg -i VIDEO -vf fps=2 DIRECTORY/%%05d.png)",
             seconds);
    media_sandbox_limit(seconds);
}

static void timeout_prepare(int fd)
{
    timeout_fd = fd;
    timeout_set(SANDBOX_CPU_SECONDS);
    signal(SIGXCPU, on_timeout);
    signal(SIGPROF, on_timeout);
    signal(SIGALRM, on_timeout);
}

/* The time for frames is proportional to their pixels, so a file that looks small cannot occupy a
 * decoder for long. */
static void timeout_planned(uint64_t pixels)
{
    timeout_set(media_sandbox_seconds(pixels, timeout_bytes));
}

/* ---- one request ---- */

/* Reads n bytes of the request. Exits if they do not arrive. */
static void *worker_read_bytes(int fd, size_t n)
{
    void *bytes = mem_new(n + 1, 1);
    if (bytes == NULL || !decoder_read(fd, bytes, n))
        _exit(1);
    return bytes;
}

static void worker_reply(int fd, const media_frames *frames)
{
    const decoder_reply h = {.status = MOTE_OK,
                             .n = frames->n,
                             .width = frames->width,
                             .height = frames->height,
                             .stored_width = frames->stored_width,
                             .stored_height = frames->stored_height};
    if (decoder_write(fd, DECODER_CHILD, &h, sizeof h) &&
        decoder_write(fd, DECODER_CHILD, frames->times, frames->n * sizeof *frames->times))
        decoder_write(fd, DECODER_CHILD, frames->rgb,
                      (size_t)frames->n * frames->width * frames->height * 3);
}

_Noreturn void decoder_serve(int fd)
{
    decoder_request h;
    mote_error err = {0};
    media_frames frames = {0};
    timeout_prepare(fd);
    media_sandbox_enter();
    if (!decoder_read(fd, &h, sizeof h) || h.file_bytes > MEDIA_MAX_VIDEO_BYTES ||
        h.n_parts > MEDIA_MAX_FRAMES)
        _exit(1);
    const uint64_t *parts = worker_read_bytes(fd, h.n_parts * sizeof *parts);
    const char *file = worker_read_bytes(fd, (size_t)h.file_bytes);
    const media_request request = {.file = {file, (size_t)h.file_bytes},
                                   .parts = parts,
                                   .n_parts = h.n_parts,
                                   .video = h.video != 0,
                                   .fps = h.fps,
                                   .limits = h.limits,
                                   .planned = timeout_planned};
    timeout_bytes = h.file_bytes;
    if (media_format_of(request.file) != MEDIA_VIDEO) /* FFmpeg decodes frames to probe a file */
        timeout_set(media_sandbox_seconds(0, timeout_bytes));
    const mote_status status = media_load_here(&request, &frames, &err);
    has_replied = 1;
    if (status == MOTE_OK)
        worker_reply(fd, &frames);
    else
        decoder_send_error(fd, DECODER_CHILD, status, err.text);
    _exit(0);
}
