/* SPDX-License-Identifier: Apache-2.0 */
/* quota.c - see quota.h. */
#include "server/auth/quota.h"

/* A bucket with N per minute gains N parts per millisecond; one request or token is 60,000 parts.
 * So refilling needs no division and loses nothing by rounding. */
enum { ONE = 60 * 1000 };

const char *quota_name(quota_kind kind)
{
    static const char *const names[QUOTA_KINDS] = {"rpm", "tpm", "par"};
    return names[kind];
}

static bool quota_parse_number(str digits, uint32_t *out)
{
    uint64_t n = 0;
    for (size_t i = 0; i < digits.n; i++) {
        if (digits.p[i] < '0' || digits.p[i] > '9' || n > QUOTA_MOST)
            return false;
        n = n * 10 + (uint64_t)(digits.p[i] - '0');
    }
    *out = (uint32_t)n;
    return n >= 1 && n <= QUOTA_MOST;
}

bool quota_read(quota *q, str word)
{
    enum { NAME = 3 };
    if (word.n <= NAME || word.p[NAME] != '=')
        return false;
    for (quota_kind kind = 0; kind < QUOTA_KINDS; kind++)
        if (str_is((str){word.p, NAME}, quota_name(kind)))
            return q->most[kind] == 0 &&
                   quota_parse_number((str){word.p + NAME + 1, word.n - NAME - 1}, &q->most[kind]);
    return false;
}

static int64_t bucket_capacity(const quota *q, quota_kind kind)
{
    return (int64_t)q->most[kind] * ONE;
}

void quota_start(quota *q, uint64_t now)
{
    q->at = now;
    for (quota_kind kind = QUOTA_REQUESTS; kind <= QUOTA_TOKENS; kind++)
        q->parts[kind] = bucket_capacity(q, kind);
}

/* Milliseconds until the bucket has `parts`. */
static uint64_t bucket_wait(const quota *q, quota_kind kind, int64_t parts)
{
    const int64_t lacks = parts - q->parts[kind];
    return lacks > 0 ? ((uint64_t)lacks + q->most[kind] - 1) / q->most[kind] : 0;
}

/* Adds what has accrued since the last call to the token buckets. */
static void quota_refill(quota *q, uint64_t now)
{
    const uint64_t passed = now - q->at;
    q->at = now;
    for (quota_kind kind = QUOTA_REQUESTS; kind <= QUOTA_TOKENS; kind++) {
        if (q->most[kind] == 0)
            continue;
        if (passed >=
            bucket_wait(q, kind, bucket_capacity(q, kind))) /* also where the sum would overflow */
            q->parts[kind] = bucket_capacity(q, kind);
        else
            q->parts[kind] += (int64_t)(passed * q->most[kind]);
    }
}

void quota_change(quota *q, const uint32_t most[QUOTA_KINDS], uint64_t now)
{
    quota_refill(q, now);
    for (quota_kind kind = QUOTA_REQUESTS; kind <= QUOTA_TOKENS; kind++) {
        const int64_t used = q->most[kind] > 0 ? bucket_capacity(q, kind) - q->parts[kind] : 0;
        q->most[kind] = most[kind];
        q->parts[kind] = bucket_capacity(q, kind) - used;
    }
    q->most[QUOTA_PARALLEL] = most[QUOTA_PARALLEL];
}

bool quota_begin(quota *q, uint64_t now, quota_kind *why, uint64_t *wait)
{
    quota_refill(q, now);
    *wait = 0;
    for (quota_kind kind = QUOTA_REQUESTS; kind <= QUOTA_TOKENS; kind++)
        if (q->most[kind] > 0 && bucket_wait(q, kind, ONE) > *wait) {
            *wait = bucket_wait(q, kind, ONE);
            *why = kind;
        }
    const bool too_many = q->most[QUOTA_PARALLEL] > 0 && q->running >= q->most[QUOTA_PARALLEL];
    if (*wait == 0 && too_many)
        *why = QUOTA_PARALLEL;
    if (*wait > 0 || too_many) {
        q->refused[*why]++;
        return false;
    }
    if (q->most[QUOTA_REQUESTS] > 0)
        q->parts[QUOTA_REQUESTS] -= ONE;
    q->running++;
    q->requests++;
    return true;
}

void quota_end(quota *q, uint64_t now, uint64_t tokens)
{
    /* Debt is bounded, so that nothing overflows. */
    const uint64_t most = tokens < QUOTA_MOST ? tokens : QUOTA_MOST;
    const int64_t deepest = -(int64_t)QUOTA_MOST * ONE;
    quota_refill(q, now);
    q->running--;
    q->tokens += tokens;
    if (q->most[QUOTA_TOKENS] == 0)
        return;
    q->parts[QUOTA_TOKENS] -= (int64_t)most * ONE;
    if (q->parts[QUOTA_TOKENS] < deepest)
        q->parts[QUOTA_TOKENS] = deepest;
}

int64_t quota_left(quota *q, quota_kind kind, uint64_t now)
{
    quota_refill(q, now);
    const int64_t parts = q->parts[kind];
    return parts >= 0 ? parts / ONE : -((-parts + ONE - 1) / ONE);
}
