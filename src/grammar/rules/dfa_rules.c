/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfa_rules.c - converts a DFA over code points into states and edges over bytes.
 *
 * Each DFA state becomes one state of the rules. A range of code points becomes sequences of byte
 * ranges (UTF-8). The continuation bytes after a lead byte are mostly one of seven kinds, which
 * all DFAs of a grammar share (rules.char_tail). Inside a JSON string some characters are escaped.
 *
 * A DFA state that accepts every string becomes the loop over JSON string characters that
 * unconstrained strings use too. mask.c has precomputed masks for that loop.
 */
#include "grammar/rules/dfa.h"

#include "grammar/rules/rules.h"
#include "base/mem.h"

typedef struct dfa_writer {
    rules *r;
    const dfa *c;
    uint32_t exit;   /* state after all strings */
    uint32_t *state; /* [c->n], of the rules */
    bool *universal; /* [c->n], see dfa_find_universal */
    uint32_t *loop;  /* [c->n], state of the loop where universal is set */
    bool json;
    /* Escapes of the DFA state being written: states after the backslash, after "u00", "u000" and
     * "u001"; RULES_NONE: not created yet. */
    uint32_t escape, unit, digit[2];
    bool escaped; /* all escapes are written */
} dfa_writer;

/* A span of code points that is one sequence of independent byte ranges in UTF-8. */
typedef struct utf8_span {
    uint32_t lo, hi;
} utf8_span;

/* ---- states that all DFAs of a grammar share ---- */

/* Spans with a narrower second byte: after E0, ED, F0 and F4. */
static const utf8_span limited[] = {
    {0x800, 0xFFF}, {0xD000, 0xD7FF}, {0x10000, 0x3FFFF}, {0x100000, DFA_LAST}};

static void put_escaped(dfa_writer *w, uint32_t c, uint32_t to);

/* One rule for the remaining bytes of a multi-byte character and of an escape. Its states are
 * entered directly by rules_read_into, so that a DFA needs no states for them. */
static void make_shared_tails(rules *r)
{
    const uint32_t rule = rules_add(r), end = rules_end_of(r, rule);
    uint32_t *tail = r->char_tail; /* 1 to 3 continuation bytes, then those of `limited` */
    for (uint32_t i = 0; i < RULES_TAILS; i++)
        tail[i] = rules_state(r);
    for (uint32_t i = 0; i < 3; i++)
        rules_read(r, tail[i], 0x80, 0xBF, i == 0 ? end : tail[i - 1]);
    for (uint32_t i = 0; i < 4; i++) {
        unsigned char lo[4], hi[4];
        const size_t n = dfa_encode(lo, limited[i].lo);
        dfa_encode(hi, limited[i].hi);
        rules_read(r, tail[3 + i], lo[1], hi[1], tail[n - 3]);
    }
    r->char_escape = rules_state(r);
    dfa_writer w = {.r = r, .escape = r->char_escape, .unit = RULES_NONE};
    w.digit[0] = w.digit[1] = RULES_NONE;
    for (uint32_t c = 0; c < 0x20; c++)
        put_escaped(&w, c, end);
    put_escaped(&w, '"', end);
    put_escaped(&w, '\\', end);
}

/* ---- ranges as bytes ---- */

/* The shared state that reads the bytes after the lead byte of a span, or RULES_NONE. */
static uint32_t shared_tail(const rules *r, utf8_span x, const unsigned char lo[4],
                            const unsigned char hi[4], size_t n)
{
    bool any_tail = n > 1;
    for (size_t k = 1; k < n; k++)
        any_tail = any_tail && lo[k] == 0x80 && hi[k] == 0xBF;
    if (any_tail)
        return r->char_tail[n - 2];
    for (uint32_t i = 0; i < 4; i++)
        if (x.lo == limited[i].lo && x.hi == limited[i].hi)
            return r->char_tail[3 + i];
    return RULES_NONE;
}

