/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quota.h - how much one key may ask for: requests a minute, tokens a minute, requests at once.
 *
 * What comes by the minute is a bucket that holds a minute's worth and is filled all the time. A
 * request needs one whole request and one whole token in them, and takes the request. How many
 * tokens it costs is known when it is over: then they are taken, and the bucket may be in debt,
 * which the next ones wait for. Everything is counted in whole parts and milliseconds, so a client
 * that waits as long as it was told is let in, and one that comes a millisecond sooner is not.
 *
 * The clock is the caller's: milliseconds that never go back. Loop thread.
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

enum { QUOTA_MOST = 1000000000 }; /* of any of them */

/* All zero: no limits, nothing happened. */
typedef struct quota {
    uint32_t most[QUOTA_KINDS]; /* 0: no limit */
    int64_t parts[2];           /* of requests and tokens: what is left, below 0 what is owed */
    uint64_t at;                /* when that was so */
    uint32_t running;
    uint64_t requests, tokens; /* all that was let in, and what it cost */
    uint64_t refused[QUOTA_KINDS];
} quota;

/* "rpm", "tpm", "par" */
const char *quota_name(quota_kind kind);
/* Reads "rpm=60" and its like into a quota; false: it is no limit, out of range, or said before. */
bool quota_read(quota *q, str word);
/* The buckets are full. */
void quota_start(quota *q, uint64_t now);
/* Other limits from now on; what was used of those that there were stays used. */
void quota_change(quota *q, const uint32_t most[QUOTA_KINDS], uint64_t now);

/* A request comes. false: it may not, *why names the limit and *wait the milliseconds after which
 * it may; 0 if nobody can know. One quota_end for each that was let in. */
bool quota_begin(quota *q, uint64_t now, quota_kind *why, uint64_t *wait);
/* It is over, and has cost so many tokens. */
void quota_end(quota *q, uint64_t now, uint64_t tokens);

/* Whole requests or tokens that are left; below 0: owed. Of a kind that has a limit. */
int64_t quota_left(quota *q, quota_kind kind, uint64_t now);

#endif
