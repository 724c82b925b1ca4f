/* SPDX-License-Identifier: Apache-2.0 */
/*
 * added.c - the added tokens: <|im_start|>, <think> and their like.
 *
 * They are looked for in the text as it came, leftmost first, the longest of
 * several at one place, and only when the caller says that the text may contain
 * them. The sorted list is narrowed byte by byte, so the cost of a place depends
 * on how far the text agrees with some added token and not on their number.
 */
#include "tok/parts.h"

static const unsigned char *bytes_of(const tok *t, uint32_t number, size_t *n)
{
    str text = tok_text(t, t->added[number].id);
    *n = text.n;
    return (const unsigned char *)text.p;
}

static int compare(const tok *t, uint32_t a, uint32_t b)
{
    size_t na, nb;
    const unsigned char *pa = bytes_of(t, a, &na), *pb = bytes_of(t, b, &nb);
    int order = memcmp(pa, pb, na < nb ? na : nb);
    return order != 0 ? order : (na > nb) - (na < nb);
}

mote_status tok_added_sort(tok *t, mote_error *err)
{
    for (uint32_t i = 0; i < t->n_added; i++) { /* few, so insertion sort */
        uint32_t at = i;
        for (; at > 0; at--) {
            int order = compare(t, t->by_text[at - 1], i);
            if (order == 0)
                return err_set(err, MOTE_E_FORMAT, "added tokens %u and %u are the same text",
                               t->added[t->by_text[at - 1]].id, t->added[i].id);
            if (order < 0)
                break;
            t->by_text[at] = t->by_text[at - 1];
        }
        t->by_text[at] = i;
        size_t n;
        t->starts_added[bytes_of(t, i, &n)[0]] = true;
    }
    return MOTE_OK;
}

/* In by_text[low .. high), whose texts are longer than `depth` and agree before it: the first
 * whose byte there is not below `byte`. */
static uint32_t lower_bound(const tok *t, uint32_t low, uint32_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        size_t n;
        if (bytes_of(t, t->by_text[middle], &n)[depth] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The longest added token that the text begins with; false: none. */
static bool longest_at(const tok *t, const unsigned char *text, size_t n, uint32_t *id)
{
    uint32_t low = 0, high = t->n_added;
    bool found = false;
    for (size_t depth = 0; low < high; depth++) {
        size_t length;
        bytes_of(t, t->by_text[low], &length);
        if (length == depth) { /* the shortest of those that agree stands first */
            *id = t->added[t->by_text[low]].id;
            found = true;
            low++;
        }
        if (depth == n)
            break;
        high = lower_bound(t, low, high, depth, text[depth] + 1u);
        low = lower_bound(t, low, high, depth, text[depth]);
    }
    return found;
}

size_t tok_added_find(const tok *t, const unsigned char *text, size_t n, size_t at, uint32_t *id)
{
    for (; at < n; at++)
        if (t->starts_added[text[at]] && longest_at(t, text + at, n - at, id))
            return at;
    return n;
}

mote_token tok_find_added(const tok *t, const char *text)
{
    uint32_t id;
    size_t n = strlen(text);
    if (!longest_at(t, (const unsigned char *)text, n, &id) || tok_text(t, id).n != n)
        return -1;
    return (mote_token)id;
}

bool tok_is_control(const tok *t, mote_token id)
{
    uint32_t low = 0, high = t->n_added;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((mote_token)t->added[middle].id == id)
            return t->added[middle].control;
        if ((mote_token)t->added[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}
