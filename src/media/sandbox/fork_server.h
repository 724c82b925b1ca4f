/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_server.h - the process that has children: one for every file that is to be decoded.
 *
 * It is this program, started a second time by another name: nothing of the first one's memory is
 * in it, so nothing of it is in a decoder, and it can be started at any time, whatever threads
 * there are. It does nothing but wait and fork, and should never end; if it was ended by
 * somebody, the next file starts another one. Not again and again: whatever ended it
 * may do so every time.
 */
#ifndef MOTE_MEDIA_SANDBOX_FORK_SERVER_H
#define MOTE_MEDIA_SANDBOX_FORK_SERVER_H

#include "base/err.h"

typedef struct fork_server fork_server;

/* Starts of a new one within a minute, at most. */
enum { FORK_SERVER_STARTS_A_MINUTE = 5 };

/* The first call of main, in every program that starts one: does not return in the nursery. */
void fork_server_begin(int argc, char *const *argv);

mote_status fork_server_start(fork_server **out, mote_error *err);
/* Files that are being decoded are finished. NULL is allowed. */
void fork_server_stop(fork_server *fs);

typedef struct fork_server_stats {
    uint64_t lost; /* it was gone and had not been told to go */
    int signal;    /* that ended the last of these; 0: none did, or it is not known */
} fork_server_stats;

/* Looks whether it is there, and never waits: while it is being started the figures stay as they
 * were. Any thread. */
void fork_server_poll(fork_server *fs, fork_server_stats *stats);

/* ---- for worker.c ---- */

/* Who decodes: a byte that goes with a socket. */
typedef enum fork_server_decoder {
    FORK_SERVER_BUILT_IN = 0,
    FORK_SERVER_HELPER = 1
} fork_server_decoder;

/* Gives one end of a pair of sockets to a new child; starts another nursery if there is none.
 * `which`: for fork_server_was_lost. MOTE_E_IO: it was started too often, or cannot be. */
mote_status fork_server_send(fork_server *fs, int fd, fork_server_decoder who, uint64_t *which,
                             mote_error *err);
/* Is the one gone that was given something? */
bool fork_server_was_lost(fork_server *fs, uint64_t which);

#endif
