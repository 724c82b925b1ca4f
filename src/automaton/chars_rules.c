/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chars_rules.c - a set of strings as states of a grammar over bytes.
 *
 * Each state of the automaton becomes a state of the grammar. A range of code
 * points becomes sequences of byte ranges; a tail of "any continuation byte"
 * before one state is the same for all of them and made once. Inside a JSON string
 * some characters change their spelling. A state from which every string is
 * accepted becomes the loop over characters that all JSON strings share, for
 * which masks are known beforehand.
 */
#include "automaton/chars.h"

#include "automaton/json_rules.h"
#include "base/mem.h"

#include <string.h>

enum { TAILS = 3 }; /* continuation bytes of the longest character */

typedef struct writer {
    rules *r;
    const chars *c;
    uint32_t *state;         /* [c->n], of the grammar */
    uint32_t (*tail)[TAILS]; /* [c->n]: k + 1 continuation bytes, then the state; or RULES_NONE */
    bool *all;               /* [c->n] */
    uint32_t *loop;          /* [c->n], state of the loop where all is set */
    bool json;
    uint32_t escape; /* state after the backslash of the current state, or RULES_NONE */
} writer;

/* A run of code points whose encodings differ in each byte independently. */
typedef struct run {
    uint32_t lo, hi;
} run;

static uint32_t tail_state(writer *w, uint32_t target, size_t n)
{
    uint32_t *known = &w->tail[target][n - 1];
    if (*known == RULES_NONE) {
        const uint32_t after = n == 1 ? w->state[target] : tail_state(w, target, n - 1);
        *known = rules_state(w->r);
        rules_read(w->r, *known, 0x80, 0xBF, after);
    }
    return *known;
}

static void put_run(writer *w, uint32_t from, run x, uint32_t target)
{
    unsigned char lo[4], hi[4];
    const size_t n = chars_encode(lo, x.lo);
    chars_encode(hi, x.hi);
    for (size_t i = 0; i < n && rules_ok(w->r); i++) {
        size_t free_tail = n - i - 1;
        for (size_t k = i + 1; k < n; k++)
            if (lo[k] != 0x80 || hi[k] != 0xBF)
                free_tail = 0;
        if (i + 1 == n) {
            rules_read(w->r, from, lo[i], hi[i], w->state[target]);
        } else if (free_tail > 0) {
            rules_read(w->r, from, lo[i], hi[i], tail_state(w, target, free_tail));
            return;
        } else {
            const uint32_t next = rules_state(w->r);
            rules_read(w->r, from, lo[i], hi[i], next);
            from = next;
        }
    }
}

/* The last code point up to hi such that lo to it is one run. */
static uint32_t run_end(uint32_t lo, uint32_t hi)
{
    static const uint32_t borders[] = {0x7F, 0x7FF, 0xD7FF, 0xFFFF};
    for (size_t i = 0; i < sizeof borders / sizeof *borders; i++)
        if (lo <= borders[i] && hi > borders[i])
            hi = borders[i];
    for (int bits = 6; bits <= 18 && lo >= 0x80; bits += 6) {
        const uint32_t low_bits = ((uint32_t)1 << bits) - 1;
        if ((lo & ~low_bits) == (hi & ~low_bits))
            break;
        if ((lo & low_bits) != 0)
            hi = lo | low_bits;
        else if ((hi & low_bits) != low_bits)
            hi = (hi & ~low_bits) - 1;
    }
    return hi;
}

static void put_range(writer *w, uint32_t from, uint32_t lo, uint32_t hi, uint32_t target)
{
    while (lo <= hi && rules_ok(w->r)) {
        if (lo >= 0xD800 && lo < 0xE000)
            lo = 0xE000;
        if (lo > hi)
            return;
        const uint32_t end = run_end(lo, hi);
        put_run(w, from, (run){lo, end}, target);
        lo = end + 1;
    }
}

/* ---- inside a JSON string ---- */

static uint32_t escape_state(writer *w, uint32_t from)
{
    if (w->escape == RULES_NONE) {
        w->escape = rules_state(w->r);
        rules_read(w->r, from, '\\', '\\', w->escape);
    }
    return w->escape;
}

static void put_escaped(writer *w, uint32_t from, uint32_t c, uint32_t target)
{
    const uint32_t escape = escape_state(w, from), to = w->state[target];
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *s = shorts; *s != 0; s += 2)
        if ((unsigned char)s[0] == c) {
            rules_read(w->r, escape, (uint8_t)s[1], (uint8_t)s[1], to);
            return;
        }
    const uint32_t digit = rules_literal(w->r, escape, str_of(c < 16 ? "u000" : "u001"));
    const unsigned last = c & 15;
    if (last < 10) {
        rules_read(w->r, digit, (uint8_t)('0' + last), (uint8_t)('0' + last), to);
        return;
    }
    rules_read(w->r, digit, (uint8_t)('a' + last - 10), (uint8_t)('a' + last - 10), to);
    rules_read(w->r, digit, (uint8_t)('A' + last - 10), (uint8_t)('A' + last - 10), to);
}

