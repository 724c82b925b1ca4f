/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gbnf_parse.c - parses a GBNF grammar into a syntax tree.
 *
 * Not recursive: open groups are on a stack of GBNF_MAX_DEPTH entries, so a text of parentheses
 * cannot exhaust the call stack.
 */
#include "grammar/rules/gbnf_ast.h"

#include "base/strmap.h"
#include "grammar/rules/dfa.h"
#include "base/mem.h"

#include <stdio.h>

typedef struct gbnf_open {
    uint32_t any_of, sequence; /* GBNF_ANY_OF and its latest GBNF_SEQUENCE */
    size_t at;                 /* of its parenthesis */
} gbnf_open;

typedef struct gbnf_parser {
    gbnf_tree *t;
    str text;
    size_t at;
    gbnf_open open[GBNF_MAX_DEPTH + 1]; /* the first is the rule itself */
    uint32_t depth;
    strmap names; /* of rules */
    mote_error *err;
} gbnf_parser;

static inline bool gbnf_more(const gbnf_parser *p)
{
    return p->at < p->text.n;
}

/* The byte at offset `ahead`, 0 after the end. */
static inline unsigned char gbnf_peek(const gbnf_parser *p, size_t ahead)
{
    return p->at + ahead < p->text.n ? (unsigned char)p->text.p[p->at + ahead] : 0;
}

void gbnf_tree_fini(gbnf_tree *t)
{
    mem_free(t->nodes);
    mem_free(t->rules);
    char_class_fini(&t->ranges);
    strbuf_fini(&t->bytes);
    *t = (gbnf_tree){0};
}

gbnf_place gbnf_place_of(str text, size_t at)
{
    gbnf_place place;
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < text.n; i++) {
        const unsigned char c = (unsigned char)text.p[i];
        column += (c & 0xC0) != 0x80;
        if (c == '\n') {
            line++;
            column = 1;
        }
    }
    snprintf(place.text, sizeof place.text, "line %zu, column %zu", line, column);
    return place;
}

static mote_status gbnf_invalid(const gbnf_parser *p, size_t at, const char *what)
{
    return err_set(p->err, MOTE_E_ARG, "invalid grammar, %s: %s", gbnf_place_of(p->text, at).text,
                   what);
}

static mote_status gbnf_unsupported(const gbnf_parser *p, size_t at, const char *what)
{
    return err_set(p->err, MOTE_E_UNSUPPORTED, "grammar, %s: %s not supported",
                   gbnf_place_of(p->text, at).text, what);
}

static mote_status gbnf_no_memory(const gbnf_parser *p)
{
    return err_set(p->err, MOTE_E_MEMORY, "out of memory: grammar");
}

/* ---- characters, strings and classes ---- */

/* After \x, \u or \U: exactly n digits of a code point. */
static mote_status read_code_point(gbnf_parser *p, size_t n, uint32_t *c)
{
    const size_t from = p->at - 2;
    if (!hex_read(p->text, p->at, n, c))
        return gbnf_invalid(p, from,
                            n == 2   ? "expected two hexadecimal digits after \\x"
                            : n == 4 ? "expected four hexadecimal digits after \\u"
                                     : "expected eight hexadecimal digits after \\U");
    if (*c > DFA_LAST || (*c >= 0xD800 && *c < 0xE000))
        return gbnf_invalid(p, from,
                            "expected a code point; above \\uFFFF write one \\U with eight digits");
    p->at += n;
    return MOTE_OK;
}

static bool is_punctuation(unsigned char c)
{
    const unsigned char small = c | 32;
    return c > ' ' && c < 0x7F && !(small >= 'a' && small <= 'z') && !(c >= '0' && c <= '9');
}

static mote_status gbnf_read_escape(gbnf_parser *p, uint32_t *c)
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
    return is_punctuation(name)
               ? MOTE_OK
               : gbnf_invalid(
                     p, p->at - 2,
                     "unknown escape; supported: \\n \\r \\t \\xHH \\uHHHH \\UHHHHHHHH and "
                     "a backslash before punctuation");
}