/* Adds edges for the code points of a span, which all have the same length in UTF-8. */
static void put_span(dfa_writer *w, uint32_t from, utf8_span x, uint32_t to)
{
    unsigned char lo[4], hi[4];
    const size_t n = dfa_encode(lo, x.lo);
    dfa_encode(hi, x.hi);
    const uint32_t tail = shared_tail(w->r, x, lo, hi, n);
    if (tail != RULES_NONE) {
        rules_read_into(w->r, from, lo[0], hi[0], tail, to);
        return;
    }
    for (size_t i = 0; i < n && rules_ok(w->r); i++) {
        const uint32_t next = i + 1 == n ? to : rules_state_with_exit(w->r, w->exit);
        rules_read(w->r, from, lo[i], hi[i], next);
        from = next;
    }
}

/* The last code point up to hi such that [lo, it] is one utf8_span. */
static uint32_t span_end(uint32_t lo, uint32_t hi)
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

/* Adds edges for code points lo to hi, without surrogates. */
static void put_range(dfa_writer *w, uint32_t from, uint32_t lo, uint32_t hi, uint32_t target)
{
    if (hi < 0x80) {
        rules_read(w->r, from, (uint8_t)lo, (uint8_t)hi, w->state[target]);
        return;
    }
    while (lo <= hi && rules_ok(w->r)) {
        if (lo >= 0xD800 && lo < 0xE000)
            lo = 0xE000;
        if (lo > hi)
            return;
        const uint32_t end = span_end(lo, hi);
        put_span(w, from, (utf8_span){lo, end}, w->state[target]);
        lo = end + 1;
    }
}

/* ---- inside a JSON string ---- */

/* The state after a text, created on first use. */
static uint32_t state_after(dfa_writer *w, uint32_t *known, uint32_t from, const char *text)
{
    if (*known == RULES_NONE)
        *known = rules_literal(w->r, from, str_of(text));
    return *known;
}

/* A character in its shortest escaped form, from the state after the backslash. */
static void put_escaped(dfa_writer *w, uint32_t c, uint32_t to)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *s = shorts; *s != 0; s += 2)
        if ((unsigned char)s[0] == c) {
            rules_read(w->r, w->escape, (uint8_t)s[1], (uint8_t)s[1], to);
            return;
        }
    const uint32_t unit = state_after(w, &w->unit, w->escape, "u00");
    const uint32_t digit = state_after(w, &w->digit[c >> 4], unit, c < 16 ? "0" : "1");
    const unsigned last = c & 15;
    if (last < 10) {
        rules_read(w->r, digit, (uint8_t)('0' + last), (uint8_t)('0' + last), to);
        return;
    }
    rules_read(w->r, digit, (uint8_t)('a' + last - 10), (uint8_t)('a' + last - 10), to);
    rules_read(w->r, digit, (uint8_t)('A' + last - 10), (uint8_t)('A' + last - 10), to);
}

/* The target that all characters which must be escaped share, or RULES_NONE. */
static uint32_t escapes_target(const dfa *c, uint32_t s)
{
    if (c->first[s] == c->first[s + 1])
        return RULES_NONE;
    const dfa_range *first = &c->ranges[c->first[s]];
    if (first->lo > 0 || first->hi < 0x1F)
        return RULES_NONE;
    return dfa_step(c, s, '"') == first->to && dfa_step(c, s, '\\') == first->to ? first->to
                                                                                 : RULES_NONE;
}

static void begin_escapes(dfa_writer *w, uint32_t s)
{
    w->escape = w->unit = w->digit[0] = w->digit[1] = RULES_NONE;
    const uint32_t to = w->json ? escapes_target(w->c, s) : RULES_NONE;
    w->escaped = to != RULES_NONE;
    if (w->escaped)
        rules_read_into(w->r, w->state[s], '\\', '\\', w->r->char_escape, w->state[to]);
}

static void put_own_escape(dfa_writer *w, uint32_t from, uint32_t c, uint32_t target)
{
    if (w->escaped)
        return;
    state_after(w, &w->escape, from, "\\");
    put_escaped(w, c, w->state[target]);
}

