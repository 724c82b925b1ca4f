/* SPDX-License-Identifier: Apache-2.0 */
/* gbnf_ast.h - syntax tree of a GBNF grammar: written by gbnf_parse.c, read by gbnf.c. */
#ifndef MOTE_GRAMMAR_RULES_GBNF_AST_H
#define MOTE_GRAMMAR_RULES_GBNF_AST_H

#include "grammar/rules/gbnf.h"
#include "grammar/rules/dfa.h"
#include "base/str.h"

typedef enum gbnf_kind {
    GBNF_TEXT,     /* the string bytes[first .. first + n) */
    GBNF_CLASS,    /* one character of ranges[first .. first + n) */
    GBNF_CALL,     /* the rule `first` */
    GBNF_SEQUENCE, /* the children in sequence; none: the empty string */
    GBNF_ANY_OF,   /* one of the children */
    GBNF_REPEAT    /* the child, min to max times */
} gbnf_kind;

typedef struct gbnf_node {
    uint8_t kind;
    bool nullable; /* matches the empty string; set by gbnf.c */
    uint32_t first, n;
    uint32_t min, max;
    uint32_t child;   /* first child or RULES_NONE */
    uint32_t last;    /* last child */
    uint32_t sibling; /* next child of the same parent or RULES_NONE */
} gbnf_node;

typedef struct gbnf_rule {
    str name;
    uint32_t body; /* a node; RULES_NONE: referenced, but not defined */
    size_t at;     /* byte offset of its definition, or of the first reference */
} gbnf_rule;

typedef struct gbnf_tree {
    str text;
    gbnf_node *nodes;
    gbnf_rule *rules;
    char_class ranges;
    strbuf bytes;
    uint32_t n_nodes, nodes_room, n_rules, rules_room;
    uint32_t root; /* a rule */
} gbnf_tree;

/* The tree must be freed also after a failure. */
mote_status gbnf_parse(gbnf_tree *t, str text, mote_error *err);
void gbnf_tree_fini(gbnf_tree *t);

/* "line L, column C" of a byte offset; both count from 1, columns in characters. */
typedef struct gbnf_place {
    char text[64];
} gbnf_place;
gbnf_place gbnf_place_of(str text, size_t at);

#endif
