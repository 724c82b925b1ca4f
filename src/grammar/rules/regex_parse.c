/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex_parse.c - parses a regular expression into a syntax tree.
 *
 * Not recursive: open groups are on a stack of REGEX_MAX_DEPTH entries, so a pattern of brackets
 * cannot exhaust the call stack.
 */
#include "grammar/rules/regex_ast.h"

#include "base/mem.h"
#include "grammar/rules/dfa.h"

#include <string.h>

typedef struct regex_parser {
    regex_tree *t;
    str text;
    size_t at;
    uint32_t open[REGEX_MAX_DEPTH + 1][2]; /* REGEX_ANY_OF and its latest REGEX_CONCAT */
    uint32_t depth;
    mote_error *err;
} regex_parser;

static inline bool regex_more(const regex_parser *p)
{
    return p->at < p->text.n;
}

/* The byte at offset `ahead`, 0 after the end. */
static inline unsigned char regex_peek(const regex_parser *p, size_t ahead)
{
    return p->at + ahead < p->text.n ? (unsigned char)p->text.p[p->at + ahead] : 0;
}

static inline bool regex_starts_with(const regex_parser *p, const char *what)
{
    const size_t n = strlen(what);
    return p->text.n - p->at >= n && memcmp(p->text.p + p->at, what, n) == 0;
}

void regex_tree_fini(regex_tree *t)
{
    mem_free(t->nodes);
    char_class_fini(&t->ranges);
    *t = (regex_tree){0};
}

static mote_status regex_invalid(const regex_parser *p, const char *what)
{
    return err_set(p->err, MOTE_E_ARG, "invalid pattern '%.*s': %s at byte %zu", STR_ARG(p->text),
                   what, p->at);
}

static mote_status regex_unsupported(const regex_parser *p, const char *what)
{
    return err_set(p->err, MOTE_E_UNSUPPORTED, "pattern '%.*s': %s not supported", STR_ARG(p->text),
                   what);
}

/* ---- characters and classes ---- */

static mote_status regex_add_range(regex_parser *p, uint32_t lo, uint32_t hi)
{
    return char_class_add(&p->t->ranges, lo, hi, p->err);
}

