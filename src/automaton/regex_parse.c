/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex_parse.c - reads a regular expression into a tree.
 *
 * Groups that are open lie on a stack of fixed depth, so a pattern of nothing but
 * brackets costs no more than any other. A class is a list of ranges, put in
 * order and merged when it ends.
 */
#include "automaton/regex_tree.h"

#include "automaton/grow.h"

#include <string.h>

typedef struct parser {
    regex_tree *t;
    str text;
    size_t at;
    uint32_t open[REGEX_MAX_DEPTH + 1][2]; /* REGEX_ANY_OF and its latest REGEX_CONCAT */
    uint32_t depth;
    mote_error *err;
} parser;

void regex_tree_fini(regex_tree *t)
{
    mem_free(t->nodes);
    mem_free(t->ranges);
    *t = (regex_tree){0};
}

static mote_status wrong(const parser *p, const char *what)
{
    return err_set(p->err, MOTE_E_ARG, "the pattern '%.*s' has %s at byte %zu", STR_ARG(p->text),
                   what, p->at);
}

static mote_status refused(const parser *p, const char *what)
{
    return err_set(p->err, MOTE_E_UNSUPPORTED, "the pattern '%.*s' uses %s, which is not supported",
                   STR_ARG(p->text), what);
}

static bool more(const parser *p)
{
    return p->at < p->text.n;
}

/* The byte `ahead` of here, 0 behind the end. */
static unsigned char peek(const parser *p, size_t ahead)
{
    return p->at + ahead < p->text.n ? (unsigned char)p->text.p[p->at + ahead] : 0;
}

static bool starts_with(const parser *p, const char *what)
{
    const size_t n = strlen(what);
    return p->text.n - p->at >= n && memcmp(p->text.p + p->at, what, n) == 0;
}

static mote_status new_node(parser *p, regex_kind kind, uint32_t *out)
{
    regex_tree *t = p->t;
    if (!grow_for(&t->nodes, t->n_nodes, &t->nodes_room, sizeof *t->nodes))
        return err_set(p->err, MOTE_E_MEMORY, "no memory for a pattern");
    t->nodes[t->n_nodes] = (regex_node){
        .kind = (uint8_t)kind, .child = RULES_NONE, .last = RULES_NONE, .sibling = RULES_NONE};
    *out = t->n_nodes++;
    return MOTE_OK;
}

static void append_child(regex_tree *t, uint32_t parent, uint32_t child)
{
    regex_node *node = &t->nodes[parent];
    if (node->child == RULES_NONE)
        node->child = child;
    else
        t->nodes[node->last].sibling = child;
    node->last = child;
}

/* ---- classes ---- */

static mote_status add_range(parser *p, uint32_t lo, uint32_t hi)
{
    regex_tree *t = p->t;
    if (!grow_for(&t->ranges, t->n_ranges, &t->ranges_room, sizeof *t->ranges))
        return err_set(p->err, MOTE_E_MEMORY, "no memory for a pattern");
    t->ranges[t->n_ranges++] = (regex_range){lo, hi};
    return MOTE_OK;
}

/* By lower end, with gaps that halve: no input makes it slow enough to matter. */
static void sort_ranges(regex_range *x, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            const regex_range moving = x[i];
            uint32_t k = i;
            for (; k >= gap && x[k - gap].lo > moving.lo; k -= gap)
                x[k] = x[k - gap];
            x[k] = moving;
        }
}

static mote_status complement(parser *p, uint32_t from)
{
    regex_tree *t = p->t;
    const uint32_t n = t->n_ranges - from;
    uint32_t next = 0;
    for (uint32_t i = 0; i < n; i++) {
        const regex_range x = t->ranges[from + i];
        if (x.lo > next)
            TRY(add_range(p, next, x.lo - 1));
        next = x.hi + 1;
    }
    if (next <= CHARS_LAST)
        TRY(add_range(p, next, CHARS_LAST));
    const uint32_t made = t->n_ranges - from - n;
    memmove(t->ranges + from, t->ranges + from + n, made * sizeof *t->ranges);
    t->n_ranges = from + made;
    return MOTE_OK;
}