static void put_json_range(dfa_writer *w, uint32_t from, dfa_range x)
{
    for (uint32_t c = x.lo; c <= x.hi && c < 0x20; c++)
        put_own_escape(w, from, c, x.to);
    static const uint32_t pieces[][2] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, DFA_LAST}};
    for (size_t i = 0; i < 3; i++) {
        const uint32_t lo = x.lo > pieces[i][0] ? x.lo : pieces[i][0];
        const uint32_t hi = x.hi < pieces[i][1] ? x.hi : pieces[i][1];
        if (lo <= hi)
            put_range(w, from, lo, hi, x.to);
    }
    if (x.lo <= '"' && x.hi >= '"')
        put_own_escape(w, from, '"', x.to);
    if (x.lo <= '\\' && x.hi >= '\\')
        put_own_escape(w, from, '\\', x.to);
}

/* ---- states ---- */

/* The target that all non-ASCII characters of a DFA state share, or RULES_NONE. */
static uint32_t multi_target(const dfa *c, uint32_t s)
{
    uint32_t next = 0x80, to = RULES_NONE;
    for (uint32_t i = c->first[s]; i < c->first[s + 1]; i++) {
        const dfa_range *x = &c->ranges[i];
        if (x->hi < 0x80)
            continue;
        if (next == 0xD800 && x->lo > next)
            next = 0xE000;
        if (x->lo > next || (to != RULES_NONE && to != x->to))
            return RULES_NONE;
        to = x->to;
        next = x->hi + 1;
    }
    return next == DFA_LAST + 1 ? to : RULES_NONE;
}

/* In a universal state the loop of unconstrained JSON strings takes over. Non-ASCII characters
 * that lead to it enter the loop at once, so that the configuration in the middle of the character
 * is the same as in an unconstrained string. */
static void put_dfa_state(dfa_writer *w, uint32_t s, uint32_t to)
{
    const uint32_t from = w->state[s];
    if (w->json && w->universal[s]) {
        rules_skip(w->r, from, w->loop[s]);
        return;
    }
    begin_escapes(w, s);
    const uint32_t multi = multi_target(w->c, s);
    if (multi != RULES_NONE && w->json && w->universal[multi])
        rules_enter(w->r, from, w->loop[multi], w->r->json_multi);
    else if (multi != RULES_NONE)
        rules_read_into(w->r, from, 0xC2, 0xF4, RULES_ANY_TAIL, w->state[multi]);
    for (uint32_t i = w->c->first[s]; i < w->c->first[s + 1] && rules_ok(w->r); i++) {
        dfa_range x = w->c->ranges[i];
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

static void put_states(dfa_writer *w, uint32_t from, uint32_t to)
{
    const uint32_t n = w->c->n;
    dfa_find_universal(w->c, w->universal);
    for (uint32_t s = 0; s < n; s++) {
        w->state[s] = rules_state_with_exit(w->r, to);
        if (w->json && w->universal[s])
            w->loop[s] = rules_loop_state(w->r, json_rules_char(w->r), 0, RULES_NO_LIMIT, to);
    }
    rules_skip(w->r, from, w->state[0]);
    for (uint32_t s = 0; s < n && rules_ok(w->r); s++)
        put_dfa_state(w, s, to);
}

/* Adds the texts of the DFA as paths between two states of the rules. `json`: as the inside of a
 * JSON string, with escapes. */
static mote_status dfa_put(rules *r, const dfa *c, uint32_t from, uint32_t to, bool json,
                           mote_error *err)
{
    if (dfa_empty(c))
        return MOTE_OK;
    if (r->char_escape == RULES_NONE)
        make_shared_tails(r);
    dfa_writer w = {.r = r, .c = c, .exit = to, .json = json};
    w.state = mem_new(c->n, sizeof *w.state);
    w.universal = mem_new(c->n, sizeof *w.universal);
    w.loop = mem_new(c->n, sizeof *w.loop);
    const bool ok = w.state != NULL && w.universal != NULL && w.loop != NULL;
    if (ok)
        put_states(&w, from, to);
    mem_free(w.loop);
    mem_free(w.state);
    mem_free(w.universal);
    return ok ? MOTE_OK : err_set(err, MOTE_E_MEMORY, "out of memory: pattern");
}

mote_status dfa_put_raw(rules *r, const dfa *c, uint32_t from, uint32_t to, mote_error *err)
{
    return dfa_put(r, c, from, to, false, err);
}

mote_status dfa_put_json(rules *r, const dfa *c, uint32_t from, uint32_t to, mote_error *err)
{
    return dfa_put(r, c, from, to, true, err);
}
