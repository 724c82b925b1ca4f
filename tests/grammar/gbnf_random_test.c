/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf_random_test.c - random GBNF grammars against a reference matcher without automata.
 *
 * A random syntax tree is printed in one of its many spellings and compiled. The reference matcher
 * works on the tree: for each rule and each position of a text it computes the set of end
 * positions, by iteration to a fixed point. It also finds nullable rules and left recursion, which
 * the compiler must reject.
 */
#include "base/str.h"
#include "grammar/grammar.h"
#include "grammar/grammar_rig.h"
#include "support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { GRAMMARS = 3000, RULES = 4, PARTS = 400, DEPTH = 3, SYMBOLS = 3, LONGEST = 9, SHORT = 4 };

/* The alphabet: characters of one, two and four bytes. */
static const char *const symbols[SYMBOLS] = {"a", "\xC3\xA9", "\xF0\x9F\x98\x80"};

typedef enum part_kind { TEXT, CLASS, CALL, SEQUENCE, ANY_OF, REPEAT } part_kind;

typedef struct part {
    part_kind kind;
    unsigned symbols[3], n; /* TEXT; SEQUENCE, ANY_OF, REPEAT: children */
    unsigned set;           /* CLASS: bits of symbols */
    unsigned rule;          /* CALL */
    unsigned min, max;      /* REPEAT; UNBOUNDED */
} part;

enum { UNBOUNDED = 1000 };

typedef struct model {
    part parts[PARTS];
    unsigned n_parts, body[RULES];
    uint32_t ends[RULES][LONGEST + 1]; /* bit i: the rule, started here, can end at position i */
    unsigned text[LONGEST], n_text;
} model;

/* ---- random trees ---- */

static unsigned make_part(model *m, test_random *r, unsigned depth)
{
    const unsigned at = m->n_parts++;
    static const part_kind kinds[] = {TEXT,     CLASS,  CALL,   SEQUENCE,
                                      SEQUENCE, ANY_OF, REPEAT, REPEAT};
    part p = {.kind = kinds[test_random_below(r, depth == 0 || at > PARTS / 2 ? 3 : 8)]};
    assert_true(at < PARTS);
    switch (p.kind) {
    case TEXT:
        p.n = (unsigned)test_random_below(r, 3);
        for (unsigned i = 0; i < p.n; i++)
            p.symbols[i] = (unsigned)test_random_below(r, SYMBOLS);
        break;
    case CLASS: p.set = 1 + (unsigned)test_random_below(r, (1 << SYMBOLS) - 1); break;
    case CALL: p.rule = (unsigned)test_random_below(r, RULES); break;
    case REPEAT:
        p.min = (unsigned)test_random_below(r, 3);
        p.max = p.min + (unsigned)test_random_below(r, 3);
        if (test_random_below(r, 3) == 0)
            p.max = UNBOUNDED;
        else if (test_random_below(r, 3) == 0)
            p.min = 0, p.max = 1;
        p.n = 1;
        p.symbols[0] = make_part(m, r, depth - 1);
        break;
    default:
        p.n = (unsigned)test_random_below(r, 4);
        for (unsigned i = 0; i < p.n; i++)
            p.symbols[i] = make_part(m, r, depth - 1);
        if (p.kind == ANY_OF && p.n == 0)
            p.kind = SEQUENCE;
        break;
    }
    m->parts[at] = p;
    return at;
}

/* ---- printing ---- */

static void print_symbol(strbuf *out, test_random *r, unsigned symbol)
{
    static const char *const spellings[SYMBOLS][3] = {
        {"a", "\\x61", "\\u0061"},
        {"\xC3\xA9", "\\xE9", "\\U000000e9"},
        {"\xF0\x9F\x98\x80", "\\U0001F600", "\xF0\x9F\x98\x80"}};
    strbuf_text(out, spellings[symbol][test_random_below(r, 3)]);
}

static void print_class(strbuf *out, test_random *r, unsigned set)
{
    const bool negated = test_random_below(r, 2) != 0;
    const unsigned listed = negated ? ~set & ((1 << SYMBOLS) - 1) : set;
    if (listed == 0) { /* all symbols */
        strbuf_text(out, test_random_below(r, 2) != 0 ? "." : "[^z]");
        return;
    }
    strbuf_text(out, negated ? "[^" : "[");
    for (unsigned i = SYMBOLS; i-- > 0;)
        if ((listed >> i & 1) != 0)
            print_symbol(out, r, i);
    strbuf_text(out, test_random_below(r, 3) == 0 ? "x-z]" : "]");
}

static void print_blank(strbuf *out, test_random *r)
{
    static const char *const blanks[] = {" ", "  ", "\t", " \n ", " # | \"\n\t"};
    strbuf_text(out, blanks[test_random_below(r, 5)]);
}

