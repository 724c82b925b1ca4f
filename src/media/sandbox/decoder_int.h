/* SPDX-License-Identifier: Apache-2.0 */
/*
 * decoder_int.h - private to sandbox/: the protocol between parent and decoder, the fork server's
 * socket passing, and the sandbox.
 *
 * Protocol: decoder_request, the sizes of the parts, the file; then decoder_reply and, on success,
 * the times and the pixels. Both ends are the same build, so structs are sent as they are.
 */
#ifndef MOTE_MEDIA_SANDBOX_DECODER_INT_H
#define MOTE_MEDIA_SANDBOX_DECODER_INT_H

#include "media/sandbox/decoder.h"

/* ---- protocol (decoder_worker.c) ---- */

typedef struct decoder_request {
    uint64_t file_bytes;
    media_limits limits;
    double fps;
    uint32_t video;
    uint32_t n_parts;
} decoder_request;

typedef struct decoder_reply {
    uint32_t status;
    uint32_t n, width, height, stored_width, stored_height;
    char text[232];
} decoder_reply;

/* Which end writes. The parent must not get SIGPIPE from a dead decoder, so it uses send(2). The
 * sandbox of the decoder allows write(2) only. */
typedef enum decoder_end { DECODER_PARENT, DECODER_CHILD } decoder_end;

/* Both return false if the other end is closed. */
bool decoder_write(int fd, decoder_end end, const void *data, size_t n);
bool decoder_read(int fd, void *data, size_t n);

/* Sends a reply with an error. */
void decoder_send_error(int fd, decoder_end end, mote_status status, const char *text);

/* Enters the sandbox, serves one request from `fd` and exits. */
_Noreturn void decoder_serve(int fd);

/* ---- socket passing (fork_server.c) ---- */

/* Which program decodes: a byte that is sent with a socket. */
typedef enum fork_server_decoder {
    FORK_SERVER_BUILT_IN = 0,
    FORK_SERVER_FFMPEG = 1
} fork_server_decoder;

/* Passes one end of a socket pair to a new decoder. Starts the fork server if it is not running.
 * `generation`: for fork_server_was_lost. MOTE_E_IO: it cannot be started, or was started too
 * often. */
mote_status fork_server_send(fork_server *fs, int fd, fork_server_decoder decoder,
                             uint64_t *generation, mote_error *err);
/* Returns true if the fork server of that generation has ended. */
bool fork_server_was_lost(fork_server *fs, uint64_t generation);

/* ---- sandbox (sandbox.c) ---- */

enum { SANDBOX_MEMORY_MB = 1024, SANDBOX_CPU_SECONDS = 30, SANDBOX_WALL_SECONDS = 60 };

/* CPU time for a part of the work: 2 s, 250 ns per pixel and 50 ns per byte, at most
 * SANDBOX_CPU_SECONDS. A pixel takes 10 to 50 ns on one core of 2020. */
double media_sandbox_seconds(uint64_t pixels, uint64_t bytes);
/* Sends SIGPROF after this much CPU time. Replaces the previous limit; allowed in the sandbox. */
void media_sandbox_limit(double seconds);

typedef enum sandbox_state {
    SANDBOX_OFF,     /* not in this build, or not on this kernel */
    SANDBOX_PARTIAL, /* system calls are filtered; the kernel has no Landlock */
    SANDBOX_ON
} sandbox_state;

/* Restricts this process for good. It can compute, allocate up to a limit, read and write open
 * descriptors, and exit. It cannot open, connect, execute, trace or signal anything. The limits
 * hold even if the state is OFF. When the time is up the process gets SIGXCPU, one second before it
 * is killed, SIGPROF (media_sandbox_limit) or SIGALRM. */
sandbox_state media_sandbox_enter(void);
/* Its part that differs between systems: limits files and system calls. */
sandbox_state sandbox_restrict(void);
/* The state that media_sandbox_enter would reach, tested in a child process. */
sandbox_state media_sandbox_here(void);
/* "off", "partial", "on" */
const char *media_sandbox_name(sandbox_state state);

#endif