static void put_json_range(writer *w, uint32_t from, chars_range x)
{
    for (uint32_t c = x.lo; c <= x.hi && c < 0x20; c++)
        put_escaped(w, from, c, x.to);
    static const uint32_t pieces[][2] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, CHARS_LAST}};
    for (size_t i = 0; i < 3; i++) {
        const uint32_t lo = x.lo > pieces[i][0] ? x.lo : pieces[i][0];
        const uint32_t hi = x.hi < pieces[i][1] ? x.hi : pieces[i][1];
        if (lo <= hi)
            put_range(w, from, lo, hi, x.to);
    }
    if (x.lo <= '"' && x.hi >= '"')
        put_escaped(w, from, '"', x.to);
    if (x.lo <= '\\' && x.hi >= '\\')
        put_escaped(w, from, '\\', x.to);
}

/* ---- all of it ---- */

/* The state of the automaton that all characters beyond ASCII lead to, if all strings are accepted
 * there; else RULES_NONE. */
static uint32_t multi_target(const writer *w, uint32_t s)
{
    uint32_t next = 0x80, to = RULES_NONE;
    for (uint32_t i = w->c->first[s]; i < w->c->first[s + 1]; i++) {
        const chars_range *x = &w->c->ranges[i];
        if (x->hi < 0x80)
            continue;
        if (next == 0xD800 && x->lo > next)
            next = 0xE000;
        if (x->lo > next || !w->all[x->to] || (to != RULES_NONE && to != x->to))
            return RULES_NONE;
        to = x->to;
        next = x->hi + 1;
    }
    return next == CHARS_LAST + 1 ? to : RULES_NONE;
}

/* Where everything is accepted, the loop of all JSON strings goes on. Characters beyond ASCII
 * that lead there begin a run of it at once, so that nobody can tell how it was reached. */
static void put_state(writer *w, uint32_t s, uint32_t to)
{
    const uint32_t from = w->state[s];
    if (w->json && w->all[s]) {
        rules_skip(w->r, from, w->loop[s]);
        return;
    }
    w->escape = RULES_NONE;
    const uint32_t multi = w->json ? multi_target(w, s) : RULES_NONE;
    if (multi != RULES_NONE)
        rules_enter(w->r, from, w->loop[multi], w->r->json_multi);
    for (uint32_t i = w->c->first[s]; i < w->c->first[s + 1] && rules_ok(w->r); i++) {
        chars_range x = w->c->ranges[i];
        if (multi != RULES_NONE && x.hi >= 0x80) {
            if (x.lo >= 0x80)
                continue;
            x.hi = 0x7F;
        }
        if (w->json)
            put_json_range(w, from, x);
        else
            put_range(w, from, x.lo, x.hi, x.to);
    }
    if (w->c->accepts[s])
        rules_skip(w->r, from, to);
}

static void put_all(writer *w, uint32_t from, uint32_t to)
{
    const uint32_t n = w->c->n;
    memset(w->tail, 0xFF, n * sizeof *w->tail);
    chars_find_all(w->c, w->all);
    for (uint32_t s = 0; s < n; s++) {
        w->state[s] = rules_state(w->r);
        if (w->json && w->all[s])
            w->loop[s] = rules_loop_state(w->r, json_rules_char(w->r), 0, RULES_NO_LIMIT, to);
    }
    rules_skip(w->r, from, w->state[0]);
    for (uint32_t s = 0; s < n && rules_ok(w->r); s++)
        put_state(w, s, to);
}

static mote_status put(rules *r, const chars *c, uint32_t from, uint32_t to, bool json,
                       mote_error *err)
{
    if (chars_empty(c))
        return MOTE_OK;
    writer w = {.r = r, .c = c, .json = json};
    w.state = mem_new(c->n, sizeof *w.state);
    w.tail = mem_new(c->n, sizeof *w.tail);
    w.all = mem_new(c->n, sizeof *w.all);
    w.loop = mem_new(c->n, sizeof *w.loop);
    const bool ok = w.state != NULL && w.tail != NULL && w.all != NULL && w.loop != NULL;
    if (ok)
        put_all(&w, from, to);
    mem_free(w.loop);
    mem_free(w.state);
    mem_free(w.tail);
    mem_free(w.all);
    return ok ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "no memory for a pattern");
}

mote_status chars_put_raw(rules *r, const chars *c, uint32_t from, uint32_t to, mote_error *err)
{
    return put(r, c, from, to, false, err);
}

mote_status chars_put_json(rules *r, const chars *c, uint32_t from, uint32_t to, mote_error *err)
{
    return put(r, c, from, to, true, err);
}