/* Puts the ranges from `from` on in order, merged; the other characters instead if negated. */
static mote_status settle_ranges(parser *p, uint32_t from, bool negated)
{
    regex_tree *t = p->t;
    sort_ranges(t->ranges + from, t->n_ranges - from);
    uint32_t n = from;
    for (uint32_t i = from; i < t->n_ranges; i++) {
        const regex_range x = t->ranges[i];
        if (n > from && x.lo <= t->ranges[n - 1].hi + 1) {
            if (t->ranges[n - 1].hi < x.hi)
                t->ranges[n - 1].hi = x.hi;
        } else {
            t->ranges[n++] = x;
        }
    }
    t->n_ranges = n;
    return negated ? complement(p, from) : MOTE_OK;
}

/* What \d, \w and \s mean, and what their negations leave out. */
static const regex_range digits[] = {{'0', '9'}};
static const regex_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const regex_range spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                                     {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                     {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                     {0x1C, 0x1F},     {0x85, 0x85},     {0xFEFF, 0xFEFF}};
enum { SPACES_OF_BOTH = 9 };
static const regex_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static mote_status add_class(parser *p, const regex_range *x, size_t n, bool negated)
{
    const uint32_t from = p->t->n_ranges;
    for (size_t i = 0; i < n; i++)
        TRY(add_range(p, x[i].lo, x[i].hi));
    return settle_ranges(p, from, negated);
}

static mote_status add_named_class(parser *p, char name)
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

/* ---- escapes ---- */

static bool hex_value(unsigned char c, uint32_t *value)
{
    if (c >= '0' && c <= '9')
        *value = *value * 16 + (c - '0');
    else if ((c | 32) >= 'a' && (c | 32) <= 'f')
        *value = *value * 16 + (uint32_t)((c | 32) - 'a' + 10);
    else
        return false;
    return true;
}

/* Exactly n hexadecimal digits from `ahead` of here. */
static bool hex_at(const parser *p, size_t ahead, size_t n, uint32_t *value)
{
    *value = 0;
    for (size_t i = 0; i < n; i++)
        if (!hex_value(peek(p, ahead + i), value))
            return false;
    return true;
}

static mote_status braced_code_point(parser *p, uint32_t *c)
{
    *c = 0;
    size_t n = 1;
    while (hex_value(peek(p, n), c) && *c <= CHARS_LAST)
        n++;
    if (n == 1 || peek(p, n) != '}' || *c > CHARS_LAST)
        return wrong(p, "an escape that is no character");
    p->at += n + 1;
    return MOTE_OK;
}

/* Behind "\u". */
static mote_status unicode_escape(parser *p, uint32_t *c)
{
    if (peek(p, 0) == '{')
        return braced_code_point(p, c);
    uint32_t low;
    if (!hex_at(p, 0, 4, c))
        return wrong(p, "an escape that is no character");
    p->at += 4;
    if (*c >= 0xD800 && *c < 0xDC00 && peek(p, 0) == '\\' && peek(p, 1) == 'u' &&
        hex_at(p, 2, 4, &low) && low >= 0xDC00 && low < 0xE000) {
        *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
        p->at += 6;
    }
    return MOTE_OK;
}

static mote_status hex_escape(parser *p, uint32_t *c)
{
    if (!hex_at(p, 0, 2, c))
        return wrong(p, "an escape that is no character");
    p->at += 2;
    return MOTE_OK;
}

/* Behind a backslash that stands for one character. */
static mote_status char_escape(parser *p, uint32_t *c)
{
    static const char controls[] = "t\tn\nr\rf\fv\v";
    const unsigned char name = peek(p, 0);
    if (!more(p))
        return wrong(p, "nothing behind a backslash");
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
    if (name == 'c' && ((peek(p, 1) | 32) >= 'a' && (peek(p, 1) | 32) <= 'z')) {
        *c = peek(p, 1) & 31u;
        p->at += 2;
        return MOTE_OK;
    }
    if (name == '0') {
        p->at++;
        *c = 0;
        return MOTE_OK;
    }
    if (name >= '1' && name <= '9')
        return refused(p, "a reference to a group");
    if (name == 'k')
        return refused(p, "a reference to a named group");
    if (name == 'p' || name == 'P')
        return refused(p, "a Unicode property (\\p)");
    if (!chars_decode(p->text, &p->at, c))
        return wrong(p, "ill-formed UTF-8");
    if ((*c | 32) >= 'a' && (*c | 32) <= 'z')
        return wrong(p, "an escape without a meaning");
    return MOTE_OK;
}

static bool is_class_name(unsigned char c)
{
    return c != 0 && strchr("dDwWsS", c) != NULL;
}

/* One member of a class: a character in *c, or a class of its own, which is added. */
static mote_status class_member(parser *p, uint32_t *c, bool *is_class)
{
    *is_class = false;
    if (peek(p, 0) != '\\') {
        if (!chars_decode(p->text, &p->at, c))
            return wrong(p, "ill-formed UTF-8");
        return MOTE_OK;
    }
    p->at++;
    if (is_class_name(peek(p, 0))) {
        *is_class = true;
        return add_named_class(p, p->text.p[p->at++]);
    }
    if (peek(p, 0) == 'b') {
        p->at++;
        *c = 8;
        return MOTE_OK;
    }
    return char_escape(p, c);
}

static mote_status class_range(parser *p)
{
    uint32_t lo, hi;
    bool lo_class, hi_class = false;
    TRY(class_member(p, &lo, &lo_class));
    if (peek(p, 0) != '-' || peek(p, 1) == ']' || p->at + 1 >= p->text.n)
        return lo_class ? MOTE_OK : add_range(p, lo, lo);
    p->at++;
    TRY(class_member(p, &hi, &hi_class));
    if (lo_class || hi_class) { /* the '-' is one more member */
        TRY(add_range(p, '-', '-'));
        if (!lo_class)
            TRY(add_range(p, lo, lo));
        return hi_class ? MOTE_OK : add_range(p, hi, hi);
    }
    if (lo > hi)
        return wrong(p, "a range that runs backwards");
    return add_range(p, lo, hi);
}

static mote_status read_class(parser *p, uint32_t node)
{
    const uint32_t from = p->t->n_ranges;
    const bool negated = peek(p, 0) == '^';
    p->at += negated;
    while (more(p) && peek(p, 0) != ']')
        TRY(class_range(p));
    if (!more(p))
        return wrong(p, "a class without its end");
    p->at++;
    TRY(settle_ranges(p, from, negated));
    p->t->nodes[node].first = from;
    p->t->nodes[node].n = p->t->n_ranges - from;
    return MOTE_OK;
}

/* ---- atoms and quantifiers ---- */

static mote_status class_node(parser *p, uint32_t *out)
{
    TRY(new_node(p, REGEX_CLASS, out));
    p->t->nodes[*out].first = p->t->n_ranges;
    return MOTE_OK;
}

static void close_class(parser *p, uint32_t node)
{
    p->t->nodes[node].n = p->t->n_ranges - p->t->nodes[node].first;
}

static mote_status read_escape(parser *p, uint32_t *out)
{
    const unsigned char name = peek(p, 0);
    if (name == 'b' || name == 'B')
        return refused(p, "a word border (\\b)");
    if (name == 'A' || name == 'z' || name == 'Z')
        return refused(p, "an anchor of another dialect");
    TRY(class_node(p, out));
    if (is_class_name(name)) {
        p->at++;
        TRY(add_named_class(p, (char)name));
    } else {
        uint32_t c;
        TRY(char_escape(p, &c));
        TRY(add_range(p, c, c));
    }
    close_class(p, *out);
    return MOTE_OK;
}

static mote_status read_char(parser *p, uint32_t *out)
{
    uint32_t c;
    if (!chars_decode(p->text, &p->at, &c))
        return wrong(p, "ill-formed UTF-8");
    TRY(class_node(p, out));
    if (c == '.')
        TRY(add_class(p, line_ends, LENGTH(line_ends), true));
    else
        TRY(add_range(p, c, c));
    close_class(p, *out);
    return MOTE_OK;
}

static mote_status read_atom(parser *p, uint32_t *out)
{
    switch (peek(p, 0)) {
    case '^': p->at++; return new_node(p, REGEX_AT_START, out);
    case '$': p->at++; return new_node(p, REGEX_AT_END, out);
    case '\\': p->at++; return read_escape(p, out);
    case '[':
        p->at++;
        TRY(new_node(p, REGEX_CLASS, out));
        return read_class(p, *out);
    case '*':
    case '+':
    case '?': return wrong(p, "a quantifier with nothing before it");
    default: return read_char(p, out);
    }
}

static bool read_count(const parser *p, size_t *ahead, uint32_t *value)
{
    const size_t from = *ahead;
    *value = 0;
    for (; peek(p, *ahead) >= '0' && peek(p, *ahead) <= '9'; ++*ahead)
        *value = *value > REGEX_MAX_REPEAT ? *value : *value * 10 + (peek(p, *ahead) - '0');
    return *ahead > from;
}

/* {n}, {n,} or {n,m}; a brace that is none of them is a character like others. */
static bool read_braces(parser *p, uint32_t *min, uint32_t *max)
{
    size_t ahead = 1;
    if (!read_count(p, &ahead, min))
        return false;
    *max = *min;
    if (peek(p, ahead) == ',') {
        ahead++;
        if (!read_count(p, &ahead, max))
            *max = RULES_NO_LIMIT;
    }
    if (peek(p, ahead) != '}')
        return false;
    p->at += ahead + 1;
    return true;
}

static bool read_quantifier(parser *p, uint32_t *min, uint32_t *max)
{
    *max = RULES_NO_LIMIT;
    *min = 0;
    switch (peek(p, 0)) {
    case '*': break;
    case '+': *min = 1; break;
    case '?': *max = 1; break;
    case '{': return read_braces(p, min, max);
    default: return false;
    }
    p->at++;
    return true;
}

/* Adds an atom to the open sequence, wrapped in its quantifier. */
static mote_status add_atom(parser *p, uint32_t atom)
{
    uint32_t min, max, node = atom;
    if (read_quantifier(p, &min, &max)) {
        if (min > REGEX_MAX_REPEAT || (max != RULES_NO_LIMIT && max > REGEX_MAX_REPEAT))
            return wrong(p, "a repetition of more than 10,000");
        if (min > max)
            return wrong(p, "a repetition whose limits are reversed");
        TRY(new_node(p, REGEX_REPEAT, &node));
        p->t->nodes[node].min = min;
        p->t->nodes[node].max = max;
        append_child(p->t, node, atom);
        if (peek(p, 0) == '?')
            p->at++;
    }
    append_child(p->t, p->open[p->depth][1], node);
    return MOTE_OK;
}

/* ---- groups ---- */

static mote_status open_group(parser *p)
{
    uint32_t *group = p->open[p->depth];
    TRY(new_node(p, REGEX_ANY_OF, &group[0]));
    TRY(new_node(p, REGEX_CONCAT, &group[1]));
    append_child(p->t, group[0], group[1]);
    return MOTE_OK;
}

static mote_status begin_group(parser *p)
{
    if (starts_with(p, "(?=") || starts_with(p, "(?!") || starts_with(p, "(?<=") ||
        starts_with(p, "(?<!"))
        return refused(p, "lookaround");
    if (starts_with(p, "(?:")) {
        p->at += 3;
    } else if (starts_with(p, "(?<") || starts_with(p, "(?P<")) {
        while (more(p) && peek(p, 0) != '>')
            p->at++;
        p->at += more(p);
    } else if (starts_with(p, "(?")) {
        return refused(p, "a flag or a group of another dialect");
    } else {
        p->at++;
    }
    if (p->depth == REGEX_MAX_DEPTH)
        return wrong(p, "groups more than 64 deep");
    p->depth++;
    return open_group(p);
}

static mote_status end_group(parser *p)
{
    if (p->depth == 0)
        return wrong(p, "a closing bracket too many");
    p->at++;
    const uint32_t group = p->open[p->depth--][0];
    return add_atom(p, group);
}

static mote_status next_alternative(parser *p)
{
    p->at++;
    uint32_t *group = p->open[p->depth];
    TRY(new_node(p, REGEX_CONCAT, &group[1]));
    append_child(p->t, group[0], group[1]);
    return MOTE_OK;
}

static mote_status read_next(parser *p)
{
    uint32_t atom;
    switch (peek(p, 0)) {
    case '(': return begin_group(p);
    case ')': return end_group(p);
    case '|': return next_alternative(p);
    default: TRY(read_atom(p, &atom)); return add_atom(p, atom);
    }
}

mote_status regex_parse(regex_tree *t, str pattern, mote_error *err)
{
    *t = (regex_tree){0};
    parser p = {.t = t, .text = pattern, .err = err};
    if (pattern.n > REGEX_MAX_BYTES)
        return err_set(err, MOTE_E_ARG, "a pattern has %zu bytes, more than %d", pattern.n,
                       REGEX_MAX_BYTES);
    TRY(open_group(&p));
    while (more(&p))
        TRY(read_next(&p));
    if (p.depth > 0)
        return wrong(&p, "a group without its end");
    t->root = p.open[0][0];
    return MOTE_OK;
}
