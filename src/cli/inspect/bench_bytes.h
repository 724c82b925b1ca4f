/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_bytes.h - what a token costs in memory traffic, and what this machine
 * can read: the yardstick beside every decoding speed.
 */
#ifndef MOTE_CLI_INSPECT_BENCH_BYTES_H
#define MOTE_CLI_INSPECT_BENCH_BYTES_H

#include "base/err.h"
#include "base/pool.h"

/* The weights that one decoded token reads, as stretches of the file. */
typedef struct bench_bytes {
    uint64_t per_token;
    uint64_t file_bytes;
} bench_bytes;

mote_status bench_bytes_of(bench_bytes *out, const char *path, mote_error *err);

/* Reads the weights of one token once, with all threads, doing nothing with
 * them but adding. Returns seconds: the fastest of `repeats`. */
mote_status bench_bare_read(const char *path, pool *threads, uint32_t repeats, double *seconds,
                            mote_error *err);

#endif
