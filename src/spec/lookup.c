/* SPDX-License-Identifier: Apache-2.0 */
/* lookup.c - suffix lookup. See lookup.h. */
#include "spec/lookup.h"

#include "base/err.h"
#include "base/mem.h"

enum {
    MAX_PLACES = 65536, /* entries of a table; older places are overwritten in longer sequences */
    MIN_PLACES = 256,
    MAX_MATCH = 64,     /* a longer match says nothing more */
    SURE_MATCH = 8,     /* a copy with this match is followed without a search */
    RESUME_MATCH = 6,   /* a copy with this match is searched again after its end ... */
    RESUME_TOKENS = 32, /* ... for this many tokens, */
    RESUME_BACK = 8,    /* from here before the place where it would continue */
    RESUME_AHEAD = 24,  /* to here after it */
    RESUME_BONUS = 4    /* it wins against a match that is not longer by more than this */
};

static const size_t key_lengths[LOOKUP_KEYS] = {2, 4, 8};

static size_t lookup_places(size_t room)
{
    size_t places = MIN_PLACES;
    while (places < room && places < MAX_PLACES)
        places *= 2;
    return places;
}

size_t lookup_bytes(size_t room)
{
    return LOOKUP_KEYS * lookup_places(room) * sizeof(uint32_t);
}

mote_status lookup_init(lookup *l, size_t room, mote_error *err)
{
    const size_t places = lookup_places(room);
    *l = (lookup){.mask = (uint32_t)places - 1, .indexed = 1};
    for (int k = 0; k < LOOKUP_KEYS; k++) {
        l->places[k] = mem_new(places, sizeof *l->places[k]);
        if (l->places[k] == NULL) {
            lookup_fini(l);
            return err_set(err, MOTE_E_MEMORY, "out of memory: suffix lookup of %zu tokens", room);
        }
    }
    return MOTE_OK;
}

void lookup_fini(lookup *l)
{
    for (int k = 0; k < LOOKUP_KEYS; k++)
        mem_free(l->places[k]);
    *l = (lookup){0};
}

static uint32_t lookup_hash(const lookup *l, const mote_token *end, size_t length)
{
    uint64_t h = length;
    for (size_t i = 1; i <= length; i++)
        h = (h ^ (uint32_t)end[-(ptrdiff_t)i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 40) & l->mask;
}

/* Tokens before `place` that equal the last tokens of the sequence, at most MAX_MATCH. */
static size_t match_length(const mote_token *tokens, size_t n, size_t place)
{
    size_t m = 0;
    while (m < place && m < MAX_MATCH && tokens[place - 1 - m] == tokens[n - 1 - m])
        m++;
    return m;
}

/* ---- the copy ---- */

static void lookup_end_copy(lookup *l, size_t n)
{
    if (l->match >= RESUME_MATCH) {
        l->old_distance = l->distance;
        l->resume_until = n + RESUME_TOKENS;
    }
    l->distance = l->match = 0;
    l->resumed = false;
}

/* Compares the last tokens with the copy: the new ones must agree, and the old ones may have been
 * replaced. */
static void lookup_follow(lookup *l, const mote_token *tokens, size_t n)
{
    if (n < l->indexed) /* tokens were cut */
        l->indexed = n > 0 ? n : 1;
    if (l->distance > 0) {
        const size_t m = n > l->distance ? match_length(tokens, n, n - l->distance) : 0;
        if (n < l->followed || m < n - l->followed)
            lookup_end_copy(l, n);
        else
            l->match = m;
    }
    l->followed = n;
}

/* ---- search ---- */

/* The token after a place must exist, so the end of the sequence is not in the tables. */
static void lookup_index(lookup *l, const mote_token *tokens, size_t n)
{
    for (; l->indexed < n; l->indexed++)
        for (int k = 0; k < LOOKUP_KEYS && key_lengths[k] <= l->indexed; k++)
            l->places[k][lookup_hash(l, tokens + l->indexed, key_lengths[k])] =
                (uint32_t)l->indexed;
}

/* The latest place of the longest key; *match is 0 if there is none. */
static size_t lookup_search(const lookup *l, const mote_token *tokens, size_t n, size_t *match)
{
    *match = 0;
    for (int k = LOOKUP_KEYS - 1; k >= 0; k--) {
        if (key_lengths[k] >= n)
            continue;
        const size_t place = l->places[k][lookup_hash(l, tokens + n, key_lengths[k])];
        if (place == 0 || place >= n)
            continue;
        const size_t m = match_length(tokens, n, place);
        if (m >= key_lengths[k]) {
            *match = m;
            return place;
        }
    }
    return 0;
}

/* The best place near the one where the earlier copy would continue. One matching token is enough
 * if it is exactly there, two elsewhere. */
static size_t lookup_search_near(const lookup *l, const mote_token *tokens, size_t n, size_t *match)
{
    const size_t expected = n - l->old_distance;
    size_t best = 0;
    *match = 0;
    if (l->old_distance == 0 || n > l->resume_until || l->old_distance > n)
        return 0;
    for (size_t i = 0; i <= RESUME_BACK + RESUME_AHEAD; i++) {
        if (expected + i < RESUME_BACK)
            continue;
        const size_t place = expected + i - RESUME_BACK;
        if (place == 0 || place >= n)
            continue;
        size_t m = match_length(tokens, n, place);
        m = m >= 2 || place == expected ? m : 0;
        if (m > *match || (m == *match && m > 0 && place == expected)) {
            *match = m;
            best = place;
        }
    }
    return best;
}

/* Sets the copy to the best match. */
static void lookup_choose(lookup *l, const mote_token *tokens, size_t n)
{
    size_t near, found;
    const size_t at_near = lookup_search_near(l, tokens, n, &near);
    const size_t at_found = lookup_search(l, tokens, n, &found);
    const bool resumes = near > 0 && found <= near + RESUME_BONUS;
    const size_t best = resumes ? near : found;
    if (best == 0 || best <= l->match)
        return;
    l->distance = n - (resumes ? at_near : at_found);
    l->match = best;
    l->resumed = resumes;
}

lookup_match lookup_find(lookup *l, const mote_token *tokens, size_t n, mote_token *draft,
                         size_t most)
{
    lookup_match out = {0};
    lookup_follow(l, tokens, n);
    lookup_index(l, tokens, n);
    if (l->match < SURE_MATCH)
        lookup_choose(l, tokens, n);
    if (l->match == 0)
        return out;
    /* A distance below `most` is a repetition: the draft then continues from itself. Image tokens
     * cannot be drafted. */
    const size_t from = n - l->distance;
    while (out.n < most) {
        const mote_token t = from + out.n < n ? tokens[from + out.n] : draft[from + out.n - n];
        if (t < 0)
            break;
        draft[out.n++] = t;
    }
    out.length = l->match;
    out.resumed = l->resumed;
    return out;
}
