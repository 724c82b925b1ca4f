/* SPDX-License-Identifier: Apache-2.0 */
/* gbnf_chars.c - what stands between quotes and brackets of a grammar: characters and escapes. */
#include "grammar/rules/gbnf_parser.h"

#include "grammar/rules/dfa.h"
#include "grammar/rules/hex.h"

/* Behind \x, \u or \U: exactly n digits of a code point. */
static mote_status read_code_point(gbnf_parser *p, size_t n, uint32_t *c)
{
    const size_t from = p->at - 2;
    if (!hex_read(p->text, p->at, n, c))
        return gbnf_wrong(p, from,
                          n == 2   ? "expected two hexadecimal digits behind \\x"
                          : n == 4 ? "expected four hexadecimal digits behind \\u"
                                   : "expected eight hexadecimal digits behind \\U");
    if (*c > DFA_LAST || (*c >= 0xD800 && *c < 0xE000))
        return gbnf_wrong(p, from,
                          "expected a code point; those beyond \\uFFFF are written as one \\U with "
                          "eight digits");
    p->at += n;
    return MOTE_OK;
}

static bool is_sign(unsigned char c)
{
    const unsigned char small = c | 32;
    return c > ' ' && c < 0x7F && !(small >= 'a' && small <= 'z') && !(c >= '0' && c <= '9');
}

static mote_status read_escape(gbnf_parser *p, uint32_t *c)
{
    const unsigned char name = gbnf_peek(p, 1);
    p->at += 2;
    switch (name) {
    case 'n': *c = '\n'; return MOTE_OK;
    case 'r': *c = '\r'; return MOTE_OK;
    case 't': *c = '\t'; return MOTE_OK;
    case 'x': return read_code_point(p, 2, c);
    case 'u': return read_code_point(p, 4, c);
    case 'U': return read_code_point(p, 8, c);
    default: break;
    }
    *c = name;
    return is_sign(name) ? MOTE_OK
                         : gbnf_wrong(p, p->at - 2,
                                      "expected an escape with a meaning: \\n \\r \\t \\xHH "
                                      "\\uHHHH \\UHHHHHHHH, or a backslash before a sign");
}

/* One character, escaped or as it stands. */
static mote_status read_char(gbnf_parser *p, uint32_t *c)
{
    if (gbnf_peek(p, 0) == '\\')
        return read_escape(p, c);
    if (!dfa_decode(p->text, &p->at, c))
        return gbnf_wrong(p, p->at, "expected well-formed UTF-8");
    return MOTE_OK;
}

mote_status gbnf_read_text(gbnf_parser *p)
{
    const size_t from = p->at - 1;
    while (gbnf_more(p) && gbnf_peek(p, 0) != '"') {
        unsigned char bytes[4];
        uint32_t c;
        TRY(read_char(p, &c));
        const size_t n = dfa_encode(bytes, c);
        strbuf_put(&p->t->bytes, (str){(const char *)bytes, n});
    }
    if (!gbnf_more(p))
        return gbnf_wrong(p, from, "a text has no closing quote");
    p->at++;
    return strbuf_check(&p->t->bytes, p->err);
}

static mote_status read_range(gbnf_parser *p)
{
    const size_t from = p->at;
    uint32_t lo, hi;
    TRY(read_char(p, &lo));
    hi = lo;
    if (gbnf_peek(p, 0) == '-' && p->at + 1 < p->text.n && gbnf_peek(p, 1) != ']') {
        p->at++;
        TRY(read_char(p, &hi));
    }
    if (lo > hi)
        return gbnf_wrong(p, from, "a range of characters runs backwards");
    return char_class_add(&p->t->ranges, lo, hi, p->err);
}

mote_status gbnf_read_class(gbnf_parser *p)
{
    const size_t from = p->at - 1;
    const uint32_t first = p->t->ranges.n;
    const bool negated = gbnf_peek(p, 0) == '^';
    p->at += negated;
    while (gbnf_more(p) && gbnf_peek(p, 0) != ']')
        TRY(read_range(p));
    if (!gbnf_more(p))
        return gbnf_wrong(p, from, "a class has no closing bracket");
    if (p->t->ranges.n == first)
        return gbnf_wrong(p, from, "a class has no characters");
    p->at++;
    return char_class_settle(&p->t->ranges, first, negated, p->err);
}
