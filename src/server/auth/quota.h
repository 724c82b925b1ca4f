/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.h - rate limits of one key: requests per minute, tokens per minute, concurrent requests.
 *
 * The per-minute limits are token buckets of one minute's capacity, refilled continuously. A
 * request needs one whole request and one whole token in the buckets and takes the request. Its
 * tokens are taken when it ends, so the token bucket can become negative; later requests wait until
 * it is positive. All arithmetic is in integers: a client that waits exactly as long as requested
 * is admitted, one that comes a millisecond earlier is not.
 *
 * `now` is in milliseconds of a clock that never goes back. Event loop thread only.
 */
#ifndef MOTE_SERVER_AUTH_QUOTA_H
#define MOTE_SERVER_AUTH_QUOTA_H

#include "base/str.h"

#include <stdint.h>

typedef enum quota_kind {
    QUOTA_REQUESTS, /* rpm */
    QUOTA_TOKENS,   /* tpm */
    QUOTA_PARALLEL, /* par */
    QUOTA_KINDS
} quota_kind;

enum {
    QUOTA_MOST = 1000000000, /* largest value of a limit */
    /* A request takes at least one token per so many bytes of its body, also if it generates
     * nothing or fails: bytes are parsed and tokenized. */
    QUOTA_BYTES_PER_TOKEN = 1024
};

/* All zero: no limits, no usage. */
typedef struct quota {
    uint32_t most[QUOTA_KINDS]; /* 0: no limit */
    int64_t parts[2];           /* level of the two buckets, in 1/60,000 */
    uint64_t at;                /* time of `parts` */
    uint32_t running;           /* admitted and not ended */
    uint64_t requests, tokens;  /* totals of admitted requests */
    uint64_t refused[QUOTA_KINDS];
} quota;

/* "rpm", "tpm", "par" */
const char *quota_name(quota_kind kind);
/* Parses "rpm=60" and similar; false: unknown, out of range, or set before. */
bool quota_read(quota *q, str word);
/* Fills the buckets. */
void quota_start(quota *q, uint64_t now);
/* Changes the limits; usage stays. */
void quota_change(quota *q, const uint32_t most[QUOTA_KINDS], uint64_t now);

/* Admits a request, or returns false: *why is the limit, *wait the milliseconds until it is worth
 * another try, 0 if unknown. Call quota_end() for each admitted request. */
bool quota_begin(quota *q, uint64_t now, quota_kind *why, uint64_t *wait);
/* A request has ended and used so many tokens. */
void quota_end(quota *q, uint64_t now, uint64_t tokens);

/* Whole requests or tokens available; negative: debt. For kinds with a limit. */
int64_t quota_left(quota *q, quota_kind kind, uint64_t now);

#endif
