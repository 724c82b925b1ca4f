/* SPDX-License-Identifier: Apache-2.0 */
/* decoder_worker.c - see wire.h. */
#include "media/sandbox/decoder_worker.h"

#include "base/mem.h"
#include "media/decode/decode.h"
#include "media/sandbox/sandbox.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

bool wire_write(int fd, wire_end end, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0) {
        const ssize_t done = end == WIRE_PROGRAM ? send(fd, p, n, MSG_NOSIGNAL) : write(fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        p += done;
        n -= (size_t)done;
    }
    return true;
}

bool wire_read(int fd, void *data, size_t n)
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

void wire_refuse(int fd, wire_end end, mote_status status, const char *why)
{
    wire_reply h = {.status = (uint32_t)status};
    snprintf(h.text, sizeof h.text, "%.*s", (int)sizeof h.text - 1, why);
    wire_write(fd, end, &h, sizeof h);
}

static void reply(int fd, const media_frames *seen)
{
    const wire_reply h = {.status = MOTE_OK,
                          .n = seen->n,
                          .width = seen->width,
                          .height = seen->height,
                          .stored_width = seen->stored_width,
                          .stored_height = seen->stored_height};
    if (wire_write(fd, WIRE_CHILD, &h, sizeof h) &&
        wire_write(fd, WIRE_CHILD, seen->times, seen->n * sizeof *seen->times))
        wire_write(fd, WIRE_CHILD, seen->rgb, (size_t)seen->n * seen->width * seen->height * 3);
}

/* ---- time ---- */

static int late_fd;
static wire_reply late; /* made beforehand: a signal may come anywhere */
static volatile sig_atomic_t has_replied;

static void on_late(int signal_number)
{
    (void)signal_number;
    if (!has_replied)
        wire_write(late_fd, WIRE_CHILD, &late, sizeof late);
    _exit(1);
}

static void prepare_late(int fd)
{
    late_fd = fd;
    late.status = MOTE_E_FULL;
    snprintf(late.text, sizeof late.text,
             "decoding it takes more than %d s: give a smaller picture, or a shorter film, or some "
             "frames of it (ffmpeg -i FILM -vf fps=2 FOLDER/%%05d.png)",
             SANDBOX_CPU_SECONDS);
    signal(SIGXCPU, on_late);
    signal(SIGALRM, on_late);
}

/* ---- */

/* `n` bytes of the request; the process ends if they do not come. */
static void *receive_bytes(int fd, size_t n)
{
    void *bytes = mem_new(n + 1, 1);
    if (bytes == NULL || !wire_read(fd, bytes, n))
        _exit(1);
    return bytes;
}

_Noreturn void wire_serve(int fd)
{
    wire_request h;
    mote_error err = {0};
    media_frames seen = {0};
    prepare_late(fd);
    media_sandbox_enter();
    if (!wire_read(fd, &h, sizeof h) || h.file_bytes > MEDIA_MAX_VIDEO_BYTES ||
        h.n_parts > MEDIA_MAX_FRAMES)
        _exit(1);
    const uint64_t *parts = receive_bytes(fd, h.n_parts * sizeof *parts);
    const char *file = receive_bytes(fd, (size_t)h.file_bytes);
    const media_request ask = {.file = {file, (size_t)h.file_bytes},
                               .parts = parts,
                               .n_parts = h.n_parts,
                               .video = h.video != 0,
                               .fps = h.fps,
                               .limits = h.limits};
    const mote_status status = media_load_here(&ask, &seen, &err);
    has_replied = 1;
    if (status == MOTE_OK)
        reply(fd, &seen);
    else
        wire_refuse(fd, WIRE_CHILD, status, err.text);
    _exit(0);
}
