/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spell.c - see spell.h.
 *
 * The distance counts letters added, left out, changed and swapped with their
 * neighbour. A candidate counts as near if at most a third of the letters are
 * wrong; a typed word that begins a candidate is near too ("temp" and "temperature").
 */
#include "cli/term/spell.h"

#include <string.h>

enum { LONGEST = 40 };

static size_t min_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Both words are at most LONGEST bytes. */
static size_t distance_of(const char *a, size_t n_a, const char *b, size_t n_b)
{
    size_t d[LONGEST + 1][LONGEST + 1]; /* [letters of a][letters of b] */
    for (size_t i = 0; i <= n_a; i++)
        d[i][0] = i;
    for (size_t j = 0; j <= n_b; j++)
        d[0][j] = j;
    for (size_t i = 1; i <= n_a; i++)
        for (size_t j = 1; j <= n_b; j++) {
            size_t change = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            d[i][j] = min_of(change, min_of(d[i - 1][j], d[i][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = min_of(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[n_a][n_b];
}

void spell_offer(spell *s, const char *candidate)
{
    size_t n_word = strlen(s->word), n_candidate = strlen(candidate);
    if (n_word == 0 || n_word > LONGEST || n_candidate > LONGEST)
        return;
    size_t shorter = min_of(n_word, n_candidate), longer = n_word + n_candidate - shorter;
    size_t distance = distance_of(s->word, n_word, candidate, n_candidate);
    if (shorter >= 3 && memcmp(s->word, candidate, shorter) == 0)
        distance = 1;
    else if (distance > (longer + 2) / 3)
        return;
    if (s->best == NULL || distance < s->distance) {
        s->best = candidate;
        s->distance = distance;
    }
}