/* One character, escaped or not. */
static mote_status gbnf_read_char(gbnf_parser *p, uint32_t *c)
{
    if (gbnf_peek(p, 0) == '\\')
        return gbnf_read_escape(p, c);
    if (!dfa_decode(p->text, &p->at, c))
        return gbnf_invalid(p, p->at, "invalid UTF-8");
    return MOTE_OK;
}

/* After the opening quote; appends to the tree's bytes. */
static mote_status gbnf_read_text(gbnf_parser *p)
{
    const size_t from = p->at - 1;
    while (gbnf_more(p) && gbnf_peek(p, 0) != '"') {
        unsigned char bytes[4];
        uint32_t c;
        TRY(gbnf_read_char(p, &c));
        const size_t n = dfa_encode(bytes, c);
        strbuf_put(&p->t->bytes, (str){(const char *)bytes, n});
    }
    if (!gbnf_more(p))
        return gbnf_invalid(p, from, "string has no closing quote");
    p->at++;
    return strbuf_check(&p->t->bytes, p->err);
}

static mote_status gbnf_read_range(gbnf_parser *p)
{
    const size_t from = p->at;
    uint32_t lo, hi;
    TRY(gbnf_read_char(p, &lo));
    hi = lo;
    if (gbnf_peek(p, 0) == '-' && p->at + 1 < p->text.n && gbnf_peek(p, 1) != ']') {
        p->at++;
        TRY(gbnf_read_char(p, &hi));
    }
    if (lo > hi)
        return gbnf_invalid(p, from, "reversed character range");
    return char_class_add(&p->t->ranges, lo, hi, p->err);
}

/* After the opening bracket; appends normalized ranges to those of the tree. */
static mote_status gbnf_read_class(gbnf_parser *p)
{
    const size_t from = p->at - 1;
    const uint32_t first = p->t->ranges.n;
    const bool negated = gbnf_peek(p, 0) == '^';
    p->at += negated;
    while (gbnf_more(p) && gbnf_peek(p, 0) != ']')
        TRY(gbnf_read_range(p));
    if (!gbnf_more(p))
        return gbnf_invalid(p, from, "class has no closing bracket");
    if (p->t->ranges.n == first)
        return gbnf_invalid(p, from, "empty class");
    p->at++;
    return char_class_normalize(&p->t->ranges, first, negated, p->err);
}

/* ---- nodes ---- */

static mote_status gbnf_new_node(gbnf_parser *p, gbnf_kind kind, uint32_t *out)
{
    gbnf_tree *t = p->t;
    if (t->n_nodes == GBNF_MAX_PARTS)
        return gbnf_invalid(p, p->at, "more than 65,536 elements");
    if (!mem_grow(&t->nodes, t->n_nodes, &t->nodes_room, sizeof *t->nodes))
        return gbnf_no_memory(p);
    t->nodes[t->n_nodes] = (gbnf_node){
        .kind = (uint8_t)kind, .child = RULES_NONE, .last = RULES_NONE, .sibling = RULES_NONE};
    *out = t->n_nodes++;
    return MOTE_OK;
}

static void gbnf_append_child(gbnf_tree *t, uint32_t parent, uint32_t child)
{
    gbnf_node *node = &t->nodes[parent];
    if (node->child == RULES_NONE)
        node->child = child;
    else
        t->nodes[node->last].sibling = child;
    node->last = child;
}

/* A new element of the current sequence. */
static mote_status new_element(gbnf_parser *p, gbnf_kind kind, uint32_t *out)
{
    TRY(gbnf_new_node(p, kind, out));
    gbnf_append_child(p->t, p->open[p->depth].sequence, *out);
    return MOTE_OK;
}

/* ---- white space and names ---- */

