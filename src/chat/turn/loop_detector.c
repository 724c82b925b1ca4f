/* SPDX-License-Identifier: Apache-2.0 */
/* loop_detector.c - repetition detection. Each token costs one comparison per tracked period. */
#include "chat/turn/loop_detector.h"

#include <string.h>

enum {
    LEAST_THINKING = 64,
    LEAST_ANSWER = 128,
    ROUNDS = 2,                  /* repetitions of a whole period, after its first occurrence */
    NEAR_MISS = 4,               /* cost of a difference; with one in five the score stays at 0 */
    NEAR_ROUNDS = 4,             /* a near cycle needs twice the repetitions of an exact one */
    SALAD_NEW = LOOP_WINDOW / 5, /* fewer distinct 3-grams than this */
    SLOTS = 2 * LOOP_WINDOW      /* of the hash table that counts them; a power of two */
};

void loop_detector_start(loop_detector *loop, size_t from, bool thinking)
{
    memset(loop, 0, sizeof *loop);
    loop->from = from;
    loop->least = thinking ? LEAST_THINKING : LEAST_ANSWER;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void detector_track_period(loop_detector *l, uint32_t period, bool same, size_t n)
{
    l->exact[period] = same ? l->exact[period] + 1 : 0;
    if (l->near[period] == 0)
        l->near_from[period] = n - 1;
    l->near[period] = same ? l->near[period] + 1 : l->near[period] - NEAR_MISS;
    if (l->near[period] < 0)
        l->near[period] = 0;
}

/* Number of distinct 3-grams in the last LOOP_WINDOW tokens. */
static uint32_t count_distinct_triples(const mote_token *last)
{
    uint16_t seen[SLOTS] = {0}; /* index + 1 of a triple */
    uint32_t found = 0;
    for (uint32_t i = 0; i + 3 <= LOOP_WINDOW; i++) {
        uint32_t hash = (uint32_t)last[i] * 0x9E3779B1u;
        hash = (hash ^ (uint32_t)last[i + 1]) * 0x85EBCA6Bu;
        hash = (hash ^ (uint32_t)last[i + 2]) * 0xC2B2AE35u;
        uint32_t slot = (hash ^ hash >> 15) % SLOTS;
        while (seen[slot] != 0 && memcmp(&last[seen[slot] - 1], &last[i], 3 * sizeof *last) != 0)
            slot = (slot + 1) % SLOTS;
        if (seen[slot] == 0) {
            seen[slot] = (uint16_t)(i + 1);
            found++;
        }
    }
    return found;
}

loop_detector_kind loop_detector_add(loop_detector *l, const mote_token *tokens, size_t n)
{
    const size_t length = n - l->from;
    loop_detector_kind kind = LOOP_NONE;
    l->longest = 0;
    for (uint32_t p = 1; p <= LOOP_PERIODS && p < length; p++) {
        detector_track_period(l, p, tokens[n - 1] == tokens[n - 1 - p], n);
        l->longest = max_u32(l->longest, l->exact[p]);
        if (kind != LOOP_NONE)
            continue; /* the shortest period wins; the other counters are still updated */
        if (l->exact[p] >= max_u32(l->least, ROUNDS * p)) {
            kind = LOOP_EXACT;
            l->begin = n - l->exact[p];
        } else if (l->near[p] >= (int32_t)max_u32(2 * l->least, NEAR_ROUNDS * p)) {
            kind = LOOP_NEAR;
            l->begin = l->near_from[p];
        }
    }
    if (kind == LOOP_NONE && length >= LOOP_WINDOW && length % LOOP_EVERY == 0 &&
        count_distinct_triples(&tokens[n - LOOP_WINDOW]) < SALAD_NEW) {
        kind = LOOP_SALAD;
        l->begin = n - LOOP_WINDOW;
    }
    return kind;
}

size_t loop_detector_suspects(const loop_detector *l)
{
    return l->longest >= LOOP_SUSPECT ? l->longest : 0;
}
