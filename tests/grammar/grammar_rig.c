/* SPDX-License-Identifier: Apache-2.0 */
/* grammar_rig.c - a small vocabulary and helpers for tests of grammars; see grammar_rig.h. */
#include "grammar/grammar_rig.h"

#include "base/mem.h"
#include "base/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *const pieces[] = {
    "{\"",
    "\":",
    "\": ",
    "\",",
    "\", \"",
    "\"}",
    "\"]",
    "},",
    "}}",
    "]}",
    "[[",
    "[]",
    "{}",
    " \"",
    " {",
    " [",
    ",\n",
    ",\n  \"",
    "{\n",
    "\n  ",
    "    ",
    "  ",
    "null",
    "true",
    "false",
    "nul",
    "ru",
    " null",
    "-1",
    "10",
    "12",
    "0.",
    ".5",
    "e+",
    "1e",
    "\\\"",
    "\\n",
    "\\u",
    "\\u00",
    "\\\\",
    "a\"",
    "ab",
    "abc",
    "abcdefghijklmnopq",
    "abcdefghijklmnopqrstuvwxyz",
    "name",
    "type",
    "age",
    " the",
    "hello world",
    "\xC3\xA9",
    "\xE4\xB8\x96\xE7\x95\x8C",
    "\xE4\xB8",
    "\x96\xE7",
    "a\xC3",
    "\xA9z",
    "\xF0\x9F\x98\x80",
    "\xF0\x9F",
    "\xD0\xB0\xD0\xB1",
    "</",
    "</parameter>",
    "\n</",
    "<parameter=",
    ">\n",
    "parameter",
    "foo",
    "bar",
    "foobar",
    "foo",
    "2024",
    "-01",
    "T12:",
    ":00Z",
    "@",
    ".com",
    "http",
    "://",
    "\t",
    "\r\n",
    "\x01",
    "x\"y",
    "\"\"",
    "\":\"",
    "\",\"",
    "z\", \"name\": \"",
};
enum { N_PIECES = sizeof pieces / sizeof *pieces, N_TOKENS = 256 + N_PIECES + 3 };

static token_trie_kind rig_kind(const void *ctx, uint32_t id)
{
    (void)ctx;
    return id < 256 + N_PIECES ? TRIE_TEXT : id == rig_end_token() ? TRIE_END : TRIE_NEVER;
}

static str rig_bytes(const void *ctx, uint32_t id)
{
    static char single[256];
    (void)ctx;
    if (id < 256) {
        single[id] = (char)id;
        return (str){&single[id], 1};
    }
    return id < 256 + N_PIECES ? str_of(pieces[id - 256]) : str_of("<|control|>");
}

uint32_t rig_end_token(void)
{
    return 256 + N_PIECES;
}

uint32_t rig_control_token(void)
{
    return 256 + N_PIECES + 1;
}

static token_trie *made;

static void rig_free_vocab(void)
{
    token_trie_free(made);
}

const token_trie *rig_vocab(void)
{
    static const token_trie_source source = {.n = N_TOKENS, .kind = rig_kind, .bytes = rig_bytes};
    if (made == NULL) {
        mote_error err;
        if (token_trie_new(&made, &source, &err) != MOTE_OK)
            fail_msg("%s", err.text);
        atexit(rig_free_vocab);
    }
    return made;
}

grammar *rig_grammar(rules *r, uint32_t start)
{
    mote_error err;
    grammar *g;
    if (rules_finish(r, start, &err) != MOTE_OK) {
        rules_free(r);
        fail_msg("%s", err.text);
    }
    if (grammar_new(&g, r, rig_vocab(), &err) != MOTE_OK)
        fail_msg("%s", err.text);
    return g;
}

bool rig_fits(grammar *g, const char *text)
{
    bool fits;
    mote_error err;
    if (grammar_check(g, str_of(text), &fits, &err) != MOTE_OK)
        fail_msg("%s", err.text);
    return fits;
}

static void check_mask(grammar_matcher *m, const uint32_t *bits, const char *where)
{
    for (uint32_t id = 0; id < N_TOKENS; id++) {
        const bool in_mask = (bits[id / 32] >> id % 32 & 1) != 0;
        if (in_mask != grammar_allows(m, (mote_token)id))
            fail_msg("token %u is %s the mask after %zu tokens of '%s'", id,
                     in_mask ? "wrongly in" : "missing from", grammar_length(m), where);
    }
    assert_false(bits[rig_control_token() / 32] >> rig_control_token() % 32 & 1);
}

/* A random token that the text starts with. */
static uint32_t pick_token(str rest, uint64_t seed, uint64_t draw)
{
    const uint32_t want = philox(seed, draw, 7).word[0];
    uint32_t best = (uint8_t)rest.p[0];
    for (uint32_t k = 0; k < N_PIECES; k++) {
        const str piece = str_of(pieces[(k + want) % N_PIECES]);
        if (piece.n <= rest.n && memcmp(piece.p, rest.p, piece.n) == 0 && (want & 3) != 0) {
            best = 256 + (k + want) % N_PIECES;
            break;
        }
    }
    return best;
}

void rig_check_masks(grammar *g, str text, uint64_t seed)
{
    mote_error err;
    grammar_matcher *m;
    uint32_t bits[(N_TOKENS + 31) / 32];
    assert_int_equal(grammar_mask_words(g), sizeof bits / sizeof *bits);
    assert_int_equal(grammar_matcher_new(&m, g, &err), MOTE_OK);
    for (size_t at = 0;;) {
        if (grammar_mask(m, bits, &err) != MOTE_OK)
            fail_msg("%s", err.text);
        check_mask(m, bits, text.p);
        if (at == text.n)
            break;
        const uint32_t id = pick_token((str){text.p + at, text.n - at}, seed, at);
        if (grammar_accept(m, (mote_token)id, &err) != MOTE_OK)
            fail_msg("'%.*s' at byte %zu: %s", (int)text.n, text.p, at, err.text);
        at += rig_bytes(NULL, id).n;
    }
    assert_true(grammar_is_complete(m));
    grammar_matcher_free(m);
}

bool rig_random_text(grammar *g, uint64_t seed, char *out, size_t room, size_t *n)
{
    mote_error err;
    grammar_matcher *m;
    uint32_t bits[(N_TOKENS + 31) / 32], allowed[N_TOKENS];
    bool ended = false;
    *n = 0;
    assert_int_equal(grammar_matcher_new(&m, g, &err), MOTE_OK);
    for (uint64_t draw = 0; *n + 64 < room && !ended; draw++) {
        uint32_t n_allowed = 0;
        if (grammar_mask(m, bits, &err) != MOTE_OK)
            fail_msg("%s", err.text);
        for (uint32_t id = 0; id < N_TOKENS; id++)
            if ((bits[id / 32] >> id % 32 & 1) != 0)
                allowed[n_allowed++] = id;
        const philox_block x = philox(seed, draw, 3);
        uint32_t id = allowed[x.word[0] % n_allowed];
        if (grammar_is_complete(m) && x.word[1] % 2 == 0)
            id = rig_end_token();
        if (grammar_accept(m, (mote_token)id, &err) != MOTE_OK)
            fail_msg("%s", err.text);
        ended = grammar_is_over(m);
        if (!ended) {
            memcpy(out + *n, rig_bytes(NULL, id).p, rig_bytes(NULL, id).n);
            *n += rig_bytes(NULL, id).n;
        }
    }
    grammar_matcher_free(m);
    return ended;
}
