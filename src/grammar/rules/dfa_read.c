/* SPDX-License-Identifier: Apache-2.0 */
/* dfa_read.c - questions to a set of strings. */
#include "grammar/rules/dfa.h"

#include <string.h>

bool dfa_decode(str text, size_t *at, uint32_t *code_point)
{
    const unsigned char *p = (const unsigned char *)text.p + *at;
    const size_t left = text.n - *at;
    const unsigned lead = p[0];
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (bytes == 0 || lead > 0xF4 || bytes > left)
        return false;
    uint32_t c = bytes == 1 ? lead : lead & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return false;
        c = c << 6 | (p[i] & 0x3Fu);
    }
    const uint32_t least = bytes == 3 ? 0x800 : bytes == 4 ? 0x10000 : 0;
    if (c < least || c > DFA_LAST || (c >= 0xD800 && c < 0xE000))
        return false;
    *code_point = c;
    *at += bytes;
    return true;
}

size_t dfa_encode(unsigned char out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (unsigned char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (unsigned char)(0x80 | (c & 0x3F));
    out[0] = (unsigned char)((0xF00u >> n & 0xFF) | c);
    return n;
}

uint32_t dfa_step(const dfa *c, uint32_t state, uint32_t code_point)
{
    uint32_t low = c->first[state], high = c->first[state + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->ranges[middle].hi < code_point)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < c->first[state + 1] && c->ranges[low].lo <= code_point;
    return found ? c->ranges[low].to : RULES_NONE;
}

bool dfa_has(const dfa *c, str text)
{
    if (dfa_empty(c))
        return false;
    uint32_t state = 0, code_point;
    for (size_t at = 0; at < text.n;) {
        if (!dfa_decode(text, &at, &code_point))
            return false;
        state = dfa_step(c, state, code_point);
        if (state == RULES_NONE)
            return false;
    }
    return c->accepts[state];
}

/* All characters lead on, and only to states that are still thought to accept everything. */
static bool leads_to_all(const dfa *c, uint32_t state, const bool *all)
{
    uint32_t next = 0;
    for (uint32_t i = c->first[state]; i < c->first[state + 1]; i++) {
        const dfa_range *range = &c->ranges[i];
        if (next == 0xD800 && range->lo > next)
            next = 0xE000;
        if (range->lo > next || !all[range->to])
            return false;
        next = range->hi + 1;
    }
    return next == DFA_LAST + 1;
}

/* Starts from all that accept and takes away until nothing changes. Most states lead to later
 * ones, so going backwards settles them in a few rounds; what takes more is not worth knowing. */
void dfa_find_all(const dfa *c, bool *all)
{
    enum { ROUNDS = 32 };
    for (uint32_t s = 0; s < c->n; s++)
        all[s] = c->accepts[s];
    bool changed = true;
    for (int round = 0; round < ROUNDS && changed; round++) {
        changed = false;
        for (uint32_t s = c->n; s-- > 0;)
            if (all[s] && !leads_to_all(c, s, all)) {
                all[s] = false;
                changed = true;
            }
    }
    if (changed)
        memset(all, 0, c->n * sizeof *all);
}

/* Words and products of words lead to later states only; what does not is taken for infinite. */
bool dfa_finite(const dfa *c)
{
    for (uint32_t s = 0; s < c->n; s++)
        for (uint32_t i = c->first[s]; i < c->first[s + 1]; i++)
            if (c->ranges[i].to <= s)
                return false;
    return true;
}