/* \d, \w and \s. \S excludes more characters than \s includes: ECMAScript and Python differ. */
static const char_range digits[] = {{'0', '9'}};
static const char_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const char_range spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                                    {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                    {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                    {0x1C, 0x1F},     {0x85, 0x85},     {0xFEFF, 0xFEFF}};
enum { SPACES_OF_BOTH = 9 }; /* those of `spaces` that both languages include in \s */
static const char_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static mote_status regex_add_class(regex_parser *p, const char_range *x, size_t n, bool negated)
{
    const uint32_t from = p->t->ranges.n;
    for (size_t i = 0; i < n; i++)
        TRY(regex_add_range(p, x[i].lo, x[i].hi));
    return char_class_normalize(&p->t->ranges, from, negated, p->err);
}

static mote_status regex_add_named_class(regex_parser *p, char name)
{
    switch (name) {
    case 'd': return regex_add_class(p, digits, LENGTH(digits), false);
    case 'D': return regex_add_class(p, digits, LENGTH(digits), true);
    case 'w': return regex_add_class(p, word, LENGTH(word), false);
    case 'W': return regex_add_class(p, word, LENGTH(word), true);
    case 's': return regex_add_class(p, spaces, SPACES_OF_BOTH, false);
    default: return regex_add_class(p, spaces, LENGTH(spaces), true);
    }
}

/* ---- escapes ---- */

/* \u{HEX}, from the brace on. */
static mote_status braced_code_point(regex_parser *p, uint32_t *c)
{
    *c = 0;
    size_t n = 1;
    while (hex_add(c, regex_peek(p, n)) && *c <= DFA_LAST)
        n++;
    if (n == 1 || regex_peek(p, n) != '}' || *c > DFA_LAST)
        return regex_invalid(p, "invalid character escape");
    p->at += n + 1;
    return MOTE_OK;
}

/* After "\u". */
static mote_status unicode_escape(regex_parser *p, uint32_t *c)
{
    if (regex_peek(p, 0) == '{')
        return braced_code_point(p, c);
    uint32_t low;
    if (!hex_read(p->text, p->at, 4, c))
        return regex_invalid(p, "invalid character escape");
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
        return regex_invalid(p, "invalid character escape");
    p->at += 2;
    return MOTE_OK;
}

/* After a backslash: an escape that is one character. */
static mote_status regex_char_escape(regex_parser *p, uint32_t *c)
{
    static const char controls[] = "t\tn\nr\rf\fv\v";
    const unsigned char name = regex_peek(p, 0);
    if (!regex_more(p))
        return regex_invalid(p, "trailing backslash");
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
        return regex_unsupported(p, "backreferences are");
    if (name == 'k')
        return regex_unsupported(p, "named backreferences (\\k) are");
    if (name == 'p' || name == 'P')
        return regex_unsupported(p, "Unicode properties (\\p) are");
    if (!dfa_decode(p->text, &p->at, c))
        return regex_invalid(p, "invalid UTF-8");
    if ((*c | 32) >= 'a' && (*c | 32) <= 'z')
        return regex_invalid(p, "unknown escape");
    return MOTE_OK;
}

/* d, D, w, W, s or S. */
static bool regex_is_class_name(unsigned char c)
{
    return c != 0 && strchr("dDwWsS", c) != NULL;
}

/* One member of a class: a character in *c, or a class escape such as \d, which is added. */
static mote_status class_member(regex_parser *p, uint32_t *c, bool *is_class)
{
    *is_class = false;
    if (regex_peek(p, 0) != '\\') {
        if (!dfa_decode(p->text, &p->at, c))
            return regex_invalid(p, "invalid UTF-8");
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
    if (lo_class || hi_class) { /* the '-' is a literal character */
        TRY(regex_add_range(p, '-', '-'));
        if (!lo_class)
            TRY(regex_add_range(p, lo, lo));
        return hi_class ? MOTE_OK : regex_add_range(p, hi, hi);
    }
    if (lo > hi)
        return regex_invalid(p, "reversed range");
    return regex_add_range(p, lo, hi);
}

/* After "[". */
static mote_status regex_read_class(regex_parser *p, uint32_t node)
{
    const uint32_t from = p->t->ranges.n;
    const bool negated = regex_peek(p, 0) == '^';
    p->at += negated;
    while (regex_more(p) && regex_peek(p, 0) != ']')
        TRY(class_range(p));
    if (!regex_more(p))
        return regex_invalid(p, "unclosed class");
    p->at++;
    TRY(char_class_normalize(&p->t->ranges, from, negated, p->err));
    p->t->nodes[node].first = from;
    p->t->nodes[node].n = p->t->ranges.n - from;
    return MOTE_OK;
}

/* ---- nodes ---- */

static mote_status regex_new_node(regex_parser *p, regex_kind kind, uint32_t *out)
{
    regex_tree *t = p->t;
    if (!mem_grow(&t->nodes, t->n_nodes, &t->nodes_room, sizeof *t->nodes))
        return err_set(p->err, MOTE_E_MEMORY, "out of memory: pattern");
    t->nodes[t->n_nodes] = (regex_node){
        .kind = (uint8_t)kind, .child = RULES_NONE, .last = RULES_NONE, .sibling = RULES_NONE};
    *out = t->n_nodes++;
    return MOTE_OK;
}

static void regex_append_child(regex_tree *t, uint32_t parent, uint32_t child)
{
    regex_node *node = &t->nodes[parent];
    if (node->child == RULES_NONE)
        node->child = child;
    else
        t->nodes[node->last].sibling = child;
    node->last = child;
}

/* ---- atoms and quantifiers ---- */

static mote_status regex_class_node(regex_parser *p, uint32_t *out)
{
    TRY(regex_new_node(p, REGEX_CLASS, out));
    p->t->nodes[*out].first = p->t->ranges.n;
    return MOTE_OK;
}

static void close_class(regex_parser *p, uint32_t node)
{
    p->t->nodes[node].n = p->t->ranges.n - p->t->nodes[node].first;
}

static mote_status regex_read_escape(regex_parser *p, uint32_t *out)
{
    const unsigned char name = regex_peek(p, 0);
    if (name == 'b' || name == 'B')
        return regex_unsupported(p, "word boundaries (\\b) are");
    if (name == 'A' || name == 'z' || name == 'Z')
        return regex_unsupported(p, "the anchors \\A, \\z and \\Z are");
    TRY(regex_class_node(p, out));
    if (regex_is_class_name(name)) {
        p->at++;
        TRY(regex_add_named_class(p, (char)name));
    } else {
        uint32_t c;
        TRY(regex_char_escape(p, &c));
        TRY(regex_add_range(p, c, c));
    }
    close_class(p, *out);
    return MOTE_OK;
}

static mote_status regex_read_char(regex_parser *p, uint32_t *out)
{
    uint32_t c;
    if (!dfa_decode(p->text, &p->at, &c))
        return regex_invalid(p, "invalid UTF-8");
    TRY(regex_class_node(p, out));
    if (c == '.')
        TRY(regex_add_class(p, line_ends, LENGTH(line_ends), true));
    else
        TRY(regex_add_range(p, c, c));
    close_class(p, *out);
    return MOTE_OK;
}

static mote_status regex_read_atom(regex_parser *p, uint32_t *out)
{
    switch (regex_peek(p, 0)) {
    case '^': p->at++; return regex_new_node(p, REGEX_AT_START, out);
    case '$': p->at++; return regex_new_node(p, REGEX_AT_END, out);
    case '\\': p->at++; return regex_read_escape(p, out);
    case '[':
        p->at++;
        TRY(regex_new_node(p, REGEX_CLASS, out));
        return regex_read_class(p, *out);
    case '*':
    case '+':
    case '?': return regex_invalid(p, "quantifier with nothing before it");
    default: return regex_read_char(p, out);
    }
}

static bool regex_read_count(const regex_parser *p, size_t *ahead, uint32_t *value)
{
    const size_t from = *ahead;
    *value = 0;
    for (; regex_peek(p, *ahead) >= '0' && regex_peek(p, *ahead) <= '9'; ++*ahead)
        *value = *value > REGEX_MAX_REPEAT ? *value : *value * 10 + (regex_peek(p, *ahead) - '0');
    return *ahead > from;
}

/* {n}, {n,} or {n,m}. Any other brace is a literal character. */
static bool regex_read_braces(regex_parser *p, uint32_t *min, uint32_t *max)
{
    size_t ahead = 1;
    if (!regex_read_count(p, &ahead, min))
        return false;
    *max = *min;
    if (regex_peek(p, ahead) == ',') {
        ahead++;
        if (!regex_read_count(p, &ahead, max))
            *max = RULES_NO_LIMIT;
    }
    if (regex_peek(p, ahead) != '}')
        return false;
    p->at += ahead + 1;
    return true;
}

static bool regex_read_quantifier(regex_parser *p, uint32_t *min, uint32_t *max)
{
    *max = RULES_NO_LIMIT;
    *min = 0;
    switch (regex_peek(p, 0)) {
    case '*': break;
    case '+': *min = 1; break;
    case '?': *max = 1; break;
    case '{': return regex_read_braces(p, min, max);
    default: return false;
    }
    p->at++;
    return true;
}

/* Adds an atom, with its quantifier if it has one, to the current sequence. */
static mote_status add_atom(regex_parser *p, uint32_t atom)
{
    uint32_t min, max, node = atom;
    if (regex_read_quantifier(p, &min, &max)) {
        if (min > REGEX_MAX_REPEAT || (max != RULES_NO_LIMIT && max > REGEX_MAX_REPEAT))
            return regex_invalid(p, "repetition of more than 10,000");
        if (min > max)
            return regex_invalid(p, "repetition with reversed limits");
        TRY(regex_new_node(p, REGEX_REPEAT, &node));
        p->t->nodes[node].min = min;
        p->t->nodes[node].max = max;
        regex_append_child(p->t, node, atom);
        if (regex_peek(p, 0) == '?')
            p->at++;
    }
    regex_append_child(p->t, p->open[p->depth][1], node);
    return MOTE_OK;
}

/* ---- groups ---- */

static mote_status regex_push_group(regex_parser *p)
{
    uint32_t *group = p->open[p->depth];
    TRY(regex_new_node(p, REGEX_ANY_OF, &group[0]));
    TRY(regex_new_node(p, REGEX_CONCAT, &group[1]));
    regex_append_child(p->t, group[0], group[1]);
    return MOTE_OK;
}

static mote_status regex_begin_group(regex_parser *p)
{
    if (regex_starts_with(p, "(?=") || regex_starts_with(p, "(?!") ||
        regex_starts_with(p, "(?<=") || regex_starts_with(p, "(?<!"))
        return regex_unsupported(p, "lookaround is");
    if (regex_starts_with(p, "(?:")) {
        p->at += 3;
    } else if (regex_starts_with(p, "(?<") || regex_starts_with(p, "(?P<")) {
        while (regex_more(p) && regex_peek(p, 0) != '>')
            p->at++;
        p->at += regex_more(p);
    } else if (regex_starts_with(p, "(?")) {
        return regex_unsupported(p,
                                 "flags and groups other than (...), (?:...) and (?<name>...) are");
    } else {
        p->at++;
    }
    if (p->depth == REGEX_MAX_DEPTH)
        return regex_invalid(p, "groups nested more than 64 deep");
    p->depth++;
    return regex_push_group(p);
}

static mote_status regex_end_group(regex_parser *p)
{
    if (p->depth == 0)
        return regex_invalid(p, "unmatched closing parenthesis");
    p->at++;
    const uint32_t group = p->open[p->depth--][0];
    return add_atom(p, group);
}

static mote_status regex_next_alternative(regex_parser *p)
{
    p->at++;
    uint32_t *group = p->open[p->depth];
    TRY(regex_new_node(p, REGEX_CONCAT, &group[1]));
    regex_append_child(p->t, group[0], group[1]);
    return MOTE_OK;
}

static mote_status regex_read_next(regex_parser *p)
{
    uint32_t atom;
    switch (regex_peek(p, 0)) {
    case '(': return regex_begin_group(p);
    case ')': return regex_end_group(p);
    case '|': return regex_next_alternative(p);
    default: TRY(regex_read_atom(p, &atom)); return add_atom(p, atom);
    }
}

mote_status regex_parse(regex_tree *t, str pattern, mote_error *err)
{
    *t = (regex_tree){0};
    regex_parser p = {.t = t, .text = pattern, .err = err};
    if (pattern.n > REGEX_MAX_BYTES)
        return err_set(err, MOTE_E_ARG, "pattern of %zu bytes; at most %d", pattern.n,
                       REGEX_MAX_BYTES);
    TRY(regex_push_group(&p));
    while (regex_more(&p))
        TRY(regex_read_next(&p));
    if (p.depth > 0)
        return regex_invalid(&p, "unclosed group");
    t->root = p.open[0][0];
    return MOTE_OK;
}
