/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regex_parse.c - reads a regular expression into a tree.
 *
 * Groups that are open lie on a stack of fixed depth, so a pattern of nothing but
 * brackets costs no more than any other. Single characters and classes of them are
 * read by regex_class.c.
 */
#include "grammar/rules/regex_parser.h"

#include "grammar/rules/grow.h"

void regex_tree_fini(regex_tree *t)
{
    mem_free(t->nodes);
    char_class_fini(&t->ranges);
    *t = (regex_tree){0};
}

mote_status regex_wrong(const regex_parser *p, const char *what)
{
    return err_set(p->err, MOTE_E_ARG, "the pattern '%.*s' has %s at byte %zu", STR_ARG(p->text),
                   what, p->at);
}

mote_status regex_refused(const regex_parser *p, const char *what)
{
    return err_set(p->err, MOTE_E_UNSUPPORTED, "the pattern '%.*s' uses %s, which is not supported",
                   STR_ARG(p->text), what);
}

static mote_status new_node(regex_parser *p, regex_kind kind, uint32_t *out)
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

/* ---- atoms and quantifiers ---- */

static mote_status class_node(regex_parser *p, uint32_t *out)
{
    TRY(new_node(p, REGEX_CLASS, out));
    p->t->nodes[*out].first = p->t->ranges.n;
    return MOTE_OK;
}

static void close_class(regex_parser *p, uint32_t node)
{
    p->t->nodes[node].n = p->t->ranges.n - p->t->nodes[node].first;
}

static mote_status read_escape(regex_parser *p, uint32_t *out)
{
    const unsigned char name = regex_peek(p, 0);
    if (name == 'b' || name == 'B')
        return regex_refused(p, "a word border (\\b)");
    if (name == 'A' || name == 'z' || name == 'Z')
        return regex_refused(p, "an anchor of another dialect");
    TRY(class_node(p, out));
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

static mote_status read_char(regex_parser *p, uint32_t *out)
{
    uint32_t c;
    if (!dfa_decode(p->text, &p->at, &c))
        return regex_wrong(p, "ill-formed UTF-8");
    TRY(class_node(p, out));
    if (c == '.')
        TRY(regex_add_dot(p));
    else
        TRY(regex_add_range(p, c, c));
    close_class(p, *out);
    return MOTE_OK;
}

static mote_status read_atom(regex_parser *p, uint32_t *out)
{
    switch (regex_peek(p, 0)) {
    case '^': p->at++; return new_node(p, REGEX_AT_START, out);
    case '$': p->at++; return new_node(p, REGEX_AT_END, out);
    case '\\': p->at++; return read_escape(p, out);
    case '[':
        p->at++;
        TRY(new_node(p, REGEX_CLASS, out));
        return regex_read_class(p, *out);
    case '*':
    case '+':
    case '?': return regex_wrong(p, "a quantifier with nothing before it");
    default: return read_char(p, out);
    }
}

static bool read_count(const regex_parser *p, size_t *ahead, uint32_t *value)
{
    const size_t from = *ahead;
    *value = 0;
    for (; regex_peek(p, *ahead) >= '0' && regex_peek(p, *ahead) <= '9'; ++*ahead)
        *value = *value > REGEX_MAX_REPEAT ? *value : *value * 10 + (regex_peek(p, *ahead) - '0');
    return *ahead > from;
}

/* {n}, {n,} or {n,m}; a brace that is none of them is a character like others. */
static bool read_braces(regex_parser *p, uint32_t *min, uint32_t *max)
{
    size_t ahead = 1;
    if (!read_count(p, &ahead, min))
        return false;
    *max = *min;
    if (regex_peek(p, ahead) == ',') {
        ahead++;
        if (!read_count(p, &ahead, max))
            *max = RULES_NO_LIMIT;
    }
    if (regex_peek(p, ahead) != '}')
        return false;
    p->at += ahead + 1;
    return true;
}

static bool read_quantifier(regex_parser *p, uint32_t *min, uint32_t *max)
{
    *max = RULES_NO_LIMIT;
    *min = 0;
    switch (regex_peek(p, 0)) {
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
static mote_status add_atom(regex_parser *p, uint32_t atom)
{
    uint32_t min, max, node = atom;
    if (read_quantifier(p, &min, &max)) {
        if (min > REGEX_MAX_REPEAT || (max != RULES_NO_LIMIT && max > REGEX_MAX_REPEAT))
            return regex_wrong(p, "a repetition of more than 10,000");
        if (min > max)
            return regex_wrong(p, "a repetition whose limits are reversed");
        TRY(new_node(p, REGEX_REPEAT, &node));
        p->t->nodes[node].min = min;
        p->t->nodes[node].max = max;
        append_child(p->t, node, atom);
        if (regex_peek(p, 0) == '?')
            p->at++;
    }
    append_child(p->t, p->open[p->depth][1], node);
    return MOTE_OK;
}

/* ---- groups ---- */

static mote_status open_group(regex_parser *p)
{
    uint32_t *group = p->open[p->depth];
    TRY(new_node(p, REGEX_ANY_OF, &group[0]));
    TRY(new_node(p, REGEX_CONCAT, &group[1]));
    append_child(p->t, group[0], group[1]);
    return MOTE_OK;
}

static mote_status begin_group(regex_parser *p)
{
    if (regex_starts_with(p, "(?=") || regex_starts_with(p, "(?!") ||
        regex_starts_with(p, "(?<=") || regex_starts_with(p, "(?<!"))
        return regex_refused(p, "lookaround");
    if (regex_starts_with(p, "(?:")) {
        p->at += 3;
    } else if (regex_starts_with(p, "(?<") || regex_starts_with(p, "(?P<")) {
        while (regex_more(p) && regex_peek(p, 0) != '>')
            p->at++;
        p->at += regex_more(p);
    } else if (regex_starts_with(p, "(?")) {
        return regex_refused(p, "a flag or a group of another dialect");
    } else {
        p->at++;
    }
    if (p->depth == REGEX_MAX_DEPTH)
        return regex_wrong(p, "groups more than 64 deep");
    p->depth++;
    return open_group(p);
}

static mote_status end_group(regex_parser *p)
{
    if (p->depth == 0)
        return regex_wrong(p, "a closing bracket too many");
    p->at++;
    const uint32_t group = p->open[p->depth--][0];
    return add_atom(p, group);
}

static mote_status next_alternative(regex_parser *p)
{
    p->at++;
    uint32_t *group = p->open[p->depth];
    TRY(new_node(p, REGEX_CONCAT, &group[1]));
    append_child(p->t, group[0], group[1]);
    return MOTE_OK;
}

static mote_status read_next(regex_parser *p)
{
    uint32_t atom;
    switch (regex_peek(p, 0)) {
    case '(': return begin_group(p);
    case ')': return end_group(p);
    case '|': return next_alternative(p);
    default: TRY(read_atom(p, &atom)); return add_atom(p, atom);
    }
}

mote_status regex_parse(regex_tree *t, str pattern, mote_error *err)
{
    *t = (regex_tree){0};
    regex_parser p = {.t = t, .text = pattern, .err = err};
    if (pattern.n > REGEX_MAX_BYTES)
        return err_set(err, MOTE_E_ARG, "a pattern has %zu bytes, more than %d", pattern.n,
                       REGEX_MAX_BYTES);
    TRY(open_group(&p));
    while (regex_more(&p))
        TRY(read_next(&p));
    if (p.depth > 0)
        return regex_wrong(&p, "a group without its end");
    t->root = p.open[0][0];
    return MOTE_OK;
}
