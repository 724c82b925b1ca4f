/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decoder.h - decodes image and video files in sandboxed processes.
 *
 * A fork server forks one decoder process per file. The decoder enters the sandbox, reads the file
 * from a socket, decodes and resizes it, writes the pixels back and exits. A file that crashes its
 * decoder fails with an error; nothing else is affected. Limits on CPU time, wall time and memory
 * end a decoder that hangs or grows.
 *
 * The fork server is this program, executed again under another name. It shares no memory with the
 * first process, so a decoder holds no secrets, and it can be started while threads run. It only
 * waits and forks. If it is killed, the next file starts a new one, at most
 * FORK_SERVER_STARTS_PER_MINUTE times per minute. A second process of this kind, the spawner,
 * starts fork servers, so this works in a process that can no longer start programs.
 *
 * All functions but fork_server_begin, fork_server_start and fork_server_stop are thread-safe.
 */
#ifndef MOTE_MEDIA_SANDBOX_DECODER_H
#define MOTE_MEDIA_SANDBOX_DECODER_H

#include "media/decode/decode.h"

/* ---- the fork server ---- */

typedef struct fork_server fork_server;

enum { FORK_SERVER_STARTS_PER_MINUTE = 5 };

/* Must be the first call in main of a program that uses this module. In the fork server process it
 * does not return. */
void fork_server_begin(int argc, char *const *argv);

mote_status fork_server_start(fork_server **out, mote_error *err);
/* Running decoders finish their files. NULL is allowed. */
void fork_server_stop(fork_server *fs);

typedef struct fork_server_stats {
    uint64_t lost; /* times it ended unexpectedly */
    int signal;    /* that killed the last of these; 0: none, or unknown */
} fork_server_stats;

/* Checks whether the fork server runs. Never blocks: while it is being started, *stats stays
 * unchanged. */
void fork_server_poll(fork_server *fs, fork_server_stats *stats);

/* ---- decoding ---- */

/* Decodes a file in a separate process. Returns the statuses of media_decode; also
 * MOTE_E_FORMAT: the decoder exited without a reply; MOTE_E_IO: no decoder could be started, or
 * the fork server was killed: retry later. */
mote_status media_load(fork_server *fs, const media_request *request, media_frames *out,
                       mote_error *err);

/* ---- frames to images of the model: two video frames are one image ---- */

/* Number of images. */
size_t media_pairs(const media_frames *frames, bool video);
/* Encodes image i with mote_image_new. *seconds: its time in the video. */
mote_status media_pair(const media_frames *frames, bool video, size_t i, const mote_model *model,
                       uint32_t threads, mote_image **out, double *seconds, mote_error *err);

#endif