static void print_count(strbuf *out, test_random *r, const part *p)
{
    char text[64];
    const bool sign = test_random_below(r, 2) != 0;
    if (p->max == UNBOUNDED)
        snprintf(text, sizeof text, "{%u,}", p->min);
    else
        snprintf(text, sizeof text, "{%u,%u}", p->min, p->max);
    if (p->min == p->max && sign)
        snprintf(text, sizeof text, "{ %u }", p->min);
    if (p->max == UNBOUNDED && p->min < 2 && sign)
        snprintf(text, sizeof text, p->min == 0 ? "*" : "+");
    if (p->min == 0 && p->max == 1 && sign)
        snprintf(text, sizeof text, "?");
    strbuf_text(out, text);
}

static void print_part(const model *m, strbuf *out, test_random *r, unsigned at)
{
    const part *p = &m->parts[at];
    char name[16];
    switch (p->kind) {
    case TEXT:
        strbuf_byte(out, '"');
        for (unsigned i = 0; i < p->n; i++)
            print_symbol(out, r, p->symbols[i]);
        strbuf_byte(out, '"');
        break;
    case CLASS: print_class(out, r, p->set); break;
    case CALL:
        snprintf(name, sizeof name, p->rule == 0 ? "root" : "rule-%u", p->rule);
        strbuf_text(out, name);
        break;
    default:
        if (p->kind == REPEAT && m->parts[p->symbols[0]].kind < SEQUENCE &&
            test_random_below(r, 2) != 0) {
            print_part(m, out, r, p->symbols[0]);
            print_count(out, r, p);
            break;
        }
        strbuf_text(out, "(");
        for (unsigned i = 0; i < p->n; i++) {
            if (i > 0 && p->kind == ANY_OF)
                strbuf_byte(out, '|');
            print_blank(out, r);
            print_part(m, out, r, p->symbols[i]);
        }
        strbuf_text(out, ")");
        if (p->kind == REPEAT)
            print_count(out, r, p);
        break;
    }
}

static void print_model(const model *m, strbuf *out, test_random *r)
{
    for (unsigned i = RULES; i-- > 0;) {
        char name[32];
        snprintf(name, sizeof name, i == 0 ? "root ::=" : "rule-%u ::=", i);
        strbuf_text(out, name);
        print_blank(out, r);
        print_part(m, out, r, m->body[i]);
        strbuf_byte(out, '\n');
    }
}

/* ---- reference matcher ---- */

static uint32_t ends_of(const model *m, unsigned at, unsigned from);

/* End positions of the element, from any of the start positions. */
static uint32_t ends_from(const model *m, unsigned at, uint32_t positions)
{
    uint32_t ends = 0;
    for (unsigned i = 0; i <= m->n_text; i++)
        if ((positions >> i & 1) != 0)
            ends |= ends_of(m, at, i);
    return ends;
}

static uint32_t ends_of_repeat(const model *m, const part *p, unsigned from)
{
    uint32_t positions = (uint32_t)1 << from, ends = 0;
    /* After as many runs as the text has positions, another run adds no position. */
    const unsigned most = p->max == UNBOUNDED ? p->min + LONGEST + 1 : p->max;
    for (unsigned run = 0; run <= most; run++) {
        if (run >= p->min)
            ends |= positions;
        positions = ends_from(m, p->symbols[0], positions);
    }
    return ends;
}

static uint32_t ends_of(const model *m, unsigned at, unsigned from)
{
    const part *p = &m->parts[at];
    uint32_t positions = (uint32_t)1 << from, ends = 0;
    switch (p->kind) {
    case TEXT:
        for (unsigned i = 0; i < p->n; i++)
            if (from + i >= m->n_text || m->text[from + i] != p->symbols[i])
                return 0;
        return positions << p->n;
    case CLASS: return from < m->n_text && (p->set >> m->text[from] & 1) != 0 ? positions << 1 : 0;
    case CALL: return m->ends[p->rule][from];
    case REPEAT: return ends_of_repeat(m, p, from);
    case SEQUENCE:
        for (unsigned i = 0; i < p->n; i++)
            positions = ends_from(m, p->symbols[i], positions);
        return positions;
    default:
        for (unsigned i = 0; i < p->n; i++)
            ends |= ends_of(m, p->symbols[i], from);
        return ends;
    }
}

static void compute_ends(model *m)
{
    bool changed = true;
    memset(m->ends, 0, sizeof m->ends);
    while (changed) {
        changed = false;
        for (unsigned rule = 0; rule < RULES; rule++)
            for (unsigned from = 0; from <= m->n_text; from++) {
                const uint32_t ends = ends_of(m, m->body[rule], from);
                changed |= ends != m->ends[rule][from];
                m->ends[rule][from] = ends;
            }
    }
}

static bool model_accepts(model *m)
{
    compute_ends(m);
    return (m->ends[0][0] >> m->n_text & 1) != 0;
}

/* Which rules can an element call before it reads a character? `ends` is that of the empty text. */
static unsigned first_calls(const model *m, unsigned at)
{
    const part *p = &m->parts[at];
    unsigned calls = 0;
    if (p->kind == CALL)
        return 1u << p->rule;
    if (p->kind == REPEAT && p->max == 0)
        return 0;
    for (unsigned i = 0; i < p->n && p->kind >= SEQUENCE; i++) {
        calls |= first_calls(m, p->symbols[i]);
        if (p->kind == SEQUENCE && ends_of(m, p->symbols[i], 0) == 0)
            break;
    }
    return calls;
}

