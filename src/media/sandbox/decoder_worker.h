/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decoder_worker.h - what the program and a decoder's process say to each other, and the decoder's
 * side of it.
 *
 * A request, the bytes of each part, the file; then a reply and, if all is well, the times and the
 * pixels. Both ends are built together, so structures travel as they are.
 */
#ifndef MOTE_MEDIA_SANDBOX_DECODER_WORKER_H
#define MOTE_MEDIA_SANDBOX_DECODER_WORKER_H

#include "media/sandbox/decoder_client.h"

typedef struct wire_request {
    uint64_t file_bytes;
    media_limits limits;
    double fps;
    uint32_t video;
    uint32_t n_parts;
} wire_request;

typedef struct wire_reply {
    uint32_t status;
    uint32_t n, width, height, stored_width, stored_height;
    char text[232];
} wire_reply;

/* Who writes. A program whose child is gone must not get SIGPIPE; a child may only write(2). */
typedef enum wire_end { WIRE_PROGRAM, WIRE_CHILD } wire_end;

/* False: the other end is gone. */
bool wire_write(int fd, wire_end end, const void *data, size_t n);
bool wire_read(int fd, void *data, size_t n);

/* The whole reply to a request that is not answered. */
void wire_refuse(int fd, wire_end end, mote_status status, const char *why);

/* Gives up everything but computing (sandbox.h), then reads a request from `fd`, answers it and
 * ends the process. */
_Noreturn void wire_serve(int fd);

#endif
