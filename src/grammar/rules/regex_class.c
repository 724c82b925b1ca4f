/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex_class.c - characters of an expression: escapes, and classes as lists of
 * ranges (ranges.h), settled when they end.
 */
#include "grammar/rules/regex_parser.h"

#include "grammar/rules/hex.h"

mote_status regex_add_range(regex_parser *p, uint32_t lo, uint32_t hi)
{
    return char_class_add(&p->t->ranges, lo, hi, p->err);
}

/* What \d, \w and \s mean, and what their negations leave out. */
static const range digits[] = {{'0', '9'}};
static const range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const range spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                               {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                               {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                               {0x1C, 0x1F},     {0x85, 0x85},     {0xFEFF, 0xFEFF}};
enum { SPACES_OF_BOTH = 9 };
static const range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static mote_status add_class(regex_parser *p, const range *x, size_t n, bool negated)
{
    const uint32_t from = p->t->ranges.n;
    for (size_t i = 0; i < n; i++)
        TRY(regex_add_range(p, x[i].lo, x[i].hi));
    return char_class_settle(&p->t->ranges, from, negated, p->err);
}

mote_status regex_add_named_class(regex_parser *p, char name)
{
    switch (name) {
    case 'd': return add_class(p, digits, LENGTH(digits), false);
    case 'D': return add_class(p, digits, LENGTH(digits), true);
    case 'w': return add_class(p, word, LENGTH(word), false);
    case 'W': return add_class(p, word, LENGTH(word), true);
    case 's': return add_class(p, spaces, SPACES_OF_BOTH, false);
    default: return add_class(p, spaces, LENGTH(spaces), true);
    }
}

mote_status regex_add_dot(regex_parser *p)
{
    return add_class(p, line_ends, LENGTH(line_ends), true);
}

/* ---- escapes ---- */

static mote_status braced_code_point(regex_parser *p, uint32_t *c)
{
    *c = 0;
    size_t n = 1;
    while (hex_add(c, regex_peek(p, n)) && *c <= DFA_LAST)
        n++;
    if (n == 1 || regex_peek(p, n) != '}' || *c > DFA_LAST)
        return regex_wrong(p, "an escape that is no character");
    p->at += n + 1;
    return MOTE_OK;
}

/* Behind "\u". */
static mote_status unicode_escape(regex_parser *p, uint32_t *c)
{
    if (regex_peek(p, 0) == '{')
        return braced_code_point(p, c);
    uint32_t low;
    if (!hex_read(p->text, p->at, 4, c))
        return regex_wrong(p, "an escape that is no character");
    p->at += 4;
    if (*c >= 0xD800 && *c < 0xDC00 && regex_peek(p, 0) == '\\' && regex_peek(p, 1) == 'u' &&
        hex_read(p->text, p->at + 2, 4, &low) && low >= 0xDC00 && low < 0xE000) {
        *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
        p->at += 6;
    }
    return MOTE_OK;
}

static mote_status hex_escape(regex_parser *p, uint32_t *c)
{
    if (!hex_read(p->text, p->at, 2, c))
        return regex_wrong(p, "an escape that is no character");
    p->at += 2;
    return MOTE_OK;
}

/* Behind a backslash that stands for one character. */
mote_status regex_char_escape(regex_parser *p, uint32_t *c)
{
    static const char controls[] = "t\tn\nr\rf\fv\v";
    const unsigned char name = regex_peek(p, 0);
    if (!regex_more(p))
        return regex_wrong(p, "nothing behind a backslash");
    for (const char *s = controls; *s != 0; s += 2)
        if ((unsigned char)s[0] == name) {
            p->at++;
            *c = (unsigned char)s[1];
            return MOTE_OK;
        }
    if (name == 'u' || name == 'x') {
        p->at++;
        return name == 'u' ? unicode_escape(p, c) : hex_escape(p, c);
    }
    if (name == 'c' && ((regex_peek(p, 1) | 32) >= 'a' && (regex_peek(p, 1) | 32) <= 'z')) {
        *c = regex_peek(p, 1) & 31u;
        p->at += 2;
        return MOTE_OK;
    }
    if (name == '0') {
        p->at++;
        *c = 0;
        return MOTE_OK;
    }
    if (name >= '1' && name <= '9')
        return regex_refused(p, "a reference to a group");
    if (name == 'k')
        return regex_refused(p, "a reference to a named group");
    if (name == 'p' || name == 'P')
        return regex_refused(p, "a Unicode property (\\p)");
    if (!dfa_decode(p->text, &p->at, c))
        return regex_wrong(p, "ill-formed UTF-8");
    if ((*c | 32) >= 'a' && (*c | 32) <= 'z')
        return regex_wrong(p, "an escape without a meaning");
    return MOTE_OK;
}

bool regex_is_class_name(unsigned char c)
{
    return c != 0 && strchr("dDwWsS", c) != NULL;
}

/* One member of a class: a character in *c, or a class of its own, which is added. */
static mote_status class_member(regex_parser *p, uint32_t *c, bool *is_class)
{
    *is_class = false;
    if (regex_peek(p, 0) != '\\') {
        if (!dfa_decode(p->text, &p->at, c))
            return regex_wrong(p, "ill-formed UTF-8");
        return MOTE_OK;
    }
    p->at++;
    if (regex_is_class_name(regex_peek(p, 0))) {
        *is_class = true;
        return regex_add_named_class(p, p->text.p[p->at++]);
    }
    if (regex_peek(p, 0) == 'b') {
        p->at++;
        *c = 8;
        return MOTE_OK;
    }
    return regex_char_escape(p, c);
}

static mote_status class_range(regex_parser *p)
{
    uint32_t lo, hi;
    bool lo_class, hi_class = false;
    TRY(class_member(p, &lo, &lo_class));
    if (regex_peek(p, 0) != '-' || regex_peek(p, 1) == ']' || p->at + 1 >= p->text.n)
        return lo_class ? MOTE_OK : regex_add_range(p, lo, lo);
    p->at++;
    TRY(class_member(p, &hi, &hi_class));
    if (lo_class || hi_class) { /* the '-' is one more member */
        TRY(regex_add_range(p, '-', '-'));
        if (!lo_class)
            TRY(regex_add_range(p, lo, lo));
        return hi_class ? MOTE_OK : regex_add_range(p, hi, hi);
    }
    if (lo > hi)
        return regex_wrong(p, "a range that runs backwards");
    return regex_add_range(p, lo, hi);
}

mote_status regex_read_class(regex_parser *p, uint32_t node)
{
    const uint32_t from = p->t->ranges.n;
    const bool negated = regex_peek(p, 0) == '^';
    p->at += negated;
    while (regex_more(p) && regex_peek(p, 0) != ']')
        TRY(class_range(p));
    if (!regex_more(p))
        return regex_wrong(p, "a class without its end");
    p->at++;
    TRY(char_class_settle(&p->t->ranges, from, negated, p->err));
    p->t->nodes[node].first = from;
    p->t->nodes[node].n = p->t->ranges.n - from;
    return MOTE_OK;
}