static bool is_left_recursive(model *m)
{
    unsigned reach[RULES];
    m->n_text = 0;
    compute_ends(m);
    for (unsigned i = 0; i < RULES; i++)
        reach[i] = first_calls(m, m->body[i]);
    for (unsigned k = 0; k < RULES; k++)
        for (unsigned i = 0; i < RULES; i++)
            if ((reach[i] >> k & 1) != 0)
                reach[i] |= reach[k];
    for (unsigned i = 0; i < RULES; i++)
        if ((reach[i] >> i & 1) != 0)
            return true;
    return false;
}

/* ---- comparison ---- */

typedef struct tally {
    unsigned used, left_recursive, nothing, texts, too_ambiguous;
} tally;

/* An ambiguous grammar may need too many stacks. That must be an error, never a wrong result. */
static bool is_too_ambiguous(const mote_error *err)
{
    return strstr(err->text, "too many alternatives") != NULL;
}

static bool check_masks(grammar *g, str text)
{
    uint32_t bits[32];
    mote_error err = {0};
    grammar_matcher *m;
    mote_status status = grammar_matcher_new(&m, g, &err);
    for (size_t i = 0; status == MOTE_OK && i <= text.n; i++) {
        status = grammar_mask(m, bits, &err);
        if (status == MOTE_OK && i < text.n)
            status = grammar_accept(m, (unsigned char)text.p[i], &err);
    }
    grammar_matcher_free(m);
    if (status != MOTE_OK && !is_too_ambiguous(&err))
        fail_msg("'%s': %s", text.p, err.text);
    return status == MOTE_OK;
}

static void compare(model *m, grammar *g, const char *spelled, tally *t)
{
    char text[LONGEST * 4 + 1] = "";
    mote_error err;
    bool fits;
    for (unsigned i = 0; i < m->n_text; i++)
        strcat(text, symbols[m->text[i]]);
    t->texts++;
    if (grammar_check(g, str_of(text), &fits, &err) != MOTE_OK) {
        if (!is_too_ambiguous(&err))
            fail_msg("%s\n%s", spelled, err.text);
        t->too_ambiguous++;
        return;
    }
    if (fits != model_accepts(m))
        fail_msg("'%s' is %s by\n%s", text, fits ? "accepted" : "rejected", spelled);
    if (!fits || m->n_text % 4 != 3)
        return;
    if (check_masks(g, str_of(text)))
        rig_check_masks(g, str_of(text), m->n_text);
    else
        t->too_ambiguous++;
}

static void compare_all(model *m, grammar *g, const char *spelled, test_random *r, tally *t)
{
    for (m->n_text = 0; m->n_text <= SHORT; m->n_text++) {
        unsigned n = 1;
        for (unsigned i = 0; i < m->n_text; i++)
            n *= SYMBOLS;
        for (unsigned which = 0; which < n; which++) {
            for (unsigned i = 0, rest = which; i < m->n_text; i++, rest /= SYMBOLS)
                m->text[i] = rest % SYMBOLS;
            compare(m, g, spelled, t);
        }
    }
    for (int i = 0; i < 20; i++) {
        m->n_text = SHORT + 1 + (unsigned)test_random_below(r, LONGEST - SHORT);
        for (unsigned k = 0; k < m->n_text; k++)
            m->text[k] = (unsigned)test_random_below(r, SYMBOLS);
        compare(m, g, spelled, t);
    }
}

static void try_one(uint64_t seed, tally *t)
{
    static model m;
    test_random r = {seed};
    mote_error err = {0};
    strbuf text = {0};
    grammar *g;
    m = (model){0};
    for (unsigned i = 0; i < RULES; i++)
        m.body[i] = make_part(&m, &r, DEPTH);
    print_model(&m, &text, &r);
    strbuf_byte(&text, 0);
    const str shown = {text.p, text.n - 1};
    const mote_status status = grammar_of_gbnf(&g, rig_vocab(), shown, &err);
    const bool recursive = is_left_recursive(&m);
    if (recursive != (strstr(err.text, "left recursive") != NULL))
        fail_msg("left recursive: %d, but '%s'\n%s", recursive, err.text, text.p);
    if (status == MOTE_OK)
        compare_all(&m, g, text.p, &r, t);
    else if (!recursive && strstr(err.text, "no text satisfies") == NULL)
        fail_msg("%s\n%s", err.text, text.p);
    t->used += status == MOTE_OK;
    t->left_recursive += recursive;
    t->nothing += status != MOTE_OK && !recursive;
    grammar_free(g);
    strbuf_fini(&text);
}

static void test_random_grammars(void **state)
{
    (void)state;
    tally t = {0};
    for (uint64_t seed = 0; seed < GRAMMARS; seed++)
        try_one(seed, &t);
    print_message(
        "%u grammars, %u left recursive, %u that match no text; %u texts, %u too ambiguous\n",
        t.used, t.left_recursive, t.nothing, t.texts, t.too_ambiguous);
    assert_true(t.too_ambiguous < t.texts / 1000);
    assert_true(t.used > GRAMMARS / 4 && t.left_recursive > GRAMMARS / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_grammars)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