/* Skips white space and comments; true: a line ended. */
static bool gbnf_skip_blanks(gbnf_parser *p)
{
    bool line_ended = false;
    for (; gbnf_more(p); p->at++) {
        const unsigned char c = gbnf_peek(p, 0);
        if (c == '#')
            while (gbnf_more(p) && gbnf_peek(p, 0) != '\n')
                p->at++;
        else if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
            break;
        line_ended |= gbnf_peek(p, 0) == '\n';
    }
    return line_ended;
}

static bool is_name_char(unsigned char c)
{
    const unsigned char small = c | 32;
    return (small >= 'a' && small <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static str name_here(const gbnf_parser *p)
{
    size_t n = 0;
    while (is_name_char(gbnf_peek(p, n)))
        n++;
    return (str){p->text.p + p->at, n};
}

/* Number of bytes up to the end of `::=`, if a definition begins here; else 0. */
static size_t definition_here(const gbnf_parser *p)
{
    size_t n = name_here(p).n;
    if (n == 0)
        return 0;
    while (gbnf_peek(p, n) == ' ' || gbnf_peek(p, n) == '\t')
        n++;
    const bool assigns =
        gbnf_peek(p, n) == ':' && gbnf_peek(p, n + 1) == ':' && gbnf_peek(p, n + 2) == '=';
    return assigns ? n + 3 : 0;
}

/* The rule of a name; it may be defined later. */
static mote_status gbnf_rule_of(gbnf_parser *p, str name, uint32_t *rule)
{
    gbnf_tree *t = p->t;
    if (strmap_get(&p->names, name, rule))
        return MOTE_OK;
    if (name.n > GBNF_MAX_NAME)
        return gbnf_invalid(p, p->at, "rule name of more than 64 bytes");
    if (t->n_rules == GBNF_MAX_RULES)
        return gbnf_invalid(p, p->at, "more than 8,192 rules");
    if (!mem_grow(&t->rules, t->n_rules, &t->rules_room, sizeof *t->rules))
        return gbnf_no_memory(p);
    if (strmap_put(&p->names, name, t->n_rules, NULL, p->err) != MOTE_OK)
        return gbnf_invalid(p, p->at, "too many hash collisions between rule names");
    t->rules[t->n_rules] = (gbnf_rule){.name = name, .body = RULES_NONE, .at = p->at};
    *rule = t->n_rules++;
    return MOTE_OK;
}

/* ---- elements ---- */

static mote_status read_string_element(gbnf_parser *p)
{
    const size_t first = p->t->bytes.n;
    uint32_t node;
    p->at++;
    TRY(gbnf_read_text(p));
    TRY(new_element(p, GBNF_TEXT, &node));
    p->t->nodes[node].first = (uint32_t)first;
    p->t->nodes[node].n = (uint32_t)(p->t->bytes.n - first);
    return MOTE_OK;
}

/* A class, or the dot for any character. */
static mote_status read_class_element(gbnf_parser *p, bool any)
{
    const uint32_t first = p->t->ranges.n;
    uint32_t node;
    p->at++;
    TRY(any ? char_class_add(&p->t->ranges, 0, DFA_LAST, p->err) : gbnf_read_class(p));
    TRY(new_element(p, GBNF_CLASS, &node));
    p->t->nodes[node].first = first;
    p->t->nodes[node].n = p->t->ranges.n - first;
    return MOTE_OK;
}

static mote_status read_rule_reference(gbnf_parser *p)
{
    const str name = name_here(p);
    uint32_t node, rule;
    TRY(gbnf_rule_of(p, name, &rule));
    TRY(new_element(p, GBNF_CALL, &node));
    p->t->nodes[node].first = rule;
    p->at += name.n;
    return MOTE_OK;
}

static void skip_spaces(gbnf_parser *p)
{
    while (gbnf_peek(p, 0) == ' ' || gbnf_peek(p, 0) == '\t')
        p->at++;
}

static bool gbnf_read_count(gbnf_parser *p, uint32_t *value)
{
    const size_t from = p->at;
    *value = 0;
    for (; gbnf_peek(p, 0) >= '0' && gbnf_peek(p, 0) <= '9'; p->at++)
        *value = *value > GBNF_MAX_REPEAT ? *value : *value * 10 + (gbnf_peek(p, 0) - '0');
    const bool read = p->at > from;
    skip_spaces(p);
    return read;
}

/* {n}, {n,} or {n,m}. */
static mote_status gbnf_read_braces(gbnf_parser *p, uint32_t *min, uint32_t *max)
{
    const size_t from = p->at++;
    skip_spaces(p);
    if (!gbnf_read_count(p, min))
        return gbnf_invalid(p, p->at, "expected a number after '{'");
    *max = *min;
    if (gbnf_peek(p, 0) == ',') {
        p->at++;
        skip_spaces(p);
        if (!gbnf_read_count(p, max))
            *max = RULES_NO_LIMIT;
    }
    if (gbnf_peek(p, 0) != '}')
        return gbnf_invalid(p, p->at, "expected {n}, {n,} or {n,m}");
    p->at++;
    if (*min > GBNF_MAX_REPEAT || (*max != RULES_NO_LIMIT && *max > GBNF_MAX_REPEAT))
        return gbnf_invalid(p, from, "repetition of more than 1,000,000");
    if (*min > *max)
        return gbnf_invalid(p, from, "repetition with reversed limits");
    return MOTE_OK;
}

/* Wraps the latest element in a repetition. */
static mote_status read_repetition(gbnf_parser *p)
{
    gbnf_tree *t = p->t;
    const size_t from = p->at;
    const unsigned char sign = gbnf_peek(p, 0);
    const uint32_t part = t->nodes[p->open[p->depth].sequence].last;
    uint32_t min = sign == '+', max = sign == '?' ? 1 : RULES_NO_LIMIT, inner;
    if (part == RULES_NONE)
        return gbnf_invalid(p, from, "repetition with nothing before it");
    if (t->nodes[part].kind == GBNF_REPEAT)
        return gbnf_invalid(p, from, "repetition of a repetition needs parentheses");
    if (sign == '{')
        TRY(gbnf_read_braces(p, &min, &max));
    else
        p->at++;
    TRY(gbnf_new_node(p, GBNF_REPEAT, &inner));
    /* The element moves into the new node, so that the list of the sequence stays unchanged. */
    const gbnf_node moved = t->nodes[part];
    t->nodes[part] = t->nodes[inner];
    t->nodes[inner] = moved;
    t->nodes[part].min = min;
    t->nodes[part].max = max;
    gbnf_append_child(t, part, inner);
    return MOTE_OK;
}

/* ---- groups ---- */

static mote_status gbnf_next_alternative(gbnf_parser *p)
{
    gbnf_open *group = &p->open[p->depth];
    TRY(gbnf_new_node(p, GBNF_SEQUENCE, &group->sequence));
    gbnf_append_child(p->t, group->any_of, group->sequence);
    return MOTE_OK;
}

static mote_status gbnf_begin_group(gbnf_parser *p)
{
    uint32_t node;
    if (gbnf_peek(p, 1) == '=')
        return gbnf_unsupported(p, p->at, "lookahead is");
    if (p->depth == GBNF_MAX_DEPTH)
        return gbnf_invalid(p, p->at, "groups nested more than 64 deep");
    TRY(new_element(p, GBNF_ANY_OF, &node));
    p->open[++p->depth] = (gbnf_open){.any_of = node, .at = p->at};
    p->at++;
    return gbnf_next_alternative(p);
}

static mote_status gbnf_end_group(gbnf_parser *p)
{
    if (p->depth == 0)
        return gbnf_invalid(p, p->at, "unmatched closing parenthesis");
    p->depth--;
    p->at++;
    return MOTE_OK;
}

static mote_status gbnf_read_next(gbnf_parser *p)
{
    const unsigned char c = gbnf_peek(p, 0);
    switch (c) {
    case '"': return read_string_element(p);
    case '[': return read_class_element(p, false);
    case '.': return read_class_element(p, true);
    case '(': return gbnf_begin_group(p);
    case ')': return gbnf_end_group(p);
    case '|': p->at++; return gbnf_next_alternative(p);
    case '*':
    case '+':
    case '?':
    case '{': return read_repetition(p);
    case '<':
    case '!': return gbnf_unsupported(p, p->at, "token references are");
    case '/': return gbnf_unsupported(p, p->at, "regular expressions between slashes are");
    default: break;
    }
    return is_name_char(c)
               ? read_rule_reference(p)
               : gbnf_invalid(p, p->at,
                              "expected a string in double quotes, a class in brackets, "
                              "a rule name, a group, '|' or a new line");
}

/* ---- rules ---- */

/* Reads the name and `::=`. */
static mote_status begin_rule(gbnf_parser *p)
{
    const size_t n = definition_here(p), at = p->at;
    uint32_t rule;
    if (name_here(p).n == 0)
        return gbnf_invalid(p, at, "expected a rule name: letters, digits, '-' and '_'");
    if (n == 0) {
        p->at += name_here(p).n;
        skip_spaces(p);
        return gbnf_invalid(p, p->at, "expected '::=' after a rule name");
    }
    TRY(gbnf_rule_of(p, name_here(p), &rule));
    if (p->t->rules[rule].body != RULES_NONE)
        return err_set(p->err, MOTE_E_ARG, "invalid grammar, %s: rule '%.*s' is defined twice",
                       gbnf_place_of(p->text, at).text, STR_ARG(p->t->rules[rule].name));
    TRY(gbnf_new_node(p, GBNF_ANY_OF, &p->open[0].any_of));
    p->t->rules[rule].body = p->open[0].any_of;
    p->t->rules[rule].at = at;
    p->at += n;
    return gbnf_next_alternative(p);
}

static mote_status read_rule(gbnf_parser *p)
{
    TRY(begin_rule(p));
    for (;;) {
        const bool new_line = gbnf_skip_blanks(p);
        if (!gbnf_more(p))
            break;
        if (definition_here(p) > 0 && (new_line || p->depth > 0)) {
            if (p->depth == 0)
                return MOTE_OK;
            break;
        }
        if (definition_here(p) > 0)
            return gbnf_invalid(p, p->at, "expected a new line before the next rule");
        TRY(gbnf_read_next(p));
    }
    return p->depth == 0
               ? MOTE_OK
               : gbnf_invalid(p, p->open[p->depth].at, "group has no closing parenthesis");
}

/* Every referenced rule must be defined, and there must be a rule `root`. */
static mote_status check_rule_names(gbnf_parser *p)
{
    const gbnf_tree *t = p->t;
    for (uint32_t i = 0; i < t->n_rules; i++)
        if (t->rules[i].body == RULES_NONE)
            return err_set(p->err, MOTE_E_ARG, "invalid grammar, %s: rule '%.*s' is not defined",
                           gbnf_place_of(p->text, t->rules[i].at).text, STR_ARG(t->rules[i].name));
    if (!strmap_get(&p->names, str_of("root"), &p->t->root))
        return err_set(p->err, MOTE_E_ARG,
                       "invalid grammar: no rule 'root'; the output starts with that rule");
    return MOTE_OK;
}

static mote_status gbnf_read_rules(gbnf_parser *p)
{
    TRY(strmap_init(&p->names, p->text.n < GBNF_MAX_RULES ? p->text.n : GBNF_MAX_RULES, p->err));
    gbnf_skip_blanks(p);
    while (gbnf_more(p))
        TRY(read_rule(p));
    return check_rule_names(p);
}

mote_status gbnf_parse(gbnf_tree *t, str text, mote_error *err)
{
    *t = (gbnf_tree){.text = text};
    if (text.n > GBNF_MAX_BYTES)
        return err_set(err, MOTE_E_ARG, "grammar of %zu bytes; at most %d", text.n, GBNF_MAX_BYTES);
    gbnf_parser p = {.t = t, .text = text, .err = err};
    const mote_status status = gbnf_read_rules(&p);
    strmap_fini(&p.names);
    return status;
}
