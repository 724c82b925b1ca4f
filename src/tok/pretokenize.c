/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pretokenize.c - the regular expression of the pre-tokenizer as a hand-written scanner:
 *
 *   1  (?i:'s|'t|'re|'ve|'m|'ll|'d)
 *   2  [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+
 *   3  \p{N}
 *   4   ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*
 *   5  \s*[\r\n]+
 *   6  \s+(?!\S)
 *   7  \s+
 *
 * The first alternative that matches wins, as in the reference. One or two characters decide which
 * one, so there is no backtracking and no recursion: time is linear in the text. Words cover the
 * text without gaps.
 */
#include "tok/tok_int.h"

#include "base/utf8.h"

/* One position in the text; `bytes` is 0 at the end. */
typedef struct glyph {
    uint32_t c;
    unsigned kind;
    size_t bytes;
} glyph;

static inline glyph glyph_at(const tok_classes *c, const unsigned char *text, size_t n, size_t at)
{
    glyph g = {0, CLASS_OTHER, 0};
    if (at < n) {
        g.c = utf8_get(text + at, &g.bytes);
        g.kind = tok_class(c, g.c) & CLASS_KIND;
    }
    return g;
}

static inline bool is_line_end(uint32_t c)
{
    return c == '\r' || c == '\n';
}

static inline bool is_word_kind(unsigned kind)
{
    return kind == CLASS_LETTER || kind == CLASS_MARK;
}

static inline unsigned char ascii_lower(unsigned char c)
{
    return c >= 'A' && c <= 'Z' ? (unsigned char)(c + 32) : c;
}

/* Alternative 1 after an apostrophe at `at`; 0: no match. U+017F (long s) matches s, because the
 * reference compares case-insensitively. */
static size_t contraction_end(const unsigned char *text, size_t n, size_t at)
{
    size_t left = n - at - 1;
    const unsigned char *p = text + at + 1;
    if (left >= 2 && p[0] == 0xC5 && p[1] == 0xBF) /* U+017F */
        return at + 3;
    if (left >= 1) {
        unsigned char a = ascii_lower(p[0]);
        if (a == 's' || a == 't' || a == 'm' || a == 'd')
            return at + 2;
        if (left >= 2) {
            unsigned char b = ascii_lower(p[1]);
            if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
                return at + 3;
        }
    }
    return 0;
}

static size_t skip_word_chars(const tok_classes *c, const unsigned char *text, size_t n, size_t at)
{
    while (at < n) {
        if (text[at] < 0x80) { /* ASCII has no combining marks */
            if ((c->of[text[at]] & CLASS_KIND) != CLASS_LETTER)
                break;
            at++;
            continue;
        }
        glyph g = glyph_at(c, text, n, at);
        if (!is_word_kind(g.kind))
            break;
        at += g.bytes;
    }
    return at;
}

/* Alternative 4 after its first symbol. */
static size_t skip_symbols(const tok_classes *c, const unsigned char *text, size_t n, size_t at)
{
    glyph g = glyph_at(c, text, n, at);
    while (g.bytes > 0 && g.kind == CLASS_OTHER) {
        at += g.bytes;
        g = glyph_at(c, text, n, at);
    }
    while (at < n && is_line_end(text[at]))
        at++;
    return at;
}

/* Alternatives 5 to 7, at a white-space character. */
static size_t space_end(const tok_classes *c, const unsigned char *text, size_t n, size_t at)
{
    size_t end = at, last = at, after_line = 0;
    glyph g = glyph_at(c, text, n, at);
    while (g.bytes > 0 && g.kind == CLASS_SPACE) {
        last = end;
        end += g.bytes;
        if (is_line_end(g.c))
            after_line = end;
        g = glyph_at(c, text, n, end);
    }
    if (after_line > 0)
        return after_line;
    /* A word or symbol takes the last space before it, unless there is only one. */
    return end < n && last > at ? last : end;
}

size_t tok_word_end(const tok_classes *c, const unsigned char *text, size_t n, size_t at)
{
    glyph g = glyph_at(c, text, n, at);
    size_t next_at = at + g.bytes;
    if (is_word_kind(g.kind))
        return skip_word_chars(c, text, n, next_at);
    if (g.kind == CLASS_NUMBER)
        return next_at;
    if (g.c == '\'') {
        size_t end = contraction_end(text, n, at);
        if (end > 0)
            return end;
    }
    glyph next = glyph_at(c, text, n, next_at);
    if (is_word_kind(next.kind) && !is_line_end(g.c))
        return skip_word_chars(c, text, n, next_at + next.bytes);
    if (g.kind == CLASS_OTHER)
        return skip_symbols(c, text, n, next_at);
    if (g.c == ' ' && next.bytes > 0 && next.kind == CLASS_OTHER)
        return skip_symbols(c, text, n, next_at);
    return space_end(c, text, n, at);
}
